// Package obs has the reports of a running Waybill to its operators: one way to log, the keys that every log line
// uses, and each component's metrics as a struct.
//
// Nothing is global, neither registry nor logger: a component is given its
// own (wired in package assembly) and works without one as well.
package obs
