package blob_test

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/blob"
	"github.com/waybill-dev/waybill/internal/fault"
)

func TestBigDocumentsLieOutsideOfTheirRow(t *testing.T) {
	t.Parallel()
	store, err := blob.OpenDir(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	id := action.DerivedID(time.Date(2027, 1, 2, 0, 0, 0, 0, time.UTC), "x")
	key := blob.ActionKey(id, "parameters.json")
	if want := "action/2026w53/" + id.String() + "/parameters.json"; key != want {
		t.Errorf("key %s, want %s", key, want)
	}
	for size, outside := range map[int]bool{2: false, blob.Inline: false, blob.Inline + 1: true} {
		document := json.RawMessage(`"` + string(bytes.Repeat([]byte("x"), size-2)) + `"`)
		for range 2 {
			inline, ref, err := blob.Offload(t.Context(), store, key, document)
			if err != nil || (ref != "") != outside || (len(inline) == 0) != outside {
				t.Fatalf("%d bytes: %d inline, ref %q, %v", size, len(inline), ref, err)
			}
			back, err := blob.Load(t.Context(), store, inline, ref)
			if err != nil || !bytes.Equal(back, document) {
				t.Errorf("%d bytes: read back %d, %v", size, len(back), err)
			}
		}
	}
	if _, err := blob.Load(t.Context(), store, nil, blob.ActionKey(id, "gone")); fault.CodeOf(err) != fault.NotFound {
		t.Errorf("a document that is gone: %v", err)
	}
}
