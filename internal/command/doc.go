// Package command runs programs on this computer: the steps of a build, and
// what hosts of the kind local:// are asked to do. Whatever it starts has a
// session of its own and ends with this process, unless it is meant to stay.
package command
