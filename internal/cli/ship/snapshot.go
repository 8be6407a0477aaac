package ship

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/waybill-dev/waybill/internal/operation"
)

// storeSnapshot stores the files that pack writes, and returns their key.
func storeSnapshot(ctx context.Context, to operation.Caller, name, label string, pack func(context.Context,
	io.Writer) error) (key string, err error) {
	reader, writer := io.Pipe()
	packed := make(chan error, 1)
	go func() {
		err := pack(ctx, writer)
		packed <- errors.Join(err, writer.CloseWithError(err))
	}()
	stored, err := operation.PutSnapshot.Call(ctx, to, operation.Upload{
		LabelPath: operation.LabelPath{PipelinePath: operation.PipelinePath{Pipeline: name}, Label: label},
		Content:   operation.Content{Reader: reader},
	})
	_ = reader.CloseWithError(io.ErrClosedPipe) // ends the packing if the store gave up first
	if failed := <-packed; failed != nil && !errors.Is(failed, io.ErrClosedPipe) {
		return "", fmt.Errorf("store the files of %s: %w", label, failed)
	}
	if err != nil {
		return "", fmt.Errorf("store the files of %s: %w", label, err)
	}
	return stored.Key, nil
}
