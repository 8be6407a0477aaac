// Package local builds folders, snapshots and commits on this computer: it finds the files, the variables and the
// secrets of a build, plans it, chooses the runner of its steps, and gives all that to a worker.
//
// A Builder has the places and the console of its caller, and Options the caller's choices: the command line's flags,
// or those that a provisioner has sent (LaunchOptions). Run prepares a build in this order, and the first error ends
// it: the launch, the options, the source, the inbox through which files may still come, the earlier build, the
// build's file, facts of Git, the number, variables, passwords, the plan, secrets. A build that is served records
// also why it has no plan, since only its readers see that.
package local
