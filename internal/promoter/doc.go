// Package promoter carries revisions through the environments of Kubernetes pipelines: it observes applications and
// proposals, has package promotion decide, stores facts and actions, and writes the pipelines' status.
//
// # Who owns the truth
//
// The clusters and the log; see package promotion. The promoter keeps nothing that it could not read again.
//
// # One look at a pipeline
//
// A name comes into the queue when the pipeline, one of its applications, its rows in the log or a proposal has changed, when
// the clock alone changes its plan, and every ten minutes. A look reads the definition, declares its applications to the pool,
// decides, stores the decision in one transaction, and writes the status if its meaning has changed. A transaction that finds
// newer rows than those decided from stores nothing, and the look is repeated.
package promoter
