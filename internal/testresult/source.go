package testresult

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Bounds of a file.
const (
	maxSize       = 256 << 20 // bytes
	maxToken      = 16 << 20  // bytes of one tag, which is in memory as a whole
	maxAttributes = 1000      // attributes of one tag, each of which takes many times its bytes
)

// source reads a file byte by byte as UTF-8, whatever its encoding, and counts lines.
type source struct {
	in      *bufio.Reader
	order   binary.ByteOrder // byte order of UTF-16; nil for an encoding of bytes
	latin   bool             // a byte is a character
	pending []byte           // rest of a character that has more than one byte
	size    int              // bytes read
	token   int              // bytes returned since the parser has begun a token
	line    int
	skip    skipper
	closing int // bytes of cdataEnd that are still to be returned
}

func newSource(r io.Reader) *source {
	s := &source{in: bufio.NewReaderSize(r, 64<<10), line: 1}
	start, _ := s.in.Peek(4) // a shorter file has less, and an error appears again when it is read
	switch {
	case bytes.HasPrefix(start, []byte{0xef, 0xbb, 0xbf}):
		_, _ = s.in.Discard(3) // was peeked
	case bytes.HasPrefix(start, []byte{0xff, 0xfe}):
		s.order = binary.LittleEndian
		_, _ = s.in.Discard(2)
	case bytes.HasPrefix(start, []byte{0xfe, 0xff}):
		s.order = binary.BigEndian
		_, _ = s.in.Discard(2)
	case bytes.Equal(start, []byte{'<', 0, '?', 0}):
		s.order = binary.LittleEndian
	case bytes.Equal(start, []byte{0, '<', 0, '?'}):
		s.order = binary.BigEndian
	}
	return s
}

// declared takes the encoding that the file declares, and returns the reader of the rest.
func (s *source) declared(encoding string, input io.Reader) (io.Reader, error) {
	switch strings.ToLower(encoding) {
	case "utf8", "utf-8":
		return input, nil
	case "utf-16", "utf-16le", "utf-16be":
		if s.order == nil {
			return nil, errors.New("the file is in another encoding")
		}
		return input, nil
	case "iso-8859-1", "iso_8859-1", "latin1", "windows-1252", "us-ascii", "ascii":
		s.latin = s.order == nil
		return input, nil
	}
	return nil, errors.New("it is not supported; write UTF-8")
}

// Errors of a file that is too large.
var (
	errSize       = fmt.Errorf("the file is larger than %d MiB", maxSize>>20)
	errToken      = fmt.Errorf("a tag is larger than %d MiB", maxToken>>20)
	errAttributes = fmt.Errorf("a tag has more than %d attributes", maxAttributes)
)

// cdataEnd ends a CDATA section.
const cdataEnd = "]]>"

// ReadByte returns the next byte of UTF-8 that is not skipped.
func (s *source) ReadByte() (byte, error) {
	for {
		if s.closing > 0 {
			s.closing--
			return cdataEnd[len(cdataEnd)-1-s.closing], nil
		}
		b, err := s.allowed()
		if err != nil {
			return 0, err
		}
		skipped := s.skip.skipping
		if s.skip.drops(b) {
			continue
		}
		if skipped && b == '>' { // the brackets before it were skipped
			s.closing = len(cdataEnd)
			continue
		}
		if s.token++; s.token > maxToken {
			return 0, errToken
		}
		if s.skip.quoted > maxAttributes {
			return 0, errAttributes
		}
		return b, nil
	}
}

// allowed returns the next byte of UTF-8. A reference to a character that XML does not allow, such as &#27;, becomes the replacement
// character, and the version 1.1 becomes 1.0, which is all that the decoder knows: what differs is which characters are allowed.
func (s *source) allowed() (byte, error) {
	b, err := s.decode()
	switch {
	case err != nil:
	case b == '1' && s.skip.place == inInstruction && s.skip.last == [2]byte{'1', '.'}:
		return '0', nil
	case b == '&' && (s.skip.place == inText || s.skip.place == inQuotes):
		s.reference()
	}
	return b, err
}

// longestReference is the length in bytes of a reference to a character, beyond which it is the decoder's to refuse.
const longestReference = 16

// reference looks at the bytes after &, and puts them back; instead of a reference to a character that is not allowed
// it puts one to the replacement character.
func (s *source) reference() {
	var after []byte
	for len(after) < longestReference {
		b, err := s.decode()
		if err != nil { // the decoder gets it with its next read
			break
		}
		if after = append(after, b); b != '#' && strings.IndexByte("xX0123456789abcdefABCDEF", b) < 0 {
			break
		}
	}
	if digits, ok := strings.CutPrefix(string(after), "#"); ok && strings.HasSuffix(digits, ";") {
		base := 10
		if digits[0] == 'x' || digits[0] == 'X' {
			digits, base = digits[1:], 16
		}
		number, err := strconv.ParseUint(strings.TrimSuffix(digits, ";"), base, 32)
		if wrong := errors.Is(err, strconv.ErrRange); wrong || err == nil && !isCharacter(number) {
			after = []byte("#xFFFD;")
		}
	}
	s.pending = append(after, s.pending...)
}

// decode returns the next byte of UTF-8. What programs print and XML does not allow becomes the replacement character: a control
// character, and a byte that is not of UTF-8.
func (s *source) decode() (byte, error) {
	if len(s.pending) > 0 {
		b := s.pending[0]
		s.pending = s.pending[1:]
		return b, nil
	}
	b, err := s.next()
	switch {
	case err != nil:
		return 0, err
	case s.size > maxSize:
		return 0, errSize
	case s.order != nil:
		return s.wide(b)
	case b == '\n':
		s.line++
	case b >= utf8.RuneSelf && s.latin:
		return s.give(fromLatin(b))
	case b >= utf8.RuneSelf:
		return s.narrow(b)
	}
	if !isCharacter(uint64(b)) {
		return s.give(utf8.RuneError)
	}
	return b, nil
}

// narrow reads the rest of a character in UTF-8, whose first byte is given.
func (s *source) narrow(first byte) (byte, error) {
	rest, _ := s.in.Peek(utf8.UTFMax - 1) // a file that ends has less
	r, size := utf8.DecodeRune(append([]byte{first}, rest...))
	n, _ := s.in.Discard(size - 1) // was peeked
	s.size += n
	if !isCharacter(uint64(r)) { //nolint:gosec // not negative
		r = utf8.RuneError
	}
	return s.give(r)
}

// Read reads one byte: the decoder calls ReadByte, but wants a reader.
func (s *source) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	b, err := s.ReadByte()
	if err != nil {
		return 0, err
	}
	p[0] = b
	return 1, nil
}

func (s *source) next() (byte, error) {
	b, err := s.in.ReadByte()
	s.size++
	return b, err
}

// give returns the first byte of a character, and keeps the rest.
func (s *source) give(r rune) (byte, error) {
	s.pending = utf8.AppendRune(s.pending[:0], r)
	b := s.pending[0]
	s.pending = s.pending[1:]
	return b, nil
}

// wide reads the rest of a character in UTF-16, whose first byte is given.
func (s *source) wide(first byte) (byte, error) {
	r, err := s.unit(first)
	if err != nil {
		return 0, err
	}
	if utf16.IsSurrogate(r) {
		b, err := s.next()
		if err != nil {
			return 0, cutOff(err)
		}
		low, err := s.unit(b)
		if err != nil {
			return 0, err
		}
		r = utf16.DecodeRune(r, low)
	}
	switch {
	case r == '\n':
		s.line++
	case !isCharacter(uint64(r)): //nolint:gosec // not negative
		r = utf8.RuneError
	}
	return s.give(r)
}

// unit reads the second byte of 16 bits.
func (s *source) unit(first byte) (rune, error) {
	second, err := s.next()
	if err != nil {
		return 0, cutOff(err)
	}
	return rune(s.order.Uint16([]byte{first, second})), nil
}

// cutOff returns the error for an end inside a character.
func cutOff(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// isCharacter reports whether XML allows the character with this number.
func isCharacter(n uint64) bool {
	return n == '\t' || n == '\n' || n == '\r' || n >= ' ' && n < 0xd800 || n >= 0xe000 && n <= 0xfffd || n > 0xffff && n <= utf8.MaxRune
}

// latinSpecials are the characters of the bytes from 0x80 in windows-1252, which the files that
// declare ISO-8859-1 have too.
var latinSpecials = [32]rune{'€', '\u0081', '‚', 'ƒ', '„', '…', '†', '‡', 'ˆ', '‰', 'Š', '‹', 'Œ', '\u008d', 'Ž', '\u008f',
	'\u0090', '‘', '’', '“', '”', '•', '–', '—', '˜', '™', 'š', '›', 'œ', '\u009d', 'ž', 'Ÿ'}

func fromLatin(b byte) rune {
	if b >= 0x80 && b < 0xa0 {
		return latinSpecials[b-0x80]
	}
	return rune(b)
}
