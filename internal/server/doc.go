// Package server serves Waybill's API and pages over HTTP: the listener, access rules, login, problems, streams and the routes
// of all operations. A Server gets every answer from a service.Service; a Local performs operations in this process.
//
// # The parts
//
//	server.go, connections.go    the listener, its routes and its bounds
//	access.go, credentials.go    who a request is from, and whether it may read
//	site.go, token.go, proof.go  the names of the server, the home's token and the proof of having it
//	login.go, session.go         logins of browsers
//	admit.go, query.go           whether an operation begins: its scope and its parameters
//	body.go, input.go            the time of a body, forms, and faults of inputs
//	api.go, route.go             the API and how it performs an operation
//	local.go                     the same operations in this process
//	problem.go, pointer.go       errors as the API shows them
//	json.go, event_stream.go     encodings of answers
//	stream_limit.go              how many streams may be open
//	schema.go                    names of schemas in the API's description
//	trace.go                     spans of requests
//
// Every other file has the routes of one noun. Calls lead from a noun's file to the files above, never back.
//
// # States
//
// A browser that logs in gets a one-time code, valid until it is used or 15 minutes old, and then a session, valid until it is
// ended, 12 hours old, or its token is revoked. Codes are in memory. Sessions are in the ledger, so that every instance accepts
// them. A stream is open until its client leaves, its credentials become invalid, or the process ends.
//
// # Invariants
//
//   - A request is let in before its body is read: first its origin, then its host, then its credentials, then the scope of its
//     operation. The order matters, since the browser of a foreign page may send a valid cookie.
//   - Each request may use a bounded amount of memory and time. Large bodies, definitions and linked inputs are read only a few
//     at a time, and a body must arrive at a minimum speed. Answers have no time limit, since clients follow streams.
//   - Streams of the API lose nothing: the id of each event is the position in the log from which a client resumes.
//
// # Why not the obvious way
//
//   - Streams are server-sent events and not WebSockets: they work through proxies, and a browser resumes them by itself.
//   - A session on loopback belongs to a name below .localhost and not to 127.0.0.1, since browsers send a cookie to every port
//     of a host.
package server
