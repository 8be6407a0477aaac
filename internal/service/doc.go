// Package service answers what people and programs ask of a running Waybill, without HTTP. Package server puts it behind HTTP
// with access rules, package client has its methods for another process, and package operation describes the requests of both.
// The job API (package ogc) and the pages (package web) are further faces of the same Service.
//
// # Who owns the truth
//
// The ledger does. A Service decides nothing: to answer it folds the log with pipeline.Engine, and a command becomes a note in
// the log, on which the deployer acts. The engine checks a command and an edit inside the transaction that stores them, so a
// view that is a moment old can never let an illegal one through.
//
// # The parts
//
//	fold.go, marks.go                   a pipeline's log, folded, and further facts of it for views
//	pipeline.go, deployment.go, run.go  the views of a pipeline and of a deployment
//	target.go, history.go, archive.go   the log of one target, and deployments that are archived
//	host.go, drift.go, left.go          hosts, those that differ from the log, and services that were left on them
//	look.go, observation.go             answers of hosts, to a request or to the loop of observe.go
//	proposal.go, plan.go, expect.go     edits, simulations, and times that are expected
//	command.go, preview.go              commands to deployments, and their effects before they are given
//	revision.go, artifact.go            registered revisions, and artifacts that were built elsewhere
//	status.go, trouble.go               the whole instance, and troubles for a person to look at
//	action.go, process.go, enqueue.go   actions, processes and their payloads
//	build_*.go                          builds; package buildview has their views
//	flow.go                             EventFlows; package flowview has their views
//	service_instance.go                 service instances of the broker
//	service_*.go                        other ones: supervised services
//	ref.go, words.go                    names of deployments and targets, and words for steps
//
// Every other file has one kind of request. Calls between files make no loops.
//
// # States
//
// What a Service keeps in memory can be lost at any time:
//
//   - A fold is the engine of one pipeline, as far as it has read the log. Each request first applies the rows that are new.
//     A fold that fails half-way is forgotten, and the next request folds the log from its start.
//   - A look at a service of this machine is running, recent or forgotten. Requests share the running look.
//   - The status, which counts every live row, is kept for 20 times as long as it took to read.
//
// # Invariants
//
//   - Whatever a Service answers, a Client answers too, with the same codes: fault.Code is the only thing that both sides map
//     to and from HTTP statuses.
//   - A client never has to parse a text: what happened is in codes and fields, and texts are for people.
//
// # Why not the obvious way
//
//   - Views are not tables that writers keep up to date. Every writer would have to know every view, and a fault in one would
//     stay in the database. A fold repeats what the log says, and a restart repairs it.
//   - Views of several instances are not synchronized. Each instance folds for itself, and what it has not read yet it does not
//     show.
package service
