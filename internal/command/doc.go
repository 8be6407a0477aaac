// Package command runs programs on this computer: the steps of a build, and the commands for hosts of the kind
// local://. Whatever it starts has a session of its own and ends with this process, unless it is meant to stay.
package command
