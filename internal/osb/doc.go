// Package osb has the Open Service Broker API 2.17 as far as it needs neither a store nor HTTP: requests, catalogs, and
// the effect of each request in each state of a service instance.
//
// A request passes the same checks in the same order on every route: its version, its headers, its body, the catalog,
// and the state of its service instance. Request parses it, Catalog checks it, and Subject decides: an answer, an
// operation to start, or an Error. A decision never writes: Start.Row returns the row that the caller
// stores in the transaction that enqueues an operation; services.Instance.Ended returns that of its end.
//
// The states of a service instance follow from its row and from the thread of its last operation:
//
//	none, gone ──provision──► provisioning ──► ready ◄──► updating
//	                             │               │           │
//	                             ▼               │           ▼
//	                      provision failed       │     update failed (as ready)
//	                             │               ▼
//	                             └─────────► deprovisioning ──► gone, or deprovision failed
//
// A delete is accepted in every state, because a platform that cleans up repeats it until it succeeds. It cancels the
// provision or the update that it finds.
package osb
