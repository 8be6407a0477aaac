// Package assembly puts a running Waybill together: it finds and opens the log, builds the components over it, and
// rebuilds the parts that a changed server.yaml changes. It is the only package that knows which driver is used.
//
// The files, in the order in which a process goes through them: Place finds the log (place, home, trust), Open opens
// it with its Service (open, drivers), Roles builds the components (wire, handlers), and reloading keeps them up to
// date (reload). Beside these: the streams of commands (streams), backup and restore (copy), and `pipeline
// stop` (stop).
package assembly
