// Package cmdline is shared by all commands of one command line: the streams, the global flags, the printer, prompts
// at the terminal, the session with a log or a server, the project of the folder, completions, and how errors are
// reported.
//
// A command calls App for these things. Nothing here knows a command.
package cmdline
