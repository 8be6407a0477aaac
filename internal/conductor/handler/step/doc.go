// Package step performs the work steps of a deployment on one host: replicate,
// deploy, test and own steps; and rounds of a bake, which test several hosts.
//
// The atomic parts on a host are done by the host program, one POSIX shell file (host.sh) that is sent there once and
// called by verbs; Go prepares its input and interprets its answers. Hosts differ only in the Host through which they
// are reached.
//
// The host owns the truth about itself: which release is current, which attempt was there last (the fence), what
// runs. An attempt never remembers what an earlier one did; it inspects the host and does the rest. So an attempt may
// be cut off at any point, on either side, and the next one finishes the work. A bake belongs to no host: how long it
// has gone well is in the log of its deployment.
package step
