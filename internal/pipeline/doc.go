// Package pipeline decides how revisions go through a pipeline that may be edited in the meantime. From the
// deployment log, the definition in force and the time it computes what comes next, what waits and why, and what an
// edit would do. It has no clock, does no I/O, starts no goroutine and reads no YAML.
//
// # Who owns the truth
//
// The log does, and its entries are the engine's only input. Facts record what is complete; notes
// record what is claimed, failed, excluded or requested; changes record which definition is in
// force. An Engine is a fold of these rows and may be thrown away at any time: the fold of the same
// rows decides the same. The journal stores what Decide returns. An engine whose decisions could
// not be stored is folded again, since it cannot undo them.
//
// # The parts
//
//	definition.go  what a pipeline is            compile.go     what is wrong with it
//	target.go      paths, resources, services    stages.go      the order of stages
//	layout.go      from a definition to G        graph.go       G with its hosts and resources
//	adjacency.go   steps, edges, components      walk.go        new, elided, resolved, doable
//	region.go      batches of a graph            batch.go       the holder of a batch
//	waves.go       how hosts are dealt to waves
//	entry.go       a row of the log              fold.go        what a row changes
//	engine.go      the state of a pipeline       deployment.go  the state of a deployment
//	ended.go       what is kept of the ended     moves.go       what an edit leaves alone
//	carry.go       a walk on another graph
//	live.go        live actions                  flight.go      hosts in flight
//	times.go       when each step's row came       numbers.go     numbers of what outlasts a graph
//	place.go       a move to another graph       until.go       the bound of a deployment
//	condition.go   what keeps a step back        front.go       what a step waits for
//	once.go        steps that run once
//	admission.go   condition 8, and freezes      approval.go    what people say about a stage
//	queue.go       the steps a pass looks at     pass.go        the pass, superseding
//	wake.go        what a pass looks at again    crowd.go       which other deployments a row concerns
//	decision.go    what a pass returns           failure.go     what follows from failures
//	edit.go        a new version                 introduce.go   steps that come too late
//	exclude.go     steps left out, and why       refuse.go      what an edit may not change
//	effect.go      an edit for one deployment    difference.go  an edit in words
//	command.go     what people may request       explain.go     reasons
//	state.go       states as people see them     simulate.go    virtual time
//	revision.go    a registered revision         violation.go   a broken invariant
//	reject.go      rejected revisions              rank.go        which deployment comes first
//	rollback.go    an older revision is brought back
//
// # States
//
// A step of a deployment is open, claimed (its action is live), complete, or
// failed until a retry is requested. Only completing is final. Beside
// that it may be elided, because a step strictly after it was complete or claimed
// before it came into the pipeline, or because it is excluded. An elided step is never run and
// never recorded as done, but walked through, so that nothing waits for it.
// A deployment is active, finished, failed, superseded or canceled by its last
// status row; only failed may become active again, until a newer deployment starts
// a host that it has still to do. While it is active or may come back, edits are
// judged by it; see Engine.inside.
//
// # Invariants
//
// Those marked ° are asserted while folding and deciding: a row that breaks one
// is refused with a *Violation. Tests check the rest after every row of random programs.
//
//	I1°  a step of a batch's region is claimed only for its holder; a batch is released only when drained,
//	     except to the rollback that takes it over
//	I2°  a step completes only after every unelided step strictly before it
//	I3°  per resource, the rank of starts never falls
//	I4°  per resource, at most one live action
//	I5   per event and deployment, all unelided instances at late pairs run, or none
//	I6°  pipeline-finished-successfully: every other step of G is resolved
//	I7   if nothing is live, failed, held or waiting for people or time, every deployment has ended; no deployments
//	     wait for each other forever
//	I8   the fold of any prefix of the log is the engine's state there; same rows and now, same decisions
//	I9°  no host is started at or over maxParallel in flight; more failures than maxFailed: no further claim in that stage
//	I10° a fact exists once; notes never change what is complete; an edit never makes a complete step incomplete
//	I11° an ended deployment claims nothing; its status stays, except failed: active by retry, canceled on request
//	I12  the engine's runnable steps and reasons are those of the definitions, after every row
//	I13  excluded changes by edits, skips and tolerated failures only, elided also by the end of a claim; neither by time
//	I14  every open step of an active deployment is runnable or has a reason
//	I15  between a failure under rollback and its rollback no other deployment acquires the batch; at most
//	     one rollback per failure
//
// # Numbers and names
//
// Inside one graph, steps and places are numbers. The steps of a stage follow each other, so an edit of
// one stage shifts those behind it as a whole: what a walk knows of them, and all else that is kept by number,
// is copied stage by stage (moves.go, carry.go), and only touched stages are computed again. The order in
// which steps are listed for people is breadth-first, in Graph.rank.
//
// Beside these the engine numbers what outlasts a graph: stages, groups, hosts, batches and resources (numbers.go).
// Data kept over all deployments is in slices by these numbers, so that a row of the log is looked up
// by name once, and a row of a pass not at all.
//
// Whatever a deployment keeps of steps that its graph may lack is kept by name: the path of a target
// and an event. So a row about a step that the graph lacks is valid, and it counts again when a later
// version has the step.
//
// Counts such as the hosts in flight and the failures of a stage are kept beside the walk. Each has
// one function that computes it (recountHost, recount), which is called for every row that may
// change the count. It compares the result with what was counted, so an extra call is harmless; a
// forgotten one is what the oracle finds.
//
// # Why not the obvious way
//
// The obvious way computes states, locks and conditions from scratch for every
// decision. The tests contain it as the oracle that random programs compare this
// package with.
// Here a walk over G is kept per deployment and followed row by row: completing,
// claiming and excluding only ever resolve or elide more steps, so together they
// cost O(V+E). What may undo something (a retry, the end of a claim that had elided something) computes
// that deployment again, and an edit the stages that it touches. A pass looks at the deployments
// that something has happened to, or that waited for what is free now. Of these it looks at steps
// that became doable and at blocked steps, and of a group at one waiting host only. So it gets
// slower neither with the hosts that wait nor with the deployments.
//
// A pass always takes the first runnable step of the oldest deployment that has
// one. That, and not a queue, makes `fifo` true when a younger deployment frees
// what an older one waits for.
//
// A rollback ranks just above the deployment that it undoes, not above all: a newer revision that
// waits must be able to go over it. A catch-up ranks just above the deployment
// that it completes.
//
// # Where to look
//
// What a pipeline is: definition.go holds what a waybill.yaml says, target.go the paths of its
// parts, and compile.go judges whether the stages make a pipeline (stages.go orders them). A
// definition that passes becomes the graph G of graph.go, whose steps layout.go lays out and
// adjacency.go connects; region.go has the parts of it that one deployment holds at a time, waves.go
// which hosts of a group run before which.
//
// What has happened: entry.go holds the rows of the log, fold.go applies one to the engine of
// engine.go, and deployment.go is what the engine keeps of a deployment. Its walk over G (walk.go)
// knows which steps are complete, live.go which are claimed, batch.go which regions it holds,
// flight.go which hosts count as in flight.
//
// What comes next: pass.go decides in the order of deployments, condition.go reports whether a step may start and
// what blocks it, queue.go which steps are looked at, wake.go which deployments, and crowd.go which deployments a
// start supersedes. failure.go decides what a failed step means for its stage; decision.go is the result.
// admission.go checks whether anything may start now, by the rules of package admission: windows depend on the time,
// freezes and approvals (approval.go) on people. command.go checks what a person requests, and until.go how far a
// deployment goes that was registered for one stage.
//
// What an edit does: edit.go compares two versions inside every deployment, difference.go and
// effect.go say so to people, refuse.go refuses what would move the ground below a deployment,
// introduce.go decides which of the new steps a deployment still gets, exclude.go which ones it
// does without, and place.go puts a deployment on the new graph.
//
// What people see: state.go the status, explain.go the reason of each open step, simulate.go the
// schedule of a plan. A broken invariant is a violation (violation.go), after which the engine is
// not used any more.
//
// The rules, and the decisions R1 to R25 that the tests name, are in docs/design/deployments.md.
package pipeline
