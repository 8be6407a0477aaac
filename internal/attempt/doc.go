// Package attempt is what every runner does around one attempt at a build's step, whether the step runs as a process
// or in a container: it puts needed artifacts and caches into the step's copy of the workspace, hands on the output
// of the step, and keeps the files that it leaves.
package attempt
