package blob_test

import (
	"testing"

	"github.com/waybill-dev/waybill/internal/blob"
)

func TestIdentityIsThatOfTheStoreAndNotOfTheProcess(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	open := func(dir string) string {
		t.Helper()
		store, err := blob.Open(t.Context(), dir)
		if err != nil {
			t.Fatal(err)
		}
		id, err := blob.Identity(t.Context(), store)
		if err != nil || id == "" {
			t.Fatal(id, err)
		}
		return id
	}
	first := open(dir)
	if again := open(dir); again != first {
		t.Errorf("the same folder is %s, then %s", first, again)
	}
	if other := open(t.TempDir()); other == first {
		t.Error("two folders have one id")
	}
}
