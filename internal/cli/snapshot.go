package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/waybill-dev/waybill/internal/workspace"
)

// snapshot stores the folder's files as they are now and returns their key.
func (s *shipment) snapshot(ctx context.Context, name, label string) (key string, err error) {
	reader, writer := io.Pipe()
	packed := make(chan error, 1)
	go func() {
		_, _, err := workspace.Pack(ctx, writer, s.project.dir, s.tree.Files)
		packed <- errors.Join(err, writer.CloseWithError(err))
	}()
	key, err = s.PutSnapshot(ctx, name, label, reader)
	_ = reader.CloseWithError(io.ErrClosedPipe) // ends the packing when the store gave up first
	if failed := <-packed; failed != nil && !errors.Is(failed, io.ErrClosedPipe) {
		return "", fmt.Errorf("store the files of %s: %w", label, failed)
	}
	if err != nil {
		return "", fmt.Errorf("store the files of %s: %w", label, err)
	}
	return key, nil
}
