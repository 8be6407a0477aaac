package ship

import (
	"context"
	"errors"
	"fmt"
	"io"
)

// snapshotStore stores the files of a revision.
type snapshotStore interface {
	PutSnapshot(ctx context.Context, pipeline, label string, r io.Reader) (key string, err error)
}

// storeSnapshot stores the files that pack writes, and returns their key.
func storeSnapshot(ctx context.Context, store snapshotStore, name, label string, pack func(context.Context, io.Writer) error) (key string, err error) {
	reader, writer := io.Pipe()
	packed := make(chan error, 1)
	go func() {
		err := pack(ctx, writer)
		packed <- errors.Join(err, writer.CloseWithError(err))
	}()
	key, err = store.PutSnapshot(ctx, name, label, reader)
	_ = reader.CloseWithError(io.ErrClosedPipe) // ends the packing if the store gave up first
	if failed := <-packed; failed != nil && !errors.Is(failed, io.ErrClosedPipe) {
		return "", fmt.Errorf("store the files of %s: %w", label, failed)
	}
	if err != nil {
		return "", fmt.Errorf("store the files of %s: %w", label, err)
	}
	return key, nil
}
