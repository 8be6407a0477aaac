// Package server serves Waybill's API and pages over HTTP: the listener, access rules, login, problems, streams and the routes
// of all operations. A Server gets every answer from a service.Service; a Local performs operations in this process.
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
