package build

import (
	"regexp"
	"strings"
)

// sequence finds the sequence that a program sends to move a cursor, to colour text or to name a window (ECMA-48),
// begun by ESC or by the control character of its own. A string, such as a title, ends with BEL or ST, else with the
// line.
var sequence = regexp.MustCompile("(?:\x1b\\[|\u009b)([0-?]*)[ -/]*([@-~]?)|" +
	"(?:\x1b[\\]PX^_]|[\u0090\u0098\u009d\u009e\u009f])[^\x07\x1b\u009c\n]*(?:\x07|\x1b\\\\|\u009c)?|" +
	"\x1b[ -/]*[0-~]?")

// VisibleText returns a line as a terminal would show it: the text after the last
// carriage return, without control characters, and as valid UTF-8.
func VisibleText(text []byte) string { return VisibleColours(text, nil) }

// VisibleColours returns the same as VisibleText, with the colours for which keep reports true.
func VisibleColours(text []byte, keep func(parameters string) bool) string {
	line := strings.TrimRight(string(text), "\r")
	return strings.ReplaceAll(Printable(line[strings.LastIndexByte(line, '\r')+1:], keep), "\n", "")
}

// Printable returns text without sequences that a terminal obeys: control characters but tabs and line breaks,
// sequences, and the characters that turn the direction of text. keep selects the colours that pass, by the
// parameters of their sequence; nil: none.
func Printable(text string, keep func(parameters string) bool) string {
	text = strings.ToValidUTF8(text, "\ufffd")
	if !strings.ContainsFunc(text, isControl) {
		return text
	}
	var b strings.Builder
	rest := text
	for {
		at := sequence.FindStringSubmatchIndex(rest)
		if at == nil {
			break
		}
		plain(&b, rest[:at[0]])
		if colour := at[4] >= 0 && rest[at[4]:at[5]] == "m"; colour && keep != nil && keep(rest[at[2]:at[3]]) {
			b.WriteString("\x1b[" + rest[at[2]:at[3]] + "m")
		}
		rest = rest[at[1]:]
	}
	plain(&b, rest)
	return b.String()
}

// plain writes text without control characters.
func plain(b *strings.Builder, text string) {
	for _, r := range text {
		if !isControl(r) {
			b.WriteRune(r)
		}
	}
}

// isControl reports whether a terminal would obey a character instead of showing it.
func isControl(r rune) bool {
	switch {
	case r == '\t', r == '\n':
		return false
	case r < 0x20, r >= 0x7f && r < 0xa0: // C0, DEL, C1
		return true
	case r == 0x061c, r == 0x200e, r == 0x200f, r >= 0x2028 && r <= 0x202e, r >= 0x2066 && r <= 0x2069:
		return true // line and paragraph separators, and what turns the direction of text
	}
	return false
}

// IsColour reports whether the parameters of a sequence do nothing but colour: they do not conceal,
// and they are few.
func IsColour(parameters string) bool {
	if len(parameters) > 32 || strings.Trim(parameters, "0123456789;:") != "" {
		return false
	}
	values := strings.FieldsFunc(parameters, func(r rune) bool { return r == ';' || r == ':' })
	for i := 0; i < len(values); i++ {
		switch strings.TrimLeft(values[i], "0") {
		case "8":
			return false
		case "38", "48", "58": // a colour's own numbers follow: 5;N or 2;R;G;B
			if i+1 < len(values) && values[i+1] == "5" {
				i += 2
			} else {
				i += 4
			}
		}
	}
	return true
}
