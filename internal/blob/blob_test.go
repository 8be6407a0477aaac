package blob_test

import (
	"testing"

	"github.com/waybill-dev/waybill/internal/blob"
	"github.com/waybill-dev/waybill/internal/blob/blobtest"
	"github.com/waybill-dev/waybill/internal/fault"
)

func TestDirIsAStore(t *testing.T) {
	t.Parallel()
	store, err := blob.Open(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	blobtest.Run(t, store)
}

func TestBucketsAreNamedByURL(t *testing.T) {
	t.Parallel()
	for _, location := range []string{"s3://archive", "s3://archive/a/b/", "s3://archive/x?endpoint=http://127.0.0.1:9000&region=eu-north-1"} {
		if _, err := blob.Open(t.Context(), location); err != nil {
			t.Errorf("%s: %v", location, err)
		}
	}
	for _, location := range []string{"s3://", "s3:///prefix", "s3://archive?endpiont=x", "gs://archive"} {
		if _, err := blob.Open(t.Context(), location); !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: got %v, want invalid", location, err)
		}
	}
}

func TestOnlyBucketsAreSharedWithOthers(t *testing.T) {
	t.Parallel()
	bucket, err := blob.Open(t.Context(), "s3://archive/a?endpoint=http://127.0.0.1:9000")
	if err != nil {
		t.Fatal(err)
	}
	if url, ok := blob.URL(bucket, "action/x"); !ok || url != "s3://archive/a/action/x" {
		t.Errorf("bucket: %q, %v", url, ok)
	}
	dir, err := blob.Open(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if url, ok := blob.URL(dir, "action/x"); ok {
		t.Errorf("folder: %q", url)
	}
}

func TestBucketThatDoesNotAnswerIsUnavailable(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "waybill")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "waybill-secret")
	t.Setenv("AWS_MAX_ATTEMPTS", "1")
	store, err := blob.Open(t.Context(), "s3://archive?endpoint=http://127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Has(t.Context(), "a"); !fault.Is(err, fault.Unavailable) {
		t.Errorf("got %v, want unavailable", err)
	}
}
