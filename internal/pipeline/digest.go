package pipeline

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
)

// Digest is the SHA-256 of an entry and of the digest of the entry before it, and so of a log up to there. The zero Digest is
// that of entries written by a version that computed none, and of an empty log.
type Digest [sha256.Size]byte

// IsZero reports whether the digest is missing.
func (d Digest) IsZero() bool { return d == Digest{} }

// String returns 64 hexadecimal digits; "" for the zero Digest.
func (d Digest) String() string {
	if d.IsZero() {
		return ""
	}
	return hex.EncodeToString(d[:])
}

// MarshalText returns the same as String.
func (d Digest) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads the result of String.
func (d *Digest) UnmarshalText(text []byte) error {
	if len(text) != hex.EncodedLen(len(d)) {
		return fmt.Errorf("a digest has %d digits, want %d", len(text), hex.EncodedLen(len(d)))
	}
	_, err := hex.Decode(d[:], text)
	return err
}

// Link returns the digest of an entry that follows one with the digest before. Every field but Digest counts. White space between
// the values of Detail does not, since archives store none.
func (e Entry) Link(before Digest) Digest { return link(before, e.content()) }

func link(before, content Digest) Digest {
	var both [2 * sha256.Size]byte
	copy(both[:], before[:])
	copy(both[len(before):], content[:])
	return sha256.Sum256(both[:])
}

// content returns the digest of an entry's own fields. Each text comes after its length, so that no two entries are the same bytes.
func (e Entry) content() Digest {
	var room [512]byte // large enough for most entries
	b := room[:0]
	for _, n := range [...]int64{e.Seq, e.Deployment, int64(e.Occurrence), int64(e.Class), e.Revision, int64(e.Version), e.At.UnixMicro()} {
		b = binary.BigEndian.AppendUint64(b, uint64(n))
	}
	for _, text := range [...]string{e.Pipeline, e.Target, e.Event} {
		b = append(binary.BigEndian.AppendUint64(b, uint64(len(text))), text...)
	}
	return sha256.Sum256(append(b, compact(e.Detail)...))
}

// compact returns JSON without white space between values. What is not JSON stays as it is.
func compact(raw json.RawMessage) []byte {
	if !bytes.ContainsAny(raw, " \t\r\n") {
		return raw
	}
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return raw
	}
	return b.Bytes()
}

// DigestCheck checks the digests of a log. Its entries are added in any number of parts, such as what the database has and each
// archive, and each part in order. The memory grows with the number of stretches of consecutive entries, not with that of entries.
type DigestCheck struct {
	Uncovered int64 // entries that have no digest
	stretches []stretch
	faults    []digestFault
}

// digestFault describes a fault at a position.
type digestFault struct {
	seq  int64
	text string
}

// stretch is consecutive entries of one part of a log.
type stretch struct {
	from, to       int64
	digested       int64  // position of the first entry that has a digest; 0: none has one
	content, first Digest // digest of that entry's own fields, and its stored digest
	last           Digest // stored digest of the last entry that has one
}

// mostDigestFaults bounds the faults that a DigestCheck names.
const mostDigestFaults = 20

// Add takes the next entry of a part. An entry that does not follow the one before begins a part, or a stretch of one.
func (c *DigestCheck) Add(e Entry) {
	n := len(c.stretches)
	if n == 0 || c.stretches[n-1].to+1 != e.Seq {
		c.stretches = append(c.stretches, stretch{from: e.Seq})
		n++
	}
	s := &c.stretches[n-1]
	s.to = e.Seq
	switch {
	case e.Digest.IsZero():
		c.Uncovered++
		return
	case s.digested == 0:
		s.digested, s.content, s.first = e.Seq, e.content(), e.Digest
	case e.Link(s.last) != e.Digest:
		c.changed(e.Seq)
	}
	s.last = e.Digest
}

// Join adds what was added to another check.
func (c *DigestCheck) Join(part DigestCheck) {
	c.Uncovered += part.Uncovered
	c.stretches = append(c.stretches, part.stretches...)
	c.faults = append(c.faults, part.faults...)
}

// Check returns the faults of a log that has been added and ends at a position, with a digest. At or below the
// position gaps entries may be missing; what comes after such a gap is not compared with what was before it.
func (c *DigestCheck) Check(end int64, digest Digest, gaps int64) []string {
	to, last, known := c.joints(gaps)
	switch {
	case to > end:
		c.add(to, "entry %d was added: the pipeline ends at entry %d", to, end)
	case to < end && end > gaps:
		c.missing(max(to, gaps)+1, end)
	case to == end && known && last != digest:
		c.add(end, "the digest at the end, of entry %d, is not the one that the pipeline keeps: entries were changed or removed there", end)
	}
	slices.SortStableFunc(c.faults, func(a, b digestFault) int { return cmp.Compare(a.seq, b.seq) })
	var texts []string
	for i, f := range c.faults {
		if i == mostDigestFaults {
			return append(texts, fmt.Sprintf("and %d faults more of entries", len(c.faults)-i))
		}
		texts = append(texts, f.text)
	}
	return texts
}

// joints compares each stretch with the one before. It returns where the last one ends, and with what digest if that is known.
func (c *DigestCheck) joints(gaps int64) (to int64, last Digest, known bool) {
	slices.SortFunc(c.stretches, func(a, b stretch) int { return cmp.Compare(a.from, b.from) })
	known = true
	for _, s := range c.stretches {
		switch {
		case s.from <= to:
			c.add(s.from, "entry %d is there twice", s.from)
			known = false
		case s.from > to+1 && s.from-1 > gaps:
			c.missing(max(to, gaps)+1, s.from-1)
			known = false // they are named; what follows may be whole
		case s.from > to+1:
			known = false
		}
		if s.digested != 0 {
			if known && link(last, s.content) != s.first {
				c.changed(s.digested)
			}
			last, known = s.last, true
		}
		to = max(to, s.to)
	}
	return to, last, known
}

func (c *DigestCheck) changed(seq int64) {
	c.add(seq, "entry %d was changed: it does not have the digest that it was written with", seq)
}

func (c *DigestCheck) missing(from, to int64) {
	if from == to {
		c.add(from, "entry %d is missing", from)
		return
	}
	c.add(from, "entries %d to %d are missing", from, to)
}

func (c *DigestCheck) add(seq int64, format string, args ...any) {
	c.faults = append(c.faults, digestFault{seq, fmt.Sprintf(format, args...)})
}
