package mask

import "strings"

// mostHidden bounds the bytes that a trail passes over within one secret; with more the text is a different one.
const mostHidden = 64 << 10

// leastBroken is the number of bytes from which a gap may be in encoded text. Most lines end with a byte that begins some encoding of
// some secret.
const leastBroken = 2

// trail searches for secrets in the bytes of a stream that are left when others are passed over: what no viewer
// shows, and of encoded text the gaps. It begins where the first such byte follows the beginning of a secret, and
// ends when it knows no more than the stream's own automaton.
type trail struct {
	coded bool // searches for encoded text; else for all needles

	at     int32 // state; 0: not in use
	next   int   // first byte in held that was neither taken nor passed over
	gaps   []hit // the bytes passed over, ascending
	passed int   // bytes of gaps
	hidden escape
	layout layout
}

// begin begins a trail when b may be passed over. state is that of the stream's automaton before b, which is held[p].
func (t *trail) begin(set *Set, state int32, b byte, p int) {
	at, class := state, classes[b]
	if t.coded {
		if at = set.states[state].broken; class&control == 0 && set.states[at].depth < leastBroken {
			return
		}
	} else if class&control == 0 {
		return
	}
	if at != 0 {
		*t = trail{coded: t.coded, at: at, next: p, gaps: t.gaps[:0]}
	}
}

// take consumes the byte held[p], and passes each secret that ends with it to found.
func (t *trail) take(set *Set, held []byte, p int, found func(from, to int)) {
	before, itself := t.hidden.take(held[p])
	for i := p - before; i < p && t.at != 0; i++ {
		t.see(set, held[i], i, found)
	}
	switch {
	case t.at == 0 || t.hidden >= afterC2:
	case itself:
		t.see(set, held[p], p, found)
	default:
		t.pass(p)
	}
	if t.at != 0 {
		t.forget(t.start(set))
	}
}

// see consumes a byte that viewers show.
func (t *trail) see(set *Set, b byte, p int, found func(from, to int)) {
	if t.coded {
		switch t.layout.take(b, set.states[t.at].last, set.childOf(t.at, b) != 0) {
		case passed:
			if set.states[t.at].depth < leastBroken {
				t.at = 0
			}
			t.pass(p)
			return
		case foreign:
			t.at = 0
			return
		}
	}
	t.next = p + 1
	t.at = set.next(t.at, b)
	match := set.states[t.at].match
	if t.coded {
		t.at = set.states[t.at].broken
		match = set.states[t.at].codedMatch
	}
	if match > 0 {
		found(t.back(int(match)), p+1)
	}
	if begun := t.begun(set); begun == 0 || len(t.gaps) == 0 || begun <= t.next-t.gaps[len(t.gaps)-1].to {
		t.at = 0
	}
}

// pass passes over the bytes to p.
func (t *trail) pass(p int) {
	if last := len(t.gaps) - 1; last >= 0 && t.gaps[last].to == t.next {
		t.gaps[last].to = p + 1
	} else {
		t.gaps = append(t.gaps, hit{t.next, p + 1})
	}
	t.passed += p + 1 - t.next
	t.next = p + 1
	if t.passed > mostHidden {
		t.at = 0
	}
}

// begun returns how many of the last bytes are the start of a needle.
func (t *trail) begun(set *Set) int {
	if t.coded {
		return int(set.states[t.at].codedBegun)
	}
	return int(set.states[t.at].begun)
}

// start returns the byte in held from which a needle may continue.
func (t *trail) start(set *Set) int { return t.back(t.begun(set)) }

// back returns where the last n bytes that were taken begin.
func (t *trail) back(n int) int {
	end := t.next
	for i := len(t.gaps) - 1; i >= 0 && n > end-t.gaps[i].to; i-- {
		n -= end - t.gaps[i].to
		end = t.gaps[i].from
	}
	return end - n
}

// forget forgets the gaps before start.
func (t *trail) forget(start int) {
	done := 0
	for ; done < len(t.gaps) && t.gaps[done].to <= start; done++ {
		t.passed -= t.gaps[done].to - t.gaps[done].from
	}
	t.gaps = append(t.gaps[:0], t.gaps[done:]...)
}

// shift reports that the first n held bytes have been given out.
func (t *trail) shift(n int) {
	t.next -= n
	for i := range t.gaps {
		t.gaps[i] = hit{t.gaps[i].from - n, t.gaps[i].to - n}
	}
}

// layout follows how encoded text is laid out: in lines, in groups of digits, and in the lines of a dump with an offset before the
// digits and the text after them.
type layout struct {
	part    part
	spaces  int  // spaces in the present gap
	line    bool // the present gap has the end of a line
	begins  bool // the last byte was the end of a line
	digits  int  // digits in the present group
	columns int  // bytes of the offset or of the text column
	dump    bool // a text column has been passed over
}

type part uint8

const (
	inDigits part = iota
	inGap
	inEscape // after a backslash
	inEntity // after &
	inColumn // the text column of a dump
	inOffset // the offset of its next line
)

// fate is the role of a byte in encoded text.
type fate uint8

const (
	taken   fate = iota // a digit
	passed              // in a gap
	foreign             // the text has ended
)

// mostColumn bounds the text column and the offset of a dump's line.
const mostColumn = 80

// take takes the next byte. last is the byte of the needle before it, and goesOn reports that a needle continues with
// b.
func (l *layout) take(b, last byte, goesOn bool) fate {
	begins := l.begins
	l.begins = b == '\n'
	switch l.part {
	case inEscape:
		return l.within(b, "nrt", strings.IndexByte("nrt", b) >= 0)
	case inEntity:
		return l.within(b, "#xX0123456789aAdD;", b == ';')
	case inOffset:
		return l.within(b, hexDigits+": ", b == ':' || b == ' ')
	case inColumn:
		return l.inColumn(b)
	}
	if part := partAfter(b); part != inDigits && !(l.part == inGap && part != inGap && l.isColumn(last, false)) {
		l.gap(b, part)
		return passed
	}
	if l.part == inGap {
		if l.leaves(b, last, begins, goesOn) {
			return passed
		}
		l.digits = 0
	}
	l.part = inDigits
	l.digits++
	return taken
}

// leaves reports whether after a gap a byte begins the offset or the text column of a dump.
func (l *layout) leaves(b, last byte, begins, goesOn bool) bool {
	switch {
	case begins && (l.dump || isHex(last) && !goesOn) && isHex(b):
		l.part, l.columns = inOffset, 0
	case l.isColumn(last, goesOn):
		l.part, l.columns, l.dump = inColumn, 0, true
	default:
		return false
	}
	return true
}

// isColumn reports whether the text column of a dump begins after the present gap. It may begin with any byte, also with a backslash or &.
func (l *layout) isColumn(last byte, goesOn bool) bool {
	return isHex(last) && !l.line && l.spaces >= 2 && (l.digits > 2 || !goesOn)
}

func isHex(b byte) bool { return strings.IndexByte(hexDigits, b) >= 0 }

// inColumn takes a byte of the text column, which ends with its line.
func (l *layout) inColumn(b byte) fate {
	if l.columns++; l.columns > mostColumn {
		return foreign
	}
	if b == '\n' {
		l.part, l.line, l.spaces = inGap, true, 0
	}
	return passed
}

const hexDigits = "0123456789abcdefABCDEF"

// partAfter returns the part that a byte begins.
func partAfter(b byte) part {
	switch b {
	case '\n', '\t', ' ':
		return inGap
	case '\\':
		return inEscape
	case '&':
		return inEntity
	}
	return inDigits
}

// gap consumes a byte that begins or continues a gap.
func (l *layout) gap(b byte, part part) {
	if l.part == inDigits {
		l.spaces, l.line = 0, false
	}
	if l.part = part; b == '\n' {
		l.line = true
	} else {
		l.spaces++
	}
}

// within takes a byte of a part that has only these, and that may end with it.
func (l *layout) within(b byte, only string, ends bool) fate {
	if l.columns++; l.columns > mostColumn || strings.IndexByte(only, b) < 0 {
		return foreign
	}
	if ends {
		l.part, l.columns, l.line = inGap, 0, true
	}
	return passed
}
