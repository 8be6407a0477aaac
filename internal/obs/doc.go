// Package obs is what a running Waybill tells its operators: one way to log, the
// keys that every log line uses, and each component's metrics as a struct.
//
// There is no global registry and no global logger: a component is handed its
// own (wired in package cli) and works without one as well.
package obs
