// Package config reads server.yaml: the configuration of the control plane, with its handlers,
// processes, schedules and conductors. Every key has a default, so no file is needed.
//
// # States
//
// A file is read, checked whole, prepared and put in force. Read and Check take the text and return
// a Config and all faults at once, with file, line and column. A Reloader reads the file every few
// seconds and on a signal. A file with faults is refused: the configuration in force stays, and the
// faults are reported once for each content of the file. The sections ledger, blob, server,
// conductors and builder, but for its tokens, are in force from the next start only.
//
// # Who owns the truth
//
// The file has the wanted state. Live holds the configuration in force in this process, and every operation takes it
// from there with one call of Now. Nothing of it is stored in the ledger: an action has its handler's name and its
// own policy, and the handler is looked up again when an attempt is made.
//
// # Invariants
//
//   - A Config is never changed once it is in force. Another replaces it as a whole, so no operation sees half of
//     a change.
//   - A configuration that was read has been checked: parameters against schemas, templates against the names that
//     they may use, filters and paths by compiling them. A fault is found when the file is loaded, not when an attempt is made.
//   - The tables of keys (document.Key) are the only list of the keys of a file. Reading, defaults, suggestions for
//     misspelled keys and the help text come from them.
//   - Secrets are named in the file and never contained in it.
//
// # Why not the obvious way
//
// Decoding into structs with a YAML library would stop at the first fault, and would not know the
// place of a value once it is decoded. The file is read as a tree of nodes with positions instead
// (packages yamltree and document).
//
// Watching the file for changes would miss mounted ConfigMaps, which replace a symbolic link. The
// content is compared instead.
package config
