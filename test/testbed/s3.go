package testbed

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/waybill-dev/waybill/test/testbed/binary"
)

// Bucket is an empty bucket on an S3 server of its own, addressed by path.
type Bucket struct {
	Endpoint  string // http://127.0.0.1:PORT
	Region    string
	Name      string
	AccessKey string
	SecretKey string

	server *service
}

// S3 starts an S3 server with one bucket for the test; a fraction of a second.
func S3(t testing.TB) *Bucket {
	t.Helper()
	gateway := program(t, binary.S3())
	folder, address := t.TempDir(), addresses(t, 1)[0]
	b := &Bucket{Endpoint: "http://" + address, Region: "us-east-1", Name: "archive", AccessKey: "waybill", SecretKey: "waybill-secret"}
	// Objects' metadata is stored beside them: not every file system has extended attributes.
	objects, metadata := filepath.Join(folder, "objects"), filepath.Join(folder, "metadata")
	for _, path := range []string{objects, metadata} {
		if err := os.Mkdir(path, 0o755); err != nil {
			t.Fatalf("testbed: prepare the S3 server: %v", err)
		}
	}
	b.server = &service{
		name: "s3", dir: folder,
		argv: []string{
			gateway, "--port", address, "--region", b.Region, "--health", "/healthy", "--keep-alive",
			"posix", "--sidecar", metadata, objects,
		},
		env:   []string{"ROOT_ACCESS_KEY=" + b.AccessKey, "ROOT_SECRET_KEY=" + b.SecretKey},
		ready: answers(http.DefaultClient, b.Endpoint+"/healthy"),
	}
	b.server.manage(t)
	if _, err := b.Client().CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: &b.Name}); err != nil {
		t.Fatalf("testbed: make a bucket: %v", err)
	}
	return b
}

// Client returns a client of the server that is not the product's own.
func (b *Bucket) Client() *s3.Client {
	return s3.New(s3.Options{
		BaseEndpoint: aws.String(b.Endpoint), Region: b.Region, UsePathStyle: true,
		Credentials: credentials.NewStaticCredentialsProvider(b.AccessKey, b.SecretKey, ""),
	})
}

// Kill kills the server without warning. Clients see refused connections until Start.
func (b *Bucket) Kill(t testing.TB) {
	t.Helper()
	b.server.kill(t)
}

// Start starts the server again after Kill, at the same address with the same objects.
func (b *Bucket) Start(t testing.TB) {
	t.Helper()
	b.server.start(t)
}
