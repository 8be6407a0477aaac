package store

import "context"

// Folders is the part of the log outside of its database; a blob.Store is one.
type Folders interface {
	// Folders lists the names directly below a folder.
	Folders(ctx context.Context, folder string) ([]string, error)
	// Clear deletes everything below a folder.
	Clear(ctx context.Context, folder string) error
}
