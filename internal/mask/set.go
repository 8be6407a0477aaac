package mask

import (
	"maps"
	"slices"
	"strings"
	"sync/atomic"
)

// mostEncoded is the size in bytes of the secrets, the shortest first, that are searched for in their encodings.
// Longer ones are searched for as they are and by their lines, since a Set needs about 1 KiB for each byte with its
// encodings.
const mostEncoded = 32 << 10

// mostForms is the size in bytes of these encodings. Characters that each encoding makes long reach it first.
const mostForms = 2 << 20

// mark replaces a secret.
const mark = "***"

// Set is the search machine of a Stream: an Aho-Corasick automaton over the bytes of secrets in all their forms. Its
// needles never change, and several streams may use one. A nil Set has no secrets.
type Set struct {
	mark   string       // in the place of a secret
	marks  atomic.Int64 // written so far
	states []state
	root   [256]int32 // next state of the root; the root is state 0
	starts starts
}

// state is a text that begins one of the needles. Its children are a list linked by sibling.
type state struct {
	child, sibling int32 // 0: none
	fail           int32 // the longest proper suffix that is a state too
	depth          int32 // bytes of the text
	match          int32 // bytes of the longest needle that the text ends with; 0: none
	begun          int32 // bytes of the longest end of the text that a needle continues; 0: none
	last           byte

	coded      bool  // the text begins a needle that may be broken into lines
	broken     int32 // the longest end of the text that is coded, as a state; 0: none
	codedMatch int32 // as match, and begun, of needles that may be broken
	codedBegun int32
}

// needle is a text to search for.
type needle struct {
	text  string
	coded bool // line ends and spaces may be in it: see codedForms
}

// NewSet returns a set of these secrets, or nil when none is long enough to be searched for.
func NewSet(secrets ...string) *Set { return NewNamedSet(mark, secrets...) }

// NewNamedSet returns a set of these secrets with their replacements, or nil as NewSet does.
func NewNamedSet(mark string, secrets ...string) *Set {
	needles := needlesOf(secrets)
	if len(needles) == 0 {
		return nil
	}
	set := compile(needles)
	set.mark = mark
	return set
}

// Marks returns in how many places streams and texts have had secrets replaced.
func (s *Set) Marks() int64 {
	if s == nil {
		return 0
	}
	return s.marks.Load()
}

// needlesOf returns the texts to search for: each secret, its lines and its encodings.
func needlesOf(secrets []string) []needle {
	found := map[string]bool{} // coded, by text
	add := func(coded bool, texts ...string) {
		for _, text := range texts {
			if len(text) >= Shortest {
				found[text] = found[text] || coded
			}
		}
	}
	encoded, size := 0, 0
	for _, secret := range slices.SortedFunc(slices.Values(secrets), func(a, b string) int { return len(a) - len(b) }) {
		secret = strings.TrimSpace(secret) // the newline that a file ends with is not secret
		if len(secret) < Shortest {
			continue // its encodings, such as 0x31, would occur everywhere too
		}
		add(false, secret, visible(secret))
		add(false, Lines(secret)...)
		if encoded += len(secret); encoded <= mostEncoded {
			forms := Forms(secret)
			for _, form := range forms {
				size += len(form)
			}
			if size <= mostForms {
				add(false, forms...)
				add(true, codedForms(secret)...)
			}
		}
	}
	needles := make([]needle, 0, len(found))
	for _, text := range slices.Sorted(maps.Keys(found)) {
		needles = append(needles, needle{text, found[text]})
	}
	return needles
}

// compile makes the automaton of needles, none of which is empty.
func compile(needles []needle) *Set {
	s := &Set{mark: mark, states: make([]state, 1)}
	for _, n := range needles {
		s.add(n)
	}
	s.link()
	s.starts.fill(needles)
	return s
}

// add makes states of a needle and its beginnings.
func (s *Set) add(n needle) {
	var at int32
	for i := range len(n.text) {
		next := s.childOf(at, n.text[i])
		if next == 0 {
			next = int32(len(s.states)) //nolint:gosec // needles have far less than 2 GiB
			s.states = append(s.states, state{sibling: s.states[at].child, depth: s.states[at].depth + 1, last: n.text[i]})
			s.states[at].child = next
		}
		if n.coded {
			s.states[next].coded = true
			if at != 0 {
				s.states[at].codedBegun = s.states[at].depth
			}
		}
		at = next
	}
	s.states[at].match = s.states[at].depth
	if n.coded {
		s.states[at].codedMatch = s.states[at].depth
	}
}

func (s *Set) childOf(at int32, b byte) int32 {
	for next := s.states[at].child; next != 0; next = s.states[next].sibling {
		if s.states[next].last == b {
			return next
		}
	}
	return 0
}

// link finds the fail state of each state, the shallow ones first.
func (s *Set) link() {
	queue := make([]int32, 0, len(s.states))
	for next := s.states[0].child; next != 0; next = s.states[next].sibling {
		s.root[s.states[next].last] = next
		s.inherit(next)
		queue = append(queue, next)
	}
	for len(queue) > 0 {
		at := queue[0]
		queue = queue[1:]
		for next := s.states[at].child; next != 0; next = s.states[next].sibling {
			s.states[next].fail = s.next(s.states[at].fail, s.states[next].last)
			s.inherit(next)
			queue = append(queue, next)
		}
	}
}

// inherit completes a state's ends of its text by those of its fail state.
func (s *Set) inherit(at int32) {
	n, shorter := &s.states[at], &s.states[s.states[at].fail]
	n.match = max(n.match, shorter.match)
	n.codedMatch = max(n.codedMatch, shorter.codedMatch)
	n.codedBegun = max(n.codedBegun, shorter.codedBegun)
	if n.begun = shorter.begun; n.child != 0 {
		n.begun = n.depth
	}
	if n.broken = shorter.broken; n.coded {
		n.broken = at
	}
}

// next returns the state after one more byte.
func (s *Set) next(at int32, b byte) int32 {
	for at != 0 {
		if next := s.childOf(at, b); next != 0 {
			return next
		}
		at = s.states[at].fail
	}
	return s.root[b]
}

// Text returns a text without secrets.
func (s *Set) Text(text string) string {
	if s == nil {
		return text
	}
	var out strings.Builder
	emit := func(b []byte) { out.Write(b) }
	stream := Stream{Set: s}
	stream.Write([]byte(text), emit)
	stream.end(false, emit)
	return out.String()
}
