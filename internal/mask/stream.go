package mask

// shortestRest is the length in bytes from which the beginning of a secret at the end of a stream is
// masked too: the program was ended while it printed the secret.
const shortestRest = 8

// Stream replaces secrets in one stream of bytes. It holds back only bytes that may be the
// beginning of a secret. Secrets that overlap become one mark.
type Stream struct {
	Set *Set // nil: nothing is replaced

	at     int32 // the state of the automaton
	seen   trail // the text as viewers show it
	broken trail // encoded text, without the gaps in it
	held   []byte
	hits   []hit // in held, ascending, none overlapping
	inHit  bool  // the first hit has been marked, and began before held
	column int   // bytes that may still be in the text column of a dump that shows a secret; 0: none
}

// hit is a secret's place in the held bytes.
type hit struct{ from, to int }

// Write takes the next bytes of the stream and gives to emit those that are decided. They are valid
// until emit returns.
func (s *Stream) Write(data []byte, emit func([]byte)) {
	if s.Set == nil {
		if len(data) > 0 {
			emit(data)
		}
		return
	}
	before := len(s.held)
	s.held = append(s.held, data...)
	s.broken.coded = true
	for i := 0; i < len(data); i++ {
		if s.idle() { // most bytes begin no secret
			if i += s.Set.starts.none(data[i:]); i == len(data) {
				break
			}
		}
		s.take(data[i], before+i)
	}
	s.release(s.decided(), emit)
}

// idle reports whether no match is in progress.
func (s *Stream) idle() bool {
	return s.at == 0 && s.seen.at == 0 && s.broken.at == 0 && s.column == 0
}

// take consumes the byte held[p].
func (s *Stream) take(b byte, p int) {
	if s.column > 0 {
		s.inColumn(b, p)
	}
	if s.at != 0 && classes[b] != 0 {
		for _, t := range []*trail{&s.seen, &s.broken} {
			if t.at == 0 {
				t.begin(s.Set, s.at, b, p)
			}
		}
	}
	s.at = s.Set.next(s.at, b)
	if n := s.Set.states[s.at].match; n > 0 {
		s.found(p+1-int(n), p+1)
	}
	if s.seen.at != 0 {
		s.seen.take(s.Set, s.held, p, s.found)
	}
	if s.broken.at != 0 {
		s.broken.take(s.Set, s.held, p, s.foundBroken)
	}
}

// foundBroken records encoded text. If it is in a dump, the text column of its last line shows the same secret.
func (s *Stream) foundBroken(from, to int) {
	s.found(from, to)
	if s.broken.layout.dump {
		s.column = mostColumn
	}
}

// inColumn puts a byte in the last hit, to the end of the line.
func (s *Stream) inColumn(b byte, p int) {
	if s.column--; b == '\n' {
		s.column = 0
	}
	if s.column > 0 {
		s.found(p-1, p+1)
	}
}

// decided returns how many held bytes no secret that is found later can begin in.
func (s *Stream) decided() int {
	n := len(s.held) - int(s.Set.states[s.at].begun)
	for _, t := range []*trail{&s.seen, &s.broken} {
		if t.at != 0 {
			n = min(n, t.start(s.Set))
		}
	}
	if s.column > 0 {
		n = min(n, len(s.held)-1)
	}
	return n
}

// Flush gives out the end of a line that is held back only since encoded text may continue in the next line, of which little has come:
// nothing has come for a while.
func (s *Stream) Flush(emit func([]byte)) {
	if s.Set == nil || s.broken.at == 0 || s.broken.begun(s.Set) >= shortestRest {
		return
	}
	s.broken.at = 0
	s.release(s.decided(), emit)
}

// found records a secret that ends later than those found before. Hits that it overlaps become one
// with it.
func (s *Stream) found(from, to int) {
	for len(s.hits) > 0 && s.hits[len(s.hits)-1].to > from {
		from = min(from, s.hits[len(s.hits)-1].from)
		s.hits = s.hits[:len(s.hits)-1]
	}
	s.hits = append(s.hits, hit{from, to})
}

// release gives out the first n held bytes: no secret that is found later begins in them.
func (s *Stream) release(n int, emit func([]byte)) {
	if n == 0 {
		return
	}
	done, used := 0, 0
	for _, h := range s.hits {
		if h.from >= n {
			break
		}
		if h.from > done {
			emit(s.held[done:h.from])
		}
		if !s.inHit {
			emit([]byte(s.Set.mark))
			s.Set.marks.Add(1)
		}
		done = min(h.to, n)
		if s.inHit = h.to > n; s.inHit {
			break
		}
		used++
	}
	if done < n {
		emit(s.held[done:n])
	}
	s.hits = append(s.hits[:0], s.hits[used:]...)
	for i := range s.hits {
		s.hits[i] = hit{max(s.hits[i].from-n, 0), s.hits[i].to - n}
	}
	s.held = append(s.held[:0], s.held[n:]...)
	s.seen.shift(n)
	s.broken.shift(n)
}

// Close gives out the rest when the stream has ended. A long beginning of a secret is masked.
func (s *Stream) Close(emit func([]byte)) { s.end(true, emit) }

func (s *Stream) end(masked bool, emit func([]byte)) {
	if s.Set == nil {
		return
	}
	if rest := int(s.Set.states[s.at].begun); masked && rest >= shortestRest {
		s.found(len(s.held)-rest, len(s.held))
	}
	for _, t := range []*trail{&s.seen, &s.broken} {
		if masked && t.at != 0 && t.begun(s.Set) >= shortestRest {
			s.found(t.start(s.Set), len(s.held))
		}
	}
	s.release(len(s.held), emit)
	*s = Stream{Set: s.Set}
}
