package ship

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/waybill-dev/waybill/internal/operation"
)

// labelPath returns the place of a revision in the API.
func labelPath(pipeline, label string) operation.LabelPath {
	return operation.LabelPath{PipelinePath: operation.PipelinePath{Pipeline: pipeline}, Label: label}
}

// storeSnapshot stores the files of a revision, which pack writes, and returns their key.
func storeSnapshot(ctx context.Context, to operation.Caller, at operation.LabelPath,
	pack func(context.Context, io.Writer) error) (key string, err error) {
	reader, writer := io.Pipe()
	packed := make(chan error, 1)
	go func() {
		err := pack(ctx, writer)
		packed <- errors.Join(err, writer.CloseWithError(err))
	}()
	stored, err := operation.PutSnapshot.Call(ctx, to,
		operation.Upload{LabelPath: at, Content: operation.Content{Reader: reader}})
	_ = reader.CloseWithError(io.ErrClosedPipe) // ends the packing if the store gave up first
	if failed := <-packed; failed != nil && !errors.Is(failed, io.ErrClosedPipe) {
		return "", fmt.Errorf("store the files of %s: %w", at.Label, failed)
	}
	if err != nil {
		return "", fmt.Errorf("store the files of %s: %w", at.Label, err)
	}
	return stored.Key, nil
}
