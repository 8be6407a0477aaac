package caboose

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/blob"
	"github.com/waybill-dev/waybill/internal/config"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/webhook"
)

// objects is a bucket in memory. A nil object cannot be read now.
type objects map[string][]byte

func (o objects) Get(_ context.Context, key string) (io.ReadCloser, int64, error) {
	content, there := o[key]
	switch {
	case !there:
		return nil, 0, fault.New(fault.NotFound, "no object %s", key)
	case content == nil:
		return nil, 0, fault.New(fault.Unavailable, "the bucket is away")
	}
	return io.NopCloser(bytes.NewReader(content)), int64(len(content)), nil
}

// tarred packs files as Argo does.
func tarred(t *testing.T, files ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	packed := gzip.NewWriter(&b)
	archive := tar.NewWriter(packed)
	err := archive.WriteHeader(&tar.Header{Name: "folder/", Typeflag: tar.TypeDir})
	for i, content := range files {
		err = errors.Join(err, archive.WriteHeader(&tar.Header{Name: fmt.Sprint("folder/", i), Typeflag: tar.TypeReg, Size: int64(len(content))}))
		_, wrong := archive.Write([]byte(content))
		err = errors.Join(err, wrong)
	}
	if err := errors.Join(err, archive.Close(), packed.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func zipped(t *testing.T, content string) []byte {
	t.Helper()
	var b bytes.Buffer
	archive := zip.NewWriter(&b)
	file, err := archive.Create("folder/file")
	if err == nil {
		_, err = file.Write([]byte(content))
	}
	if err := errors.Join(err, archive.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestArtifactsAreOutputs: one file each, out of the handler's own bucket, as JSON or by reference.
func TestArtifactsAreOutputs(t *testing.T) {
	t.Parallel()
	id := action.DerivedID(time.Date(2026, 11, 20, 10, 1, 0, 0, time.UTC), "w")
	half := strings.Repeat("1", maxArtifact/2+1)
	bucket := objects{
		"a.json": []byte(`{"n": 1}`), "a.tgz": tarred(t, `{"n": 2}`), "a.zip": zipped(t, `[3]`),
		"two.tgz": tarred(t, "1", "2"), "none.tgz": tarred(t),
		"text": []byte("plain text"), "big": bytes.Repeat([]byte("1"), maxArtifact+1), "bomb.tgz": tarred(t, strings.Repeat("1", maxArtifact+1)),
		"away": nil, "executions/" + id.String() + "/output.json": []byte(`{"features": []}`), "half": []byte(half),
		"x/main.log": []byte("[4]"),
	}
	key, err := webhook.ParseTemplate("key", "executions/{{ .id }}/output.json", webhook.Names{})
	if err != nil {
		t.Fatal(err)
	}
	nowhere, err := webhook.ParseTemplate("key", "nowhere", webhook.Names{})
	if err != nil {
		t.Fatal(err)
	}
	long, err := webhook.ParseTemplate("key", "half", webhook.Names{})
	if err != nil {
		t.Fatal(err)
	}
	from := func(name, key, archive string) string {
		return fmt.Sprintf(`{"name": %q, "s3": {"key": %q}, "archive": {%s}}`, name, key, archive)
	}
	const none, zip = `"none": {}`, `"zip": {}`
	for name, c := range map[string]struct {
		artifacts string
		output    *config.ArgoOutput
		want      string
		missing   []string
		err       string
	}{
		"none":    {"", nil, `{"p":"1"}`, nil, ""},
		"JSON":    {from("a", "a.json", none), nil, `{"a":{"n": 1},"p":"1"}`, nil, ""},
		"tar":     {from("a", "a.tgz", ""), nil, `{"a":{"n": 2},"p":"1"}`, nil, ""},
		"zip":     {from("a", "a.zip", zip), nil, `{"a":[3],"p":"1"}`, nil, ""},
		"text":    {from("a", "text", none), nil, `{"a":{"blob":"` + blob.ActionKey(id, "artifact-a") + `"},"p":"1"}`, nil, ""},
		"missing": {from("a", "nowhere", none), nil, `{"a":null,"p":"1"}`, []string{"artifact a: no object nowhere"}, ""},
		"two files": {from("a", "two.tgz", ""), nil, `{"a":null,"p":"1"}`,
			[]string{"artifact a: unpack two.tgz: want one file in the archive"}, ""},
		"no file": {from("a", "none.tgz", ""), nil, `{"a":null,"p":"1"}`,
			[]string{"artifact a: unpack none.tgz: want one file in the archive"}, ""},
		"not an archive": {from("a", "text", ""), nil, `{"a":null,"p":"1"}`, []string{"artifact a: unpack text: gzip: invalid header"}, ""},
		"too big": {from("a", "big", none), nil, `{"a":null,"p":"1"}`,
			[]string{"artifact a: want at most 8388608 bytes of artifacts"}, ""},
		"too big unpacked": {from("a", "bomb.tgz", ""), nil, `{"a":null,"p":"1"}`,
			[]string{"artifact a: unpack bomb.tgz: want at most 8388608 bytes of artifacts"}, ""},
		"away": {from("a", "away", none), nil, "", nil, "the bucket is away"},
		"elsewhere": {`{"name": "a", "s3": {"bucket": "others", "key": "a.json"}}`, nil, `{"a":null,"p":"1"}`,
			[]string{`artifact a: is in the bucket "others", not in "flows"`}, ""},
		"not in S3":     {`{"name": "a", "gcs": {"key": "a.json"}}`, nil, `{"a":null,"p":"1"}`, []string{"artifact a: is not in S3"}, ""},
		"one parameter": {from("a", "a.json", none), &config.ArgoOutput{Parameter: "p"}, `"1"`, nil, ""},
		"one artifact":  {from("a", "a.json", none), &config.ArgoOutput{Artifact: "a"}, `{"n": 1}`, nil, ""},
		"one of none": {from("a", "a.json", none), &config.ArgoOutput{Artifact: "b"}, `null`,
			[]string{`the workflow has no output "b"`}, ""},
		"an object":      {"", &config.ArgoOutput{Key: key}, `{"features": []}`, nil, ""},
		"no such object": {"", &config.ArgoOutput{Key: nowhere}, `null`, []string{"artifact output document: no object nowhere"}, ""},
		"one of two":     {from("a", "half", none) + ", " + from("b", "half", none), &config.ArgoOutput{Artifact: "b"}, half, nil, ""},
		"too big together": {from("a", "half", none) + ", " + from("b", "half", none), nil,
			`{"a":` + half + `,"b":null,"p":"1"}`, []string{"artifact b: want at most 8388608 bytes of artifacts"}, ""},
		"an object beside": {from("a", "half", none), &config.ArgoOutput{Key: long}, half, nil, ""},
		"one beside a lost one": {from("a", "nowhere", none) + ", " + from("b", "a.json", none),
			&config.ArgoOutput{Artifact: "b"}, `{"n": 1}`, nil, ""},
		"a log": {from("main-logs", "x/main.log", none) + ", " + from("audit-logs", "a.json", none), nil,
			`{"audit-logs":{"n": 1},"p":"1"}`, nil, ""},
		"the log": {from("main-logs", "x/main.log", none), &config.ArgoOutput{Artifact: "main-logs"}, `[4]`, nil, ""},
		"a parameter's name": {from("p", "a.json", none) + ", " + from("b", "a.json", none), nil, `{"b":{"n": 1},"p":"1"}`,
			[]string{"artifact p: an output parameter has the same name"}, ""},
		"wanted with a parameter's name": {from("p", "a.json", none), &config.ArgoOutput{Artifact: "p"}, `{"n": 1}`, nil, ""},
	} {
		archive, err := blob.OpenDir(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		w := &watcher{handler: "flows", Caboose: &Caboose{archive: archive, cfg: Config{
			Buckets: map[string]Bucket{"flows": {Name: "flows", Store: bucket}},
			Output:  func(string) *config.ArgoOutput { return c.output }}}}
		full := workflow(t, `{"metadata": {"name": "`+id.String()+`"}, "status": {"phase": "Succeeded",
			"artifactRepositoryRef": {"artifactRepository": {"s3": {"bucket": "flows"}}},
			"nodes": {"`+id.String()+`": {"outputs": {"artifacts": [`+c.artifacts+`]}}}, "outputs": {"parameters": [{"name": "p", "value": "1"}]}}}`)
		got, err := w.collect(t.Context(), id, full, "mirror")
		if c.err != "" || err != nil {
			if err == nil || c.err == "" || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s: %v, want %q", name, err, c.err)
			}
			continue
		}
		var want bytes.Buffer
		if err := json.Compact(&want, []byte(c.want)); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want.String(), string(got.output)) + cmp.Diff(c.missing, got.missing); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if o := outcomeOf(full, got); (o.Code == codeArtifact) != (len(c.missing) > 0) || o.Kind != action.Done {
			t.Errorf("%s: the end says %s %q", name, o.Code, o.Error)
		}
	}
}

// fetched counts the bytes that are read from a bucket.
type fetched struct {
	objects
	bytes int
}

func (f *fetched) Get(ctx context.Context, key string) (io.ReadCloser, int64, error) {
	r, size, err := f.objects.Get(ctx, key)
	if err != nil {
		return nil, 0, err
	}
	return io.NopCloser(counted{r, &f.bytes}), size, nil
}

type counted struct {
	io.Reader
	bytes *int
}

func (c counted) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	*c.bytes += n
	return n, err
}

// TestArtifactsThatAreDroppedCostToo: fetching and unpacking is bounded, whether it is kept or not.
func TestArtifactsThatAreDroppedCostToo(t *testing.T) {
	t.Parallel()
	var folders bytes.Buffer
	packed := gzip.NewWriter(&folders)
	archive := tar.NewWriter(packed)
	var err error
	folder := &tar.Header{Name: "folder/", Typeflag: tar.TypeDir}
	for range maxRead/512 + 1 {
		err = errors.Join(err, archive.WriteHeader(folder))
	}
	if err := errors.Join(err, archive.Close(), packed.Close()); err != nil {
		t.Fatal(err)
	}
	big := bytes.Repeat([]byte("1"), maxArtifact+1)
	for name, c := range map[string]struct {
		object []byte
		n      int
		want   string
	}{
		"too big":      {big, 100, ""},
		"no archives":  {big[:maxArtifact], 100, ""},
		"folders only": {folders.Bytes(), 1, "want at most 67108864 bytes of artifacts fetched and unpacked"},
	} {
		bucket := &fetched{objects: objects{"key": c.object}}
		w := &watcher{handler: "flows", Caboose: &Caboose{cfg: Config{Buckets: map[string]Bucket{"flows": {Name: "flows", Store: bucket}}}}}
		id := action.DerivedID(time.Date(2026, 11, 20, 10, 1, 0, 0, time.UTC), name)
		full := workflow(t, `{"metadata": {"name": "`+id.String()+`"}, "status": {"phase": "Succeeded", "outputs": {"artifacts": [`+
			strings.TrimSuffix(strings.Repeat(`{"name": "a", "s3": {"key": "key"}},`, c.n), ",")+`]}}}`)
		got, err := w.collect(t.Context(), id, full, "")
		if err != nil {
			t.Fatal(err)
		}
		if len(got.missing) != c.n || !strings.Contains(strings.Join(got.missing, "\n"), c.want) {
			t.Errorf("%s: %d artifacts are missing, want %d:\n%.300q", name, len(got.missing), c.n, got.missing)
		}
		if bucket.bytes > maxRead {
			t.Errorf("%s: %d bytes were fetched, want at most %d", name, bucket.bytes, maxRead)
		}
	}
}
