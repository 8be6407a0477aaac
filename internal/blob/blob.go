// Package blob stores bytes under keys: snapshots, artifacts, archives.
package blob

import (
	"context"
	"io"
)

// Dir is a store in a folder: every object is written to a temporary name, synced and renamed.
type Dir struct{ root string }

// Open makes or opens the store at url: file:/DIR or a plain path.
func Open(url string) (*Dir, error) { panic("skeleton") }

// Put stores what r yields under key and returns its SHA-256 as 64 hex digits and its size in bytes.
// An empty key means "sha256/<digest>". Nothing is visible under the key before all of it is there.
func (d *Dir) Put(ctx context.Context, key string, r io.Reader) (stored, digest string, size int64, err error) {
	panic("skeleton")
}

// Get opens an object; fault.NotFound when there is none.
func (d *Dir) Get(ctx context.Context, key string) (io.ReadCloser, int64, error) { panic("skeleton") }

// Has reports whether an object is there.
func (d *Dir) Has(ctx context.Context, key string) (bool, error) { panic("skeleton") }
