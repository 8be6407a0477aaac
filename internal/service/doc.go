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
