// Package cachekey decides which runs of a process are the same: the key of the payload cache. A key is a UUID
// version 5 (RFC 9562) of the process's id and the canonical form (RFC 8785) of its inputs as rules reduce them, so
// the order of keys and the spelling of numbers do not matter.
package cachekey

import "crypto/sha1" //nolint:gosec // what a UUID version 5 is made of; no secret depends on it

// Key is a UUID version 5. The zero Key is none.
type Key [16]byte

// namespace of the ids of processes: the UUID version 5 of https://waybill.dev/processes in the
// namespace of URLs.
var namespace = Key{0x4b, 0x11, 0x8b, 0x9e, 0x70, 0xee, 0x51, 0x33, 0x94, 0xf1, 0xd7, 0x84, 0x60, 0x9b, 0xdb, 0xf1}

// KeyOf returns the key of the rest of a value, for a process. The value is as encoding/json decodes it, with numbers
// as json.Number; a number that is not valid is an error, and a value that the rules do not fit is a *Misfit.
func KeyOf(process string, rules Rules, value any) (Key, error) {
	if err := rules.Check(value); err != nil {
		return Key{}, err
	}
	canonical, err := appendCanonical(nil, rules.Keep(value))
	if err != nil {
		return Key{}, err
	}
	return derive(derive(namespace, []byte(process)), canonical), nil
}

// Canonical returns the canonical form of a value that encoding/json decoded, with numbers as json.Number. Integers beyond
// 2^53 keep their digits. A number that no double holds is an error.
func Canonical(value any) ([]byte, error) { return appendCanonical(nil, value) }

// derive returns the UUID version 5 of a name in a namespace.
func derive(space Key, name []byte) Key {
	h := sha1.New() //nolint:gosec // see above
	h.Write(space[:])
	h.Write(name)
	key := Key(h.Sum(nil)[:16])
	key[6] = key[6]&0x0f | 0x50
	key[8] = key[8]&0x3f | 0x80
	return key
}
