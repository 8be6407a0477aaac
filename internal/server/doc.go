// Package server answers what people and programs ask of a running Waybill, in three forms: a Service answers within the
// process, a Server puts it behind HTTP with access rules, and a Client has the methods of a Service for another process. The
// job API (package ogc) and the pages (package web) are further faces of the same Service.
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
//   - A look at a service of this machine is under way, recent or forgotten. Requests share the look that is under way.
//   - The status, which counts every live row, is kept for 20 times as long as it took to read.
//
// A browser that logs in gets a one-time code, valid until it is used or 15 minutes old, and then a session, valid until it is
// ended, 12 hours old, or its token is revoked. Codes are in memory. Sessions are in the ledger, so that every instance accepts
// them. A stream is open until its client leaves, its credentials become invalid, or the process ends.
//
// # Invariants
//
//   - Whatever a Service answers, a Client answers too, with the same codes: fault.Code is the only thing that both sides map
//     to and from HTTP statuses.
//   - A request is let in before its body is read: first its origin, then its host, then its credentials, then the scope of its
//     operation. The order matters, since the browser of a foreign page may send a valid cookie.
//   - Each request may use a bounded amount of memory and time. Large bodies, definitions and linked inputs are read only a few
//     at a time, and a body must arrive at a minimum speed. Answers have no time limit, since clients follow streams.
//   - Streams of the API lose nothing: the id of each event is the position in the log from which a client resumes.
//   - A client never has to parse a text: what happened is in codes and fields, and texts are for people.
//
// # Why not the obvious way
//
//   - Views are not tables that writers keep up to date. Every writer would have to know every view, and a fault in one would
//     stay in the database. A fold repeats what the log says, and a restart repairs it.
//   - Views of several instances are not synchronized. Each instance folds for itself, and what it has not read yet it does not
//     show.
//   - Streams are server-sent events and not WebSockets: they work through proxies, and a browser resumes them by itself.
//   - A session on loopback belongs to a name below .localhost and not to 127.0.0.1, since browsers send a cookie to every port
//     of a host.
package server
