package yamltree

import (
	"bytes"
	"regexp"
)

// blocks finds the lines of block scalars, such as scripts: their text has no keys. It reads whole lines that have one
// meaning only. After any other line, such as one that leaves a quote or a bracket open, it finds nothing more: it must never
// take a key for text.
type blocks struct {
	unsure bool
	open   bool // the lines so far end in a block scalar
	parent int  // its text is indented by more than this
	indent int  // indentation of its first line of text; 0: no line yet
}

// newBlocks returns a finder for a file. YAML knows ends of lines that split at \n would not see.
func newBlocks(data []byte) blocks {
	lines := bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n"))
	return blocks{unsure: bytes.ContainsAny(lines, "\r\u0085\u2028\u2029")}
}

// isText takes the next line and reports whether it is text of a block scalar.
func (b *blocks) isText(line []byte) bool {
	if b.unsure {
		return false
	}
	line = bytes.TrimRight(line, " \t\r")
	indent := len(line) - len(bytes.TrimLeft(line, " "))
	if b.open {
		if len(line) == 0 {
			return true
		}
		if b.indent == 0 {
			b.indent = max(indent, b.parent+1)
		}
		if indent >= b.indent {
			return true
		}
	}
	*b = b.after(line, indent)
	return false
}

// after returns the finder after a line outside of block scalars.
func (b *blocks) after(line []byte, indent int) blocks {
	parent, rest := indent, line[indent:]
	for bytes.HasPrefix(rest, []byte("- ")) {
		parent = len(line) - len(rest)
		rest = bytes.TrimLeft(rest[1:], " ")
	}
	if value, ok := cutKey(rest); ok {
		parent, rest = len(line)-len(rest), value
	}
	switch {
	case bytes.IndexByte(line, '\t') >= 0: // YAML takes it for a space in some places
		return blocks{unsure: true}
	case header.Match(rest):
		return blocks{open: true, parent: parent}
	case isWhole(rest):
		return blocks{}
	}
	return blocks{unsure: true}
}

// Values that end with their line: what begins a block scalar; what describes the value on the next lines; a quoted scalar; and a
// list of plain words and quoted scalars.
var (
	header     = regexp.MustCompile(`^(?:[&!]\S+ +)*[|>][-+]?(?: +#.*)?$`)
	properties = regexp.MustCompile(`^[&!]\S+(?: +[&!]\S+)*$`)
	quoted     = regexp.MustCompile(`^(?:"[^"\\]*"|'[^']*')(?: +#.*)?$`)
	list       = regexp.MustCompile(`^\[(?: *` + item + ` *,)*(?: *` + item + `)? *\](?: +#.*)?$`)
)

const item = `(?:"[^"\\]*"|'[^']*'|[^"'\[\]{},#\s]+)`

// cutKey returns what follows a key that is a plain scalar.
func cutKey(rest []byte) (value []byte, ok bool) {
	if !startsPlain(rest) {
		return nil, false
	}
	colon := bytes.IndexByte(rest, ':')
	if colon < 0 || bytes.Contains(rest[:colon], []byte(" #")) {
		return nil, false
	}
	value = bytes.TrimLeft(rest[colon+1:], " ")
	return value, len(value) < len(rest)-colon-1 || len(value) == 0
}

// isWhole reports whether a value ends with its line, and has no key.
func isWhole(rest []byte) bool {
	switch {
	case len(rest) == 0, rest[0] == '#', string(rest) == "-", string(rest) == "---":
		return true
	case properties.Match(rest), quoted.Match(rest), list.Match(rest):
		return true
	}
	text, _, _ := bytes.Cut(rest, []byte(" #"))
	return startsPlain(rest) && !bytes.Contains(text, []byte(": ")) && !bytes.HasSuffix(text, []byte(":"))
}

// startsPlain reports whether a text begins a plain scalar, or is an alias.
func startsPlain(rest []byte) bool {
	switch {
	case len(rest) == 0, bytes.HasPrefix(rest, []byte("---")):
		return false
	case rest[0] == '-':
		return len(rest) > 1 && rest[1] != ' '
	}
	return bytes.IndexByte([]byte("\"'[]{},#&!|>%@`?:"), rest[0]) < 0
}
