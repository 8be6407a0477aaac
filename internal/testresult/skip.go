package testresult

import (
	"strings"
	"unicode/utf8"
)

// maxText bounds the bytes of one text that the decoder gets. Programs put all that their tests have printed into
// one, and the decoder holds a text in memory as a whole.
const maxText = 1 << 20

// Places in a file.
const (
	inText        = iota
	inOpening     // after <
	inTag         // an element's, or another < … >
	inQuotes      // in a quoted value of a tag
	inComment     // <!-- … -->
	inInstruction // <? … ?>
	inCData       // <![CDATA[ … ]]>
)

// skipper drops the rest of long texts. It follows the markup as far as that needs; what is not well
// formed is the decoder's to refuse.
type skipper struct {
	place    int
	opening  []byte  // what follows <
	last     [2]byte // the bytes before the present one, since the place began
	quote    byte
	quoted   int  // values in quotes of the tag so far
	length   int  // length of the text
	entity   bool // between & and ;
	skipping bool
}

// drops takes the next byte, and reports whether the decoder does not get it.
func (s *skipper) drops(b byte) bool {
	switch s.place {
	case inText:
		if b == '<' {
			s.enter(inOpening)
			return false
		}
		if s.skips(b) {
			return true
		}
		s.entity = b == '&' || s.entity && b != ';'
		return false
	case inCData:
		if b == '>' && s.last == [2]byte{']', ']'} {
			s.enter(inText)
			return false
		}
		skipped := s.skips(b)
		s.remember(b)
		return skipped
	}
	s.markup(b)
	return false
}

// skips counts a byte of a text, and reports whether the text is too long. It begins to skip between
// characters and outside of entities.
func (s *skipper) skips(b byte) bool {
	s.length++
	s.skipping = s.skipping || s.length > maxText && !s.entity && utf8.RuneStart(b)
	return s.skipping
}

// markup takes a byte that is not of a text.
func (s *skipper) markup(b byte) {
	switch {
	case s.place == inOpening:
		s.open(b)
		return
	case s.place == inQuotes && b == s.quote:
		s.enter(inTag)
	case s.place == inTag && (b == '"' || b == '\''):
		s.enter(inQuotes)
		s.quote = b
		s.quoted++
	case b != '>':
	case s.place == inTag, s.place == inInstruction && s.last[1] == '?', s.place == inComment && s.last == [2]byte{'-', '-'}:
		s.enter(inText)
		return
	}
	s.remember(b)
}

// open finds out what a < begins.
func (s *skipper) open(b byte) {
	s.opening = append(s.opening, b)
	s.quoted = 0
	switch start := string(s.opening); {
	case start == "!--":
		s.enter(inComment)
	case start == "![CDATA[":
		s.enter(inCData)
	case start == "?":
		s.enter(inInstruction)
	case b == '>':
		s.enter(inText)
	case !strings.HasPrefix("!--", start) && !strings.HasPrefix("![CDATA[", start):
		s.enter(inTag)
	}
}

// enter begins a place. A text in several parts is a text for each.
func (s *skipper) enter(place int) {
	s.place, s.opening, s.last = place, s.opening[:0], [2]byte{}
	s.length, s.entity, s.skipping = 0, false, false
}

func (s *skipper) remember(b byte) { s.last = [2]byte{s.last[1], b} }
