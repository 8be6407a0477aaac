package blob

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"strings"

	"github.com/waybill-dev/waybill/internal/fault"
)

// identityKey is the object by which processes find out whether they share a store.
const identityKey = "store/id"

// maxIdentity bounds how much of it is read, in bytes.
const maxIdentity = 100

// Identity returns an id that is the same for all processes that see the store's objects. The first
// one makes it; of two that do so at the same moment one may return an id that is forgotten.
func Identity(ctx context.Context, s Store) (string, error) {
	id, err := readIdentity(ctx, s)
	if !fault.Is(err, fault.NotFound) {
		return id, err
	}
	if _, _, _, err := s.Put(ctx, identityKey, strings.NewReader(rand.Text())); err != nil {
		return "", fmt.Errorf("name the blob store: %w", err)
	}
	return readIdentity(ctx, s)
}

func readIdentity(ctx context.Context, s Store) (string, error) {
	r, _, err := s.Get(ctx, identityKey)
	if err != nil {
		return "", fmt.Errorf("read the id of the blob store: %w", err)
	}
	defer r.Close()
	text, err := io.ReadAll(io.LimitReader(r, maxIdentity))
	if err != nil {
		return "", fmt.Errorf("read the id of the blob store: %w", err)
	}
	return string(text), nil
}
