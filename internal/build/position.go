package build

import "bytes"

// Position names the place in a step's log after the entry ID, which ends at the byte Offset. The zero value is the start.
type Position struct{ ID, Offset int64 }

// After returns the position after the whole entries that follow.
func (p Position) After(entries []byte) Position {
	return Position{p.ID + int64(bytes.Count(entries, []byte{'\n'})), p.Offset + int64(len(entries))}
}
