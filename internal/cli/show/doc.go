// Package show turns the answers of the operations into lines of text.
//
// A function takes a view, the style of the output, and the time; it returns lines and does no I/O. A Printer writes
// them, or the view itself as JSON. Moving views on a terminal (Screen, Display, BuildView) writes to the Printer's
// output and knows nothing of commands.
package show
