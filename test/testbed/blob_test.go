//go:build services

package testbed_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/waybill-dev/waybill/internal/blob"
	"github.com/waybill-dev/waybill/internal/blob/blobtest"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/test/testbed"
)

func TestBlobsAreKeptInABucket(t *testing.T) {
	bucket := testbed.S3(t)
	t.Setenv("AWS_ACCESS_KEY_ID", bucket.AccessKey)
	t.Setenv("AWS_SECRET_ACCESS_KEY", bucket.SecretKey)
	t.Setenv("AWS_MAX_ATTEMPTS", "1")
	at := "?endpoint=" + bucket.Endpoint + "&region=" + bucket.Region
	for _, location := range []string{bucket.Name, bucket.Name + "/a/prefix"} {
		t.Run(location, func(t *testing.T) {
			store, err := blob.Open(t.Context(), "s3://"+location+at)
			if err != nil {
				t.Fatal(err)
			}
			blobtest.Run(t, store)
		})
	}
	t.Run("more than a page", func(t *testing.T) { manyBlobs(t, "s3://"+bucket.Name+"/many"+at) })
	store, err := blob.Open(t.Context(), "s3://missing"+at)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := store.Get(t.Context(), "a"); !fault.Is(err, fault.Unavailable) || fault.HintOf(err) == "" {
		t.Errorf("a missing bucket: %v, hint %q", err, fault.HintOf(err))
	}
	store, err = blob.Open(t.Context(), "s3://"+bucket.Name+at)
	if err != nil {
		t.Fatal(err)
	}
	bucket.Kill(t)
	if _, err := store.Has(t.Context(), "a"); !fault.Is(err, fault.Unavailable) {
		t.Errorf("a dead server: %v", err)
	}
	bucket.Start(t)
	if _, err := store.Has(t.Context(), "a"); err != nil {
		t.Errorf("a server that is back: %v", err)
	}
}

// manyBlobs: S3 lists, and deletes, a thousand objects at a time.
func manyBlobs(t *testing.T, location string) {
	const many = 1001
	store, err := blob.Open(t.Context(), location)
	if err != nil {
		t.Fatal(err)
	}
	var writers sync.WaitGroup
	for first := range 16 {
		writers.Go(func() {
			for i := first; i < many; i += 16 {
				if _, _, _, err := store.Put(t.Context(), fmt.Sprintf("all/%04d/x", i), strings.NewReader("x")); err != nil {
					t.Error(err)
				}
			}
		})
	}
	writers.Wait()
	if names, err := store.Folders(t.Context(), "all"); err != nil || len(names) != many || names[many-1] != "1000" {
		t.Errorf("%d folders, %v", len(names), err)
	}
	if err := store.Clear(t.Context(), "all"); err != nil {
		t.Fatal(err)
	}
	if names, err := store.Folders(t.Context(), "all"); err != nil || len(names) > 0 {
		t.Errorf("left: %v, %v", names, err)
	}
}
