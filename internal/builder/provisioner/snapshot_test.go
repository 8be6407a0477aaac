package provisioner_test

import (
	"bytes"
	"testing"

	"github.com/waybill-dev/waybill/internal/blob"
	"github.com/waybill-dev/waybill/internal/workspace"
)

// packed stores a folder as a snapshot.
func packed(t *testing.T, dir string) (blobs blob.Store, key string) {
	t.Helper()
	var out bytes.Buffer
	if _, _, err := workspace.Pack(t.Context(), &out, dir, []string{".wharf-ci.yml", "a.txt"}); err != nil {
		t.Fatal(err)
	}
	blobs, err := blob.Open(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	key, _, _, err = blobs.Put(t.Context(), "sha256/", &out)
	if err != nil {
		t.Fatal(err)
	}
	return blobs, key
}
