package docker

import (
	"bytes"
	"unicode/utf8"
)

// messageSize is the number of bytes after which the Engine cuts a line of its log into messages.
const messageSize = 16 << 10

// position counts the received part of one output, so that the same can be skipped in the Engine's log. That cuts
// long lines into messages and puts U+FFFD in the place of every byte of a message that is not UTF-8, so whole lines
// are counted, and of the last one the bytes that the log has for it.
type position struct {
	lines   int64
	encoded int64  // bytes in the log of the begun line's earlier messages
	message []byte // begun
}

// add notes bytes of the output.
func (p *position) add(data []byte) {
	if last := bytes.LastIndexByte(data, '\n'); last >= 0 {
		p.lines += int64(bytes.Count(data[:last+1], []byte{'\n'}))
		p.encoded, p.message, data = 0, p.message[:0], data[last+1:]
	}
	for len(data) > 0 {
		n := min(len(data), messageSize-len(p.message))
		p.message = append(p.message, data[:n]...)
		data = data[n:]
		if len(p.message) == messageSize {
			p.encoded += encodedLength(p.message, true)
			p.message = p.message[:0]
		}
	}
}

// encodedLength returns the length of bytes in the log. If more may come, a begun character at the end counts as it is.
func encodedLength(data []byte, whole bool) int64 {
	n := int64(0)
	for len(data) > 0 {
		if !whole && !utf8.FullRune(data) {
			return n + int64(len(data))
		}
		r, size := utf8.DecodeRune(data)
		if r == utf8.RuneError && size == 1 {
			n += int64(len(string(utf8.RuneError)))
		} else {
			n += int64(size)
		}
		data = data[size:]
	}
	return n
}

// skipper drops from an output, read from its start, the part that a position counts as taken.
type skipper struct {
	lines, bytes int64
}

func (p *position) skipper() skipper {
	return skipper{p.lines, p.encoded + encodedLength(p.message, false)}
}

// rest returns the part of data that was not taken.
func (s *skipper) rest(data []byte) []byte {
	for s.lines > 0 {
		end := bytes.IndexByte(data, '\n')
		if end < 0 {
			return nil
		}
		s.lines--
		data = data[end+1:]
	}
	n := min(s.bytes, int64(len(data)))
	if end := bytes.IndexByte(data[:n], '\n'); end >= 0 { // the log has less of the line: never skip what follows it
		n, s.bytes = int64(end), int64(end)
	}
	s.bytes -= n
	return data[n:]
}
