// Package docker runs the steps of a build in containers of a Docker Engine, local or remote, over
// the Engine API.
//
// A step is a container with an anonymous volume at /mnt/repo, which is filled through the archive endpoint before
// the container starts. Nothing of this computer's file system is mounted, so the Engine may be on another, and no
// file that a step makes belongs to root here.
//
// # Output
//
// What a step prints comes from the attach endpoint, which yields it byte for byte. When that connection breaks, the
// container's log is read from its start and the part that was taken already is skipped (position); it differs from
// the output only in bytes that are not UTF-8.
//
// # Leftovers
//
// Containers, volumes and networks have labels with the worker that made them. A worker holds a lock
// on a file as long as it lives, so the next one can see which of these nothing else will remove.
package docker
