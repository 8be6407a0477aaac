package ssh

import "strings"

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
