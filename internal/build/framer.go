package build

import (
	"bytes"
	"unicode/utf8"
)

// MaxText is the longest text of an entry in bytes; a longer line becomes several entries.
const MaxText = 32 << 10

// Framer cuts one stream of bytes into lines, of which it makes entries without a time. The zero value is ready.
type Framer struct {
	rest []byte // begun and not yet ended
	open bool   // a part of the present line has been given out
}

// Write takes the next bytes of the stream and gives each line that has ended,
// and each full part of a longer one, to emit. An entry's text is valid until emit returns.
func (f *Framer) Write(data []byte, emit func(Entry)) {
	for len(data) > 0 {
		end := bytes.IndexByte(data, '\n')
		if end < 0 {
			f.rest = append(f.rest, data...)
			break
		}
		f.rest = append(f.rest, data[:end]...)
		data = data[end+1:]
		text, crlf := bytes.CutSuffix(f.rest, []byte("\r"))
		f.rest = text
		f.cut(MaxText, emit)
		f.open = false
		emit(Entry{Text: f.rest, Marks: Marks{CRLF: crlf}})
		f.rest = f.rest[:0]
	}
	f.cut(MaxText+1, emit) // one byte may be the \r before a newline
}

// cut gives out full parts while the begun line has more than limit bytes, never inside a UTF-8
// sequence.
func (f *Framer) cut(limit int, emit func(Entry)) {
	for len(f.rest) > limit {
		n := MaxText
		for back := 0; back < utf8.UTFMax-1 && !utf8.RuneStart(f.rest[n]); back++ {
			n--
		}
		if !utf8.RuneStart(f.rest[n]) {
			n = MaxText // no UTF-8 anyway
		}
		f.part(n, emit)
	}
}

// part gives out the first n bytes of the begun line.
func (f *Framer) part(n int, emit func(Entry)) {
	f.open = true
	emit(Entry{Text: f.rest[:n], Marks: Marks{Partial: true}})
	f.rest = append(f.rest[:0], f.rest[n:]...)
}

// Begun reports whether part of an unfinished line is buffered.
func (f *Framer) Begun() bool { return len(f.rest) > 0 }

// Flush gives out a begun line as a part, because nothing has come for a while and
// a person may be waiting to answer a prompt. Bytes of a sequence that has not ended stay.
func (f *Framer) Flush(emit func(Entry)) {
	n := len(f.rest) - unfinished(f.rest)
	if n > 0 && f.rest[n-1] == '\r' {
		n--
	}
	if n == 0 {
		return
	}
	f.part(n, emit)
}

// Close gives out the rest when the stream has ended. A line without its newline is an entry.
func (f *Framer) Close(emit func(Entry)) {
	f.cut(MaxText, emit)
	if len(f.rest) > 0 || f.open {
		emit(Entry{Text: f.rest, Marks: Marks{Unended: true}})
	}
	f.rest, f.open = nil, false
}

// unfinished returns the number of bytes at the end that begin an incomplete UTF-8 sequence.
func unfinished(text []byte) int {
	for back := 1; back < utf8.UTFMax && back <= len(text); back++ {
		b := text[len(text)-back]
		if utf8.RuneStart(b) {
			if b >= utf8.RuneSelf && !utf8.FullRune(text[len(text)-back:]) {
				return back
			}
			return 0
		}
	}
	return 0
}
