// Package blob stores bytes under keys: snapshots, artifacts, archives.
package blob

import (
	"context"
	"io"
	"io/fs"
	"strings"

	"github.com/waybill-dev/waybill/internal/fault"
)

// Store keeps objects. Stores are safe for concurrent use, also by several processes.
type Store interface {
	// Put stores what r yields under key and returns its SHA-256 as 64 hex digits and its size in
	// bytes. A key that ends in a slash is completed by the digest. Nothing is visible under the
	// key before all of it is there, and what was there before stays when Put fails. A store that
	// cannot take it is fault.Unavailable.
	Put(ctx context.Context, key string, r io.Reader) (stored, digest string, size int64, err error)
	// Get opens an object and returns its size in bytes; fault.NotFound when there is none. The
	// caller closes it.
	Get(ctx context.Context, key string) (io.ReadCloser, int64, error)
	// Has reports whether an object is there.
	Has(ctx context.Context, key string) (bool, error)
	// Folders lists the names right below a folder that have objects below them, in order.
	Folders(ctx context.Context, folder string) ([]string, error)
	// Clear deletes every object below a folder; one that is not there is clear. An interrupted call may be repeated.
	Clear(ctx context.Context, folder string) error
}

// Open makes or opens the store at location: file:/DIR, a plain path, or s3://BUCKET/PREFIX?endpoint=URL&region=NAME.
// Any other text is fault.Invalid.
func Open(ctx context.Context, location string) (Store, error) {
	if strings.HasPrefix(location, bucketScheme) {
		return OpenBucket(ctx, location)
	}
	return OpenDir(location)
}

// URL returns the address at which other programs find an object of a store, such as s3://BUCKET/KEY; false when only
// this machine has it.
func URL(s Store, key string) (url string, ok bool) {
	shared, ok := s.(interface{ URL(key string) string })
	if !ok {
		return "", false
	}
	return shared.URL(key), true
}

// complete returns the key under which an object of a digest is stored.
func complete(key, digest string) string {
	if strings.HasSuffix(key, "/") {
		return key + digest
	}
	return key
}

// CheckKey returns fault.Invalid for an invalid key. A key has slash-separated names, none of which leaves
// the store or meets a folder's temporary files.
func CheckKey(key string) error {
	if !fs.ValidPath(key) || key == "." || key == "tmp" || strings.HasPrefix(key, "tmp/") || strings.ContainsRune(key, 0) {
		return fault.New(fault.Invalid, "%q is not a valid key of a blob", key)
	}
	return nil
}
