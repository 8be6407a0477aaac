package build

import (
	"regexp"
	"strings"
)

// sequence finds what a program sends to move a cursor, to colour text or to name a window (ECMA-48).
var sequence = regexp.MustCompile("\x1b(\\[[0-?]*[ -/]*[@-~]|\\][^\x07\x1b]*(\x07|\x1b\\\\)|[@-Z\\\\-_])")

// VisibleText is a line as a terminal would show it: what stands after the last
// carriage return, without control characters, and as valid UTF-8.
func VisibleText(text []byte) string {
	line := strings.TrimRight(strings.ToValidUTF8(string(text), "\ufffd"), "\r")
	line = line[strings.LastIndexByte(line, '\r')+1:]
	line = sequence.ReplaceAllString(line, "")
	return strings.Map(func(r rune) rune {
		if r < 0x20 && r != '\t' || r >= 0x7f && r < 0xa0 {
			return -1
		}
		return r
	}, line)
}
