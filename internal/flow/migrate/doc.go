// Package migrate moves the service instances of Kyma's application broker to EventFlows, in place: no service instance is provisioned
// again, no Subscription is removed before its replacement is ready, and so no event is lost.
//
// Found is the state of a cluster and of the log. Plan and PlanRevert are pure: they return the steps that are left, in an order in which
// each can be the last one before the program is killed. Migration performs them one after the other. Every step has the same effect
// when it is done twice, and the next run plans again from the state it finds, so an interrupted migration is continued by repeating it.
//
// A flow is created suspended and with its finalizer: until the old objects are adopted the controller writes nothing for it, and a flow
// that a user deletes in between releases them in order. Former values are recorded in annotations for a revert, by the write that makes the
// change: migrated-from of a flow, injection of a namespace, former of a ServiceBroker.
package migrate
