package action

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"
)

// ID is a UUID version 7 (RFC 9562): its first 48 bits are a Unix time in milliseconds.
type ID [16]byte

// NewID returns the id for a time and ten random bytes. Ids of later milliseconds sort later, which
// keeps inserts at the end of an index.
func NewID(now time.Time, random [10]byte) ID {
	var id ID
	ms := uint64(now.UnixMilli())
	for i := range 6 {
		id[i] = byte(ms >> (40 - 8*i))
	}
	copy(id[6:], random[:])
	id[6] = id[6]&0x0f | 0x70
	id[8] = id[8]&0x3f | 0x80
	return id
}

// RandomID returns a new id of the time now, whose other bits are random.
func RandomID(now time.Time) ID {
	var random [10]byte
	_, _ = rand.Read(random[:]) // never fails (crypto/rand)
	return NewID(now, random)
}

// DerivedID returns the same id for the same time and parts on every instance:
// the time in ms, then 74 bits of the parts' SHA-256.
func DerivedID(at time.Time, parts ...string) ID {
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%d:%s", len(p), p) // with lengths, so that "a", "bc" and "ab", "c" differ
	}
	return NewID(at, [10]byte(h.Sum(nil)[:10]))
}

// Time returns the time in the id, in UTC, to the millisecond.
func (id ID) Time() time.Time {
	var ms int64
	for i := range 6 {
		ms = ms<<8 | int64(id[i])
	}
	return time.UnixMilli(ms).UTC()
}

// IsZero reports whether the id was never set.
func (id ID) IsZero() bool { return id == ID{} }

func (id ID) String() string {
	h := hex.EncodeToString(id[:])
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}

// ParseID reads the 36-character form.
func ParseID(text string) (ID, error) {
	var id ID
	if len(text) != 36 || text[8] != '-' || text[13] != '-' || text[18] != '-' || text[23] != '-' {
		return id, fmt.Errorf("%q is not an id such as 01a1f866-0d10-7c55-9d3e-5b0c7c1a2f77", text)
	}
	plain := text[:8] + text[9:13] + text[14:18] + text[19:23] + text[24:]
	if _, err := hex.Decode(id[:], []byte(plain)); err != nil {
		return ID{}, fmt.Errorf("%q is not an id: %w", text, err)
	}
	return id, nil
}

// MarshalText and UnmarshalText make ids read as text in JSON.
func (id ID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

func (id *ID) UnmarshalText(text []byte) error {
	parsed, err := ParseID(string(text))
	*id = parsed
	return err
}
