// Package pool keeps one connection to each cluster that pipelines deploy to. It watches the applications that pipelines
// name, keeps the part of each that decisions need, and reports changes. It knows no pipelines: its users are names.
//
// # States of a cluster
//
//   - Connecting: a first connection is being made. Targets are NotSynced.
//   - Syncing: it answers, and lists are being read, for at most five minutes. Unread objects are NotSynced.
//   - Connected: targets have the state of their objects.
//   - Disconnected: it answered 401, or five requests in a row failed. Targets are ClusterUnreachable. Their last states
//     are kept for people, decisions must not use them. Connecting is tried again after 1 s to 2 min.
//   - Refused: its kubeconfig cannot be used. Targets are ClusterNotReady until the Secret changes.
//   - Absent and NotReady: the GitopsCluster does not exist, or another controller reports that it is not ready.
//
// # Owners
//
// The users own the demand: Use replaces a user's whole declaration, so no reference count can be wrong. Unused
// watches and clusters end within five seconds. A cluster is the namespaced name of a GitopsCluster, or a name that the operator gave;
// "" is the management cluster, whose objects lead to all leaves. When it is away, the connections that it led to stay.
//
// A link is one connection with one configuration. It owns the watches and the objects seen through them. When the
// configuration changes, a second link is made, and replaces the first once it has read everything.
//
// # Why not the caches of controller-runtime
//
// They cannot end the connection of one cluster, keep whole objects, and use one goroutine more for every handler.
package pool
