package mask

import "slices"

// starts is a quick test for places where no needle begins, by the first three bytes: each beginning of that length has a bit, which it
// may share, in the tables of its bytes. The bit hidden is for a first byte after which hidden bytes follow.
type starts struct{ first, second, third [256]uint32 }

const hidden = 1 << 31

// fill takes the needles, none of which is empty.
func (s *starts) fill(needles []needle) {
	var begins []string
	for _, n := range needles {
		begins = append(begins, n.text[:min(len(n.text), 3)])
		if n.coded && len(n.text) > 2 {
			for b := range 256 {
				if classes[b]&gap != 0 {
					begins = append(begins, n.text[:2]+string([]byte{byte(b)}))
				}
			}
		}
	}
	slices.Sort(begins)
	begins = slices.Compact(begins)
	for i, begin := range begins {
		s.add(begin, 1<<(i*31/len(begins)))
	}
	for b := range 256 {
		s.third[b] |= hidden
		if classes[b]&control != 0 {
			s.second[b] |= hidden
			s.third[b] = ^uint32(0)
		}
	}
}

func (s *starts) add(begin string, bit uint32) {
	s.first[begin[0]] |= bit | hidden
	for at, table := range []*[256]uint32{&s.second, &s.third} {
		if at+1 < len(begin) {
			table[begin[at+1]] |= bit
			continue
		}
		for b := range table { // the needle ends before
			table[b] |= bit
		}
	}
}

// none returns how many bytes at the front of data begin no needle. At the last two bytes, the next bytes are not
// known; there none stops at any beginning.
func (s *starts) none(data []byte) int {
	var one, two uint32 // needles that may have begun one and two bytes before
	for i, b := range data {
		if two&s.third[b] != 0 {
			return i - 2
		}
		two, one = one&s.second[b], s.first[b]
	}
	switch {
	case two != 0:
		return len(data) - 2
	case one != 0:
		return len(data) - 1
	}
	return len(data)
}
