package blob

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/fault"
)

// Sizes of an action's documents: its parameters and its output.
const (
	Inline      = 64 << 10 // bytes up to which a document is stored in its row
	MaxDocument = 64 << 20 // bytes above which none is read
)

// ActionKey returns the key of an action's file. Keys begin with the ISO week of the action's id:
// retention deletes whole weeks.
func ActionKey(id action.ID, file string) string {
	year, week := id.Time().ISOWeek()
	return fmt.Sprintf("action/%04dw%02d/%s/%s", year, week, id, file)
}

// Putter is the part of a Store that takes objects.
type Putter interface {
	Put(ctx context.Context, key string, r io.Reader) (stored, digest string, size int64, err error)
}

// Offload stores a document that is too big for its row under key, and returns the value for the row: the document,
// or the key. Storing it again is the same as once.
func Offload(ctx context.Context, s Putter, key string, document json.RawMessage) (inline json.RawMessage, ref string, err error) {
	if len(document) <= Inline {
		return document, "", nil
	}
	if _, _, _, err := s.Put(ctx, key, bytes.NewReader(document)); err != nil {
		return nil, "", fmt.Errorf("store %s: %w", key, err)
	}
	return nil, key, nil
}

// Load returns a document, from its row or from the blob that the row names.
func Load(ctx context.Context, s Store, inline json.RawMessage, ref string) (json.RawMessage, error) {
	if ref == "" {
		return inline, nil
	}
	r, size, err := s.Get(ctx, ref)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", ref, err)
	}
	defer func() { _ = r.Close() }() // what was read counts
	if size > MaxDocument {
		return nil, fault.New(fault.Invalid, "%s has %d bytes; at most %d are read", ref, size, MaxDocument)
	}
	document, err := io.ReadAll(io.LimitReader(r, MaxDocument))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", ref, err)
	}
	return document, nil
}
