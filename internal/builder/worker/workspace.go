package worker

import (
	"context"
	"errors"
	"fmt"

	"github.com/waybill-dev/waybill/internal/file"
	"github.com/waybill-dev/waybill/internal/workspace"
)

// Folder takes the selected part of a folder, as it is now.
type Folder struct {
	Root string
	workspace.Selection
}

// Take copies the folder.
func (f Folder) Take(ctx context.Context, dir string) ([]string, error) {
	return workspace.Copy(ctx, f.Root, dir, f.Selection)
}

// Pack writes it into a file.
func (f Folder) Pack(ctx context.Context, path string) (workspace.Packed, error) {
	return workspace.PackFile(ctx, path, f.Root, f.Selection)
}

// Snapshot unpacks a snapshot file.
type Snapshot struct {
	Path   string
	Digest string // SHA-256 of its tar; "": not compared
}

// Take unpacks and verifies it.
func (s Snapshot) Take(ctx context.Context, dir string) (remarks []string, err error) {
	f, _, err := file.Open(s.Path)
	if err != nil {
		return nil, fmt.Errorf("open the snapshot: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return nil, workspace.Extract(ctx, f, dir, s.Digest)
}

// Taken is a workspace whose tree is already in the worker's folder.
type Taken struct{}

// Take does nothing.
func (Taken) Take(context.Context, string) ([]string, error) { return nil, nil }
