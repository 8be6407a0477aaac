package mask

import "strings"

// Classes of bytes inside a secret.
const (
	control = 1 << iota // may begin what no viewer shows: a control character, or a sequence that colours text or moves the cursor
	gap                 // is where a program may break encoded text: the end of a line, or a space, also escaped as in JSON and XML
)

// classes maps each byte to its classes.
var classes = func() (of [256]uint8) {
	for b := range 0x20 {
		of[b] = control
	}
	of['\t'], of['\n'], of['\r'] = gap, gap, control|gap
	of[0x7f], of[0xc2], of[0xd8], of[0xe2] = control, control, control, control // the last three: of UTF-8
	of[' '], of['\\'], of['&'] = gap, gap, gap
	return of
}()

// escape follows what is hidden in a text: control characters but tabs and line ends, sequences (ECMA-48), and the
// characters that turn the direction of text. It is where the text is; the zero value is in none. It hides the same
// as build.Printable removes.
type escape uint8

const (
	shown    escape = iota
	escaped         // after ESC
	escapedI        // after an intermediate byte of a short sequence
	csi             // in the parameters of a control sequence
	csiI            // in its intermediate bytes
	text            // in a string, such as a window's title
	textC2          // in a string, after the first byte of what may end it
	afterC2         // the first byte of a character that may be a control character
	afterD8
	afterE2
	afterE280
	afterE281
)

// take consumes the next byte. It returns how many bytes, ending with this one, have turned out to be shown, and whether this
// one is among them.
func (e *escape) take(b byte) (before int, itself bool) {
	if *e >= afterC2 {
		return e.character(b)
	}
	if *e != shown && e.sequence(b) {
		return 0, false
	}
	*e = shown // the sequence ended before b
	switch {
	case b == 0x1b:
		*e = escaped
	case b == 0xc2:
		*e = afterC2
	case b == 0xd8:
		*e = afterD8
	case b == 0xe2:
		*e = afterE2
	default:
		return 0, b >= 0x20 && b != 0x7f || b == '\t' || b == '\n'
	}
	return 0, false
}

// sequence takes the next byte of a sequence, and reports false if the sequence has ended before it.
func (e *escape) sequence(b byte) bool {
	switch *e {
	case escaped:
		switch {
		case b == '[':
			*e = csi
			return true
		case strings.IndexByte("]PX^_", b) >= 0:
			*e = text
			return true
		}
		return e.final(b, escapedI, '0')
	case escapedI:
		return e.final(b, escapedI, '0')
	case csi:
		if b >= '0' && b <= '?' {
			return true
		}
		return e.final(b, csiI, '@')
	case csiI:
		return e.final(b, csiI, '@')
	case textC2:
		if *e = text; b == 0x9c {
			*e = shown
			return true
		}
	}
	switch b { // escapes of a string
	case 0x07:
		*e = shown
	case 0x1b, '\n':
		return false
	case 0xc2:
		*e = textC2
	}
	return true
}

// final takes an intermediate or a final byte, and reports false if b is neither.
func (e *escape) final(b byte, intermediate escape, first byte) bool {
	switch {
	case b >= ' ' && b <= '/':
		*e = intermediate
	case b >= first && b <= '~':
		*e = shown
	default:
		return false
	}
	return true
}

// character takes the next byte of a character of UTF-8 that may be hidden.
func (e *escape) character(b byte) (before int, itself bool) {
	was := *e
	if next, hidden := was.follow(b); hidden {
		*e = next
		return 0, false
	}
	*e = shown
	pending := 1
	if was >= afterE280 {
		pending = 2
	}
	_, itself = e.take(b)
	return pending, itself
}

// follow returns where the text is after b, and whether b continues a character that may be hidden.
func (e escape) follow(b byte) (next escape, hidden bool) {
	switch e {
	case afterC2:
		switch {
		case b == 0x9b:
			return csi, true
		case b == 0x90, b == 0x98, b >= 0x9d && b <= 0x9f:
			return text, true
		}
		return shown, b >= 0x80 && b < 0xa0
	case afterD8:
		return shown, b == 0x9c
	case afterE2:
		return afterE280 + escape(b&1), b == 0x80 || b == 0x81
	case afterE280:
		return shown, b == 0x8e || b == 0x8f || b >= 0xa8 && b <= 0xae
	}
	return shown, b >= 0xa6 && b <= 0xa9 // afterE281
}

// visible returns a text without hidden characters.
func visible(secret string) string {
	var out []byte
	var at escape
	for i := range len(secret) {
		before, itself := at.take(secret[i])
		out = append(out, secret[i-before:i]...)
		if itself {
			out = append(out, secret[i])
		}
	}
	return string(out)
}
