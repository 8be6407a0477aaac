// Package resource reads Pipelines of Kubernetes and writes their status. Parse checks an object and fills in defaults,
// which gives the spec that package promotion decides with and everything else that acting on a decision needs. Status
// computes the status from a decision.
//
// The CustomResourceDefinition requires no more than that of the original controller did, because stored objects must
// stay valid, and the definition installed in a cluster may be an older one. So Parse trusts nothing but that the object
// is JSON: each fault names its field, and a Pipeline with a fault is observed but promotes nothing.
package resource
