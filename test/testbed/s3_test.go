//go:build services

package testbed_test

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/waybill-dev/waybill/test/testbed"
)

func TestBucketKeepsObjectsUntilTheyAreDeleted(t *testing.T) {
	t.Parallel()
	bucket := testbed.S3(t)
	client, key, want := bucket.Client(), "workflow/2025-W47/object.json", []byte(`{"kept":true}`)
	if _, err := client.PutObject(t.Context(), &s3.PutObjectInput{Bucket: &bucket.Name, Key: &key, Body: bytes.NewReader(want)}); err != nil {
		t.Fatal(err)
	}

	bucket.Kill(t)
	bucket.Start(t)

	object, err := client.GetObject(t.Context(), &s3.GetObjectInput{Bucket: &bucket.Name, Key: &key})
	if err != nil {
		t.Fatal(err)
	}
	defer object.Body.Close()
	if got, err := io.ReadAll(object.Body); err != nil || !bytes.Equal(got, want) {
		t.Errorf("object: got %q, %v, want %q", got, err, want)
	}

	if _, err := client.DeleteObject(t.Context(), &s3.DeleteObjectInput{Bucket: &bucket.Name, Key: &key}); err != nil {
		t.Fatal(err)
	}
	_, err = client.GetObject(t.Context(), &s3.GetObjectInput{Bucket: &bucket.Name, Key: &key})
	if _, missing := errors.AsType[*types.NoSuchKey](err); !missing {
		t.Errorf("get a deleted object: got %v, want no such key", err)
	}
}
