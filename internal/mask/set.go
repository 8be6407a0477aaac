package mask

import (
	"slices"
	"strings"
	"sync/atomic"
)

// mostEncoded is the size in bytes of the secrets, the shortest first, that are looked for in their
// encodings. Longer ones are looked for as they are and by their lines, since a Set needs about 1 KiB
// for each byte with its encodings.
const mostEncoded = 32 << 10

// mostForms is the size in bytes of these encodings. Characters that each encoding makes long reach it first.
const mostForms = 2 << 20

// mark replaces a secret.
const mark = "***"

// Set is what a Stream looks for: an Aho-Corasick automaton over the bytes of secrets in all their
// forms. What it looks for never changes, and several streams may use one. A nil Set has no secrets.
type Set struct {
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
}

// NewSet returns a set of these secrets, or nil when none is long enough to be looked for.
func NewSet(secrets ...string) *Set {
	needles := needlesOf(secrets)
	if len(needles) == 0 {
		return nil
	}
	return compile(needles)
}

// Marks returns in how many places streams and texts have had secrets replaced.
func (s *Set) Marks() int64 {
	if s == nil {
		return 0
	}
	return s.marks.Load()
}

// needlesOf returns the texts to look for: each secret, its lines and its encodings.
func needlesOf(secrets []string) (needles []string) {
	encoded, size := 0, 0
	for _, secret := range slices.SortedFunc(slices.Values(secrets), func(a, b string) int { return len(a) - len(b) }) {
		secret = strings.TrimSpace(secret) // the newline that a file ends with is not secret
		if len(secret) < Shortest {
			continue // its encodings, such as 0x31, would occur everywhere too
		}
		needles = append(needles, secret)
		needles = append(needles, Lines(secret)...)
		if encoded += len(secret); encoded <= mostEncoded {
			forms := Forms(secret)
			for _, form := range forms {
				size += len(form)
			}
			if size <= mostForms {
				needles = append(needles, forms...)
			}
		}
	}
	slices.Sort(needles)
	return slices.DeleteFunc(slices.Compact(needles), func(n string) bool { return len(n) < Shortest })
}

// compile makes the automaton of needles, none of which is empty.
func compile(needles []string) *Set {
	s := &Set{states: make([]state, 1)}
	for _, needle := range needles {
		s.add(needle)
	}
	s.link()
	s.starts.fill(needles)
	return s
}

// add makes states of a needle and its beginnings.
func (s *Set) add(needle string) {
	var at int32
	for i := range len(needle) {
		next := s.childOf(at, needle[i])
		if next == 0 {
			next = int32(len(s.states)) //nolint:gosec // needles have far less than 2 GiB
			s.states = append(s.states, state{sibling: s.states[at].child, depth: s.states[at].depth + 1, last: needle[i]})
			s.states[at].child = next
		}
		at = next
	}
	s.states[at].match = s.states[at].depth
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
		if s.states[next].child != 0 {
			s.states[next].begun = 1
		}
		queue = append(queue, next)
	}
	for len(queue) > 0 {
		at := queue[0]
		queue = queue[1:]
		for next := s.states[at].child; next != 0; next = s.states[next].sibling {
			n := &s.states[next]
			n.fail = s.next(s.states[at].fail, n.last)
			n.match = max(n.match, s.states[n.fail].match)
			if n.begun = s.states[n.fail].begun; n.child != 0 {
				n.begun = n.depth
			}
			queue = append(queue, next)
		}
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
