// Package blobtest is the suite of every store of blobs.
package blobtest

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/waybill-dev/waybill/internal/blob"
	"github.com/waybill-dev/waybill/internal/fault"
)

const (
	hello  = "hello"
	digest = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"
)

// Run checks an empty store.
func Run(t *testing.T, store blob.Store) {
	for _, property := range []struct {
		name  string
		check func(*testing.T, blob.Store)
	}{
		{"NamesContentByItsDigest", namesContentByItsDigest},
		{"ReplacesWholeObjects", replacesWholeObjects},
		{"FailedPutLeavesTheOldObject", failedPutLeavesTheOldObject},
		{"MissingIsNotFound", missingIsNotFound},
		{"ClearsAFolderAndNoOther", clearsAFolderAndNoOther},
		{"RefusesInvalidKeys", refusesInvalidKeys},
		{"WritersOfOneObjectDoNotMeet", writersOfOneObjectDoNotMeet},
	} {
		t.Run(property.name, func(t *testing.T) { property.check(t, store) })
	}
}

func namesContentByItsDigest(t *testing.T, store blob.Store) {
	t.Helper()
	for range 2 {
		key, sum, size, err := store.Put(t.Context(), "sha256/", strings.NewReader(hello))
		if err != nil || key != "sha256/"+digest || sum != digest || size != int64(len(hello)) {
			t.Fatalf("Put = %s, %s, %d, %v", key, sum, size, err)
		}
	}
	wantContent(t, store, "sha256/"+digest, hello)
}

func replacesWholeObjects(t *testing.T, store blob.Store) {
	t.Helper()
	for _, content := range []string{strings.Repeat("long ", 1<<18), "short", ""} {
		put(t, store, "a/b", content)
		wantContent(t, store, "a/b", content)
	}
}

func failedPutLeavesTheOldObject(t *testing.T, store blob.Store) {
	t.Helper()
	put(t, store, "kept", "old")
	broken := io.MultiReader(strings.NewReader("new"), failing{})
	if _, _, _, err := store.Put(t.Context(), "kept", broken); !errors.Is(err, errBroken) {
		t.Errorf("got %v, want the reader's error", err)
	}
	wantContent(t, store, "kept", "old")
}

func missingIsNotFound(t *testing.T, store blob.Store) {
	t.Helper()
	put(t, store, "folder/object", hello)
	for _, key := range []string{"a/missing", "folder"} {
		if _, _, err := store.Get(t.Context(), key); !fault.Is(err, fault.NotFound) {
			t.Errorf("Get(%s): %v", key, err)
		}
		if there, err := store.Has(t.Context(), key); there || err != nil {
			t.Errorf("Has(%s): %v, %v", key, there, err)
		}
	}
}

func clearsAFolderAndNoOther(t *testing.T, store blob.Store) {
	t.Helper()
	for _, key := range []string{"weeks/w1/x/1", "weeks/w1/y", "weeks/w10/z", "weeks/w2/x", "weeks/file"} {
		put(t, store, key, hello)
	}
	if err := store.Clear(t.Context(), "weeks/w1"); err != nil {
		t.Fatal(err)
	}
	names, err := store.Folders(t.Context(), "weeks")
	if err != nil || strings.Join(names, " ") != "w10 w2" {
		t.Errorf("left: %v, %v", names, err)
	}
	wantContent(t, store, "weeks/file", hello)
	if there, err := store.Has(t.Context(), "weeks/w1/x/1"); there || err != nil {
		t.Errorf("Has: %v, %v", there, err)
	}
	if err := store.Clear(t.Context(), "weeks/w1"); err != nil {
		t.Errorf("again: %v", err)
	}
	if names, err := store.Folders(t.Context(), "nothing"); len(names) != 0 || err != nil {
		t.Errorf("of nothing: %v, %v", names, err)
	}
}

func refusesInvalidKeys(t *testing.T, store blob.Store) {
	t.Helper()
	for _, key := range []string{"../x", "/x", "a//b", "a//", ".", "tmp/x", "a\x00b"} {
		_, _, _, err := store.Put(t.Context(), key, strings.NewReader("x"))
		_, _, getErr := store.Get(t.Context(), key)
		_, hasErr := store.Has(t.Context(), key)
		if !fault.Is(err, fault.Invalid) || !fault.Is(getErr, fault.Invalid) || !fault.Is(hasErr, fault.Invalid) {
			t.Errorf("%q: %v, %v, %v", key, err, getErr, hasErr)
		}
	}
}

func writersOfOneObjectDoNotMeet(t *testing.T, store blob.Store) {
	t.Helper()
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() { put(t, store, "contested", strings.Repeat(fmt.Sprint(i), 4096)) })
	}
	all.Wait()
	got := content(t, store, "contested")
	if len(got) != 4096 || strings.Trim(got, got[:1]) != "" {
		t.Errorf("a mixture: %d bytes", len(got))
	}
}

var errBroken = errors.New("the source broke")

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errBroken }

func put(t *testing.T, store blob.Store, key, content string) {
	t.Helper()
	if _, _, _, err := store.Put(t.Context(), key, strings.NewReader(content)); err != nil {
		t.Error(err)
	}
}

func content(t *testing.T, store blob.Store, key string) string {
	t.Helper()
	r, size, err := store.Get(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	all, err := io.ReadAll(r)
	if err := errors.Join(err, r.Close()); err != nil {
		t.Fatal(err)
	}
	if int64(len(all)) != size {
		t.Errorf("Get says %d bytes and yields %d", size, len(all))
	}
	return string(all)
}

func wantContent(t *testing.T, store blob.Store, key, want string) {
	t.Helper()
	if got := content(t, store, key); got != want {
		t.Errorf("%s: got %d bytes, want %d", key, len(got), len(want))
	}
	if there, err := store.Has(t.Context(), key); !there || err != nil {
		t.Errorf("Has(%s) = %v, %v", key, there, err)
	}
}
