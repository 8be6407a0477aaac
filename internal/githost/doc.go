// Package githost opens, updates, merges and closes proposals, which are the pull requests of Git hosts.
//
// A Client does so for one repository, over one driver per kind of host. The algorithm is in Client, once; a driver
// translates single calls. Every operation first reads the present state, so that it may be repeated after a crash or a
// lost response: a proposal is found again by its head and base, a merge by the state of the proposal.
//
// All requests go through the client of package webhook, with its proxy rules and its address guard. One credential
// makes one request at a time, with a pause between two writes. Error classifies failures for attempts.
//
// # Whose revision a proposal is
//
// The trailers of its newest commit determine it, then the details block of its body, because people edit bodies. The
// newest commit is that of the proposal, not that of its branch, which is made again for each revision.
package githost
