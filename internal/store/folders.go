package store

import "context"

// Folders is what the log stores outside of its database; a blob.Store is one.
type Folders interface {
	// Folders lists the names directly below a folder.
	Folders(ctx context.Context, folder string) ([]string, error)
	// Clear deletes everything below a folder.
	Clear(ctx context.Context, folder string) error
}
