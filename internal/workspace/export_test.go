package workspace

import (
	"context"
	"io"
)

// PackAll writes a snapshot of everything below root except the home and the
// skipped folders, which are full paths.
func PackAll(ctx context.Context, w io.Writer, root string, skip []string) (Packed, error) {
	entries, warnings, err := list(root, skip)
	if err != nil {
		return Packed{}, err
	}
	packed, err := pack(ctx, w, root, entries, dropOwner)
	packed.Warnings = warnings
	return packed, err
}
