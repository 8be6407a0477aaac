// Package api serves the results of one build while it runs and afterwards, until a reader has acknowledged everything:
// the service waybill.worker.v1 and a few plain HTTP paths, on one port.
//
// Handlers read the files of the results and are woken by the store, so a slow reader delays only itself. A stream is
// resumed by a cursor: the id of an event or artifact, or a place in a log. Every stream ends after the build's final marker
// and all that came before it. The build's trailers decide whether an acknowledgement is final; the reader's word alone does not.
package api
