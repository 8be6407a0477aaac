// Package broker is the role broker: the Open Service Broker API 2.17 over HTTP, on a listener of its own, since a platform's
// credentials and host names are not those of Waybill's API.
//
// Package osb decides about each request, with the row of its service instance locked; package ledger stores the decision, so that row
// and operation are one transaction. An operation is an action, which a handler of server.yaml does: the queue repeats it, and its
// attempts, outputs and errors are those of any action. A service instance of a plan with a flow is an EventFlow of a cluster, which this
// package only reads: for the credentials of bindings, for leftovers of unknown service instances, and for the audit. Nothing is kept
// in memory but the catalogs, so several instances serve alike.
package broker
