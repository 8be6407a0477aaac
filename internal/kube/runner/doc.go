// Package runner runs the steps of builds as pods on Kubernetes: it satisfies the worker's interface.
//
// A step is a pod with an init container that receives the workspace, a container of the step's image, and one that
// serves the results (package builder/shim). The runner reaches the shims by the pod's address or by port-forward,
// never by exec or pod logs, which lose bytes when a connection or a log file ends. One pure function judges a pod's
// report.
package runner
