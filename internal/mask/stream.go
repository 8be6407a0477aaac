package mask

// shortestRest is the length in bytes from which the beginning of a secret at the end of a stream is
// masked too: the program was ended while it printed the secret.
const shortestRest = 8

// Stream replaces secrets in one stream of bytes. It holds back only bytes that may be the
// beginning of a secret. Secrets that overlap become one mark.
type Stream struct {
	Set *Set // nil: nothing is replaced

	at    int32 // the state of the automaton
	held  []byte
	hits  []hit // in held, ascending, none overlapping
	inHit bool  // the first hit has been marked, and began before held
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
	for i := 0; i < len(data); i++ {
		if s.at == 0 { // most bytes begin no secret
			if i += s.Set.starts.none(data[i:]); i == len(data) {
				break
			}
		}
		s.at = s.Set.next(s.at, data[i])
		if n := s.Set.states[s.at].match; n > 0 {
			end := before + i + 1
			s.found(end-int(n), end)
		}
	}
	s.release(len(s.held)-int(s.Set.states[s.at].begun), emit)
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
			emit([]byte(mark))
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
}

// Close gives out what is left when the stream has ended. A long beginning of a secret is masked.
func (s *Stream) Close(emit func([]byte)) { s.end(true, emit) }

func (s *Stream) end(masked bool, emit func([]byte)) {
	if s.Set == nil {
		return
	}
	if rest := int(s.Set.states[s.at].begun); masked && rest >= shortestRest {
		s.found(len(s.held)-rest, len(s.held))
	}
	s.release(len(s.held), emit)
	*s = Stream{Set: s.Set}
}
