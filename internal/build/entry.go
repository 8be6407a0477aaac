package build

import (
	"bytes"
	"strings"
	"time"
)

// Marks describe an entry beside a whole line of standard output.
type Marks struct {
	Stderr  bool // whether it is from standard error
	Partial bool // continues in the next entry of its stream
	Waybill bool // written by Waybill, not by the program
	CRLF    bool // the line ended with \r\n
	Unended bool // the stream ended without a newline
}

// Entry is one line of a log file.
type Entry struct {
	At time.Time
	Marks
	Text []byte // as the program printed it, without the line's end; not necessarily UTF-8
}

// Line is an entry with its place: its step, and its number in the step's log, which counts from 1.
type Line struct {
	Step int // 0: the build's own log
	ID   int64
	Entry
}

// ValidText returns the text with invalid UTF-8 replaced.
func (e Entry) ValidText() string { return strings.ToValidUTF8(string(e.Text), "\ufffd") }

// Stream returns who wrote an entry: stdout, stderr, or waybill.
func (m Marks) Stream() string {
	switch {
	case m.Waybill:
		return "waybill"
	case m.Stderr:
		return "stderr"
	}
	return "stdout"
}

// entryTime is RFC 3339 in UTC with nine digits, so that every entry's text begins at the same
// column.
const entryTime = "2006-01-02T15:04:05.000000000Z"

// mark encloses the letters of an entry's marks.
const mark = 0x1f

// FormatEntry appends the entry to dst: time, space, marks, text, newline. The text holds no
// newline.
func FormatEntry(dst []byte, e Entry) []byte {
	return FormatText(FormatTime(dst, e.At), e)
}

// FormatTime appends the time of an entry, as FormatEntry does, and the space after it.
func FormatTime(dst []byte, at time.Time) []byte {
	return append(at.UTC().AppendFormat(dst, entryTime), ' ')
}

// FormatText appends what FormatEntry appends after the time.
func FormatText(dst []byte, e Entry) []byte {
	if e.Marks != (Marks{}) || len(e.Text) > 0 && e.Text[0] == mark {
		dst = append(dst, mark)
		for _, m := range [...]struct {
			set    bool
			letter byte
		}{{e.Stderr, 'e'}, {e.Partial, 'p'}, {e.Waybill, 'w'}, {e.CRLF, 'r'}, {e.Unended, 'u'}} {
			if m.set {
				dst = append(dst, m.letter)
			}
		}
		dst = append(dst, mark)
	}
	dst = append(dst, e.Text...)
	return append(dst, '\n')
}

// Ending returns how the line ended: "\n", "\r\n", or "" if it continues in the next entry or the stream ended with it.
func (e Entry) Ending() string {
	switch {
	case e.Partial, e.Unended:
		return ""
	case e.CRLF:
		return "\r\n"
	}
	return "\n"
}

// AppendPrinted appends to dst the bytes that the program printed for the entry: none for one that Waybill wrote.
func (e Entry) AppendPrinted(dst []byte) []byte {
	if e.Waybill {
		return dst
	}
	return append(append(dst, e.Text...), e.Ending()...)
}

// longestTime is the most bytes of an entry's time: with nine digits and an offset such as +01:00.
const longestTime = len(entryTime) + 5

// ParseEntry reads one line of a log file, with or without its newline. The time may have any number of fractional
// digits: other programs write such files too. It never fails: a line that is not an entry becomes the text of an entry
// without a time.
func ParseEntry(line []byte) Entry {
	line = bytes.TrimSuffix(line, []byte("\n"))
	end := bytes.IndexByte(line[:min(len(line), longestTime+1)], ' ')
	if end < 0 {
		return Entry{Text: line}
	}
	at, err := time.Parse(time.RFC3339Nano, string(line[:end]))
	if err != nil {
		return Entry{Text: line}
	}
	e := Entry{At: ClampTime(at), Text: line[end+1:]}
	if marks, text, ok := cutMarks(e.Text); ok {
		e.Marks, e.Text = marks, text
	}
	return e
}

// cutMarks cuts the marks off the front of a text. It returns false if the text has none.
func cutMarks(text []byte) (Marks, []byte, bool) {
	if len(text) == 0 || text[0] != mark {
		return Marks{}, nil, false
	}
	var marks Marks
	for i, b := range text[1:] {
		switch b {
		case 'e':
			marks.Stderr = true
		case 'p':
			marks.Partial = true
		case 'w':
			marks.Waybill = true
		case 'r':
			marks.CRLF = true
		case 'u':
			marks.Unended = true
		case mark:
			return marks, text[i+2:], true
		default:
			return Marks{}, nil, false
		}
	}
	return Marks{}, nil, false
}
