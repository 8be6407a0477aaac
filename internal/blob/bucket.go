package blob

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"

	account "github.com/waybill-dev/waybill/internal/aws"
	"github.com/waybill-dev/waybill/internal/fault"
)

const bucketScheme = "s3://"

// Bucket is a store in an S3 bucket, Amazon's or a compatible server's.
// Objects appear whole: S3 shows one when all of it has arrived.
type Bucket struct {
	client *s3.Client
	bucket string
	prefix string // "" or ending in a slash
	name   string // name in messages
}

// OpenBucket reads s3://BUCKET/PREFIX?endpoint=URL&region=NAME. Credentials, and the region unless it is named, are
// found as Amazon's own tools find them. The bucket is not called: each call shows whether it answers.
func OpenBucket(ctx context.Context, location string) (*Bucket, error) {
	u, err := url.Parse(location)
	if err != nil || u.Scheme != "s3" || u.Host == "" {
		return nil, fault.New(fault.Invalid, "blob store %q: want s3://BUCKET/PREFIX?endpoint=URL&region=NAME", location)
	}
	query := u.Query()
	for key := range query {
		if key != "endpoint" && key != "region" {
			return nil, fault.New(fault.Invalid, "blob store %q: %q is not known, want endpoint or region", location, key)
		}
	}
	endpoint := query.Get("endpoint")
	settings, err := account.Load(ctx, account.Config{Region: query.Get("region"), Endpoint: endpoint})
	if err != nil {
		return nil, fmt.Errorf("blob store %q: %w", location, err)
	}
	settings.Region = cmp.Or(settings.Region, account.DefaultRegion)
	prefix := strings.Trim(u.Path, "/")
	if prefix != "" {
		prefix += "/"
	}
	client := s3.NewFromConfig(settings, func(o *s3.Options) {
		o.RequestChecksumCalculation = aws.RequestChecksumCalculationWhenRequired // compatible servers know no others
		o.ResponseChecksumValidation = aws.ResponseChecksumValidationWhenRequired
		o.UsePathStyle = endpoint != ""
	})
	return &Bucket{client: client, bucket: u.Host, prefix: prefix, name: bucketScheme + u.Host + "/" + prefix}, nil
}

// Put implements Store. Content is first received whole, since S3 wants its size and the key may be its digest.
func (b *Bucket) Put(ctx context.Context, key string, r io.Reader) (stored, digest string, size int64, err error) {
	if err := CheckKey(strings.TrimSuffix(key, "/")); err != nil {
		return "", "", 0, err
	}
	file, err := os.CreateTemp("", "waybill-put-*")
	if err != nil {
		return "", "", 0, explain(fmt.Errorf("store blob %s: %w", key, err), os.TempDir())
	}
	defer func() {
		_ = file.Close() // it was only read, or is given up
		_ = os.Remove(file.Name())
	}()
	sum := sha256.New()
	if size, err = io.Copy(io.MultiWriter(file, sum), &reader{ctx, r}); err != nil {
		return "", "", 0, explain(fmt.Errorf("store blob %s: %w", key, err), os.TempDir())
	}
	digest = hex.EncodeToString(sum.Sum(nil))
	key = complete(key, digest)
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return "", "", 0, fmt.Errorf("store blob %s: %w", key, err)
	}
	_, err = b.client.PutObject(ctx, &s3.PutObjectInput{Bucket: &b.bucket, Key: b.path(key), Body: file, ContentLength: &size})
	if err != nil {
		return "", "", 0, b.explain(ctx, "store", key, err)
	}
	return key, digest, size, nil
}

// Get implements Store.
func (b *Bucket) Get(ctx context.Context, key string) (io.ReadCloser, int64, error) {
	if err := CheckKey(key); err != nil {
		return nil, 0, err
	}
	object, err := b.client.GetObject(ctx, &s3.GetObjectInput{Bucket: &b.bucket, Key: b.path(key)})
	if err != nil {
		return nil, 0, b.explain(ctx, "read", key, err)
	}
	return object.Body, aws.ToInt64(object.ContentLength), nil
}

// Has implements Store.
func (b *Bucket) Has(ctx context.Context, key string) (bool, error) {
	if err := CheckKey(key); err != nil {
		return false, err
	}
	_, err := b.client.HeadObject(ctx, &s3.HeadObjectInput{Bucket: &b.bucket, Key: b.path(key)})
	if err == nil {
		return true, nil
	}
	if err = b.explain(ctx, "look for", key, err); fault.Is(err, fault.NotFound) {
		return false, nil
	}
	return false, err
}

// URL returns where others who may read the bucket find an object.
func (b *Bucket) URL(key string) string { return b.name + key }

// Folders implements Store.
func (b *Bucket) Folders(ctx context.Context, folder string) ([]string, error) {
	if err := CheckKey(folder); err != nil {
		return nil, err
	}
	var names []string
	below := b.prefix + folder + "/"
	pages := s3.NewListObjectsV2Paginator(b.client, &s3.ListObjectsV2Input{Bucket: &b.bucket, Prefix: &below, Delimiter: aws.String("/")})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, b.explain(ctx, "list", folder, err)
		}
		for _, p := range page.CommonPrefixes {
			names = append(names, strings.TrimSuffix(strings.TrimPrefix(aws.ToString(p.Prefix), below), "/"))
		}
	}
	return names, nil
}

// Clear implements Store.
func (b *Bucket) Clear(ctx context.Context, folder string) error {
	if err := CheckKey(folder); err != nil {
		return err
	}
	pages := s3.NewListObjectsV2Paginator(b.client, &s3.ListObjectsV2Input{Bucket: &b.bucket, Prefix: aws.String(b.prefix + folder + "/")})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return b.explain(ctx, "list", folder, err)
		}
		if len(page.Contents) == 0 {
			continue
		}
		gone := make([]types.ObjectIdentifier, len(page.Contents))
		for i, object := range page.Contents {
			gone[i].Key = object.Key
		}
		done, err := b.client.DeleteObjects(ctx, &s3.DeleteObjectsInput{Bucket: &b.bucket,
			Delete: &types.Delete{Objects: gone, Quiet: aws.Bool(true)}})
		if err != nil {
			return b.explain(ctx, "delete", folder, err)
		}
		if len(done.Errors) > 0 {
			e := done.Errors[0]
			return fault.New(fault.Unavailable, "delete blob %s: %s", strings.TrimPrefix(aws.ToString(e.Key), b.prefix), aws.ToString(e.Message))
		}
	}
	return nil
}

func (b *Bucket) path(key string) *string { return aws.String(b.prefix + key) }

// explain gives errors of S3 a code. A missing bucket is a fault of the store, not of the object.
func (b *Bucket) explain(ctx context.Context, what, key string, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return fmt.Errorf("%s blob %s: %w", what, key, cause)
	}
	if api, ok := errors.AsType[smithy.APIError](err); ok && api.ErrorCode() == "NoSuchBucket" {
		return fault.New(fault.Unavailable, "%s blob %s: %w", what, key, err).WithHint("make the bucket of %s", b.name)
	}
	answer, ok := errors.AsType[*awshttp.ResponseError](err)
	if ok && answer.HTTPStatusCode() == http.StatusNotFound && what != "store" {
		return fault.New(fault.NotFound, "blob %s not found", key)
	}
	wrapped := fault.New(fault.Unavailable, "%s blob %s: %w", what, key, err)
	if ok && answer.HTTPStatusCode() == http.StatusForbidden {
		return wrapped.WithHint("let these credentials read and write %s", b.name)
	}
	return wrapped
}
