package ssh

import (
	"fmt"
	"strings"
)

// Quote returns argv as a line for the shell of an account. Each word is between single quotes, in
// which every POSIX shell takes all bytes as they are; a single quote itself is written outside of them.
// A command line cannot hold the byte 0: callers refuse it.
func Quote(argv []string) string {
	words := make([]string, len(argv))
	for i, word := range argv {
		words[i] = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
	}
	return strings.Join(words, " ")
}

// loginLine returns argv as a line for the login shell of an account, which need not be a POSIX shell: csh ends a quote
// at the end of a line and reads ! as history in it. A line with one of these is written in escapes, which sh reads.
func loginLine(argv []string) string {
	line := Quote(argv)
	if !strings.ContainsAny(line, "\n!") {
		return line
	}
	var text strings.Builder
	for _, b := range []byte("exec " + line) {
		if strings.IndexByte("\n!'\\", b) < 0 {
			text.WriteByte(b)
			continue
		}
		fmt.Fprintf(&text, `\0%03o`, b)
	}
	return `exec sh -c 'eval "$(printf %b "$0")"' '` + text.String() + `'`
}
