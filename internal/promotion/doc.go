// Package promotion decides how one revision goes through the environments of a Kubernetes pipeline. From the observed
// state of every target, the facts of the log and the time it computes which revision each environment should have,
// the next steps, and the reasons for waiting. It has no clock, does no I/O and knows no types of Kubernetes.
//
// # Who owns the truth
//
// The clusters do: a revision has passed an environment while its targets run it and are ready. The log adds what no
// cluster remembers: the revisions seen and their times, attempts, the opinions of people, and the environments that a run
// has finished. With an empty log the present states are the baseline.
//
// # Why not the engine of package pipeline
//
// That engine's only input is the log. Here the world flaps, is unknown, and is moved by others.
package promotion
