//go:build services

package workflow_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/blob"
	"github.com/waybill-dev/waybill/internal/caboose"
	"github.com/waybill-dev/waybill/internal/config"
	"github.com/waybill-dev/waybill/test/testbed"
)

// packed returns a file as Argo stores one in S3.
func packed(t *testing.T, content string) []byte {
	t.Helper()
	var b bytes.Buffer
	zipped := gzip.NewWriter(&b)
	archive := tar.NewWriter(zipped)
	err := archive.WriteHeader(&tar.Header{Name: "output.json", Typeflag: tar.TypeReg, Size: int64(len(content))})
	_, wrong := archive.Write([]byte(content))
	if err := errors.Join(err, wrong, archive.Close(), zipped.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestArtifactsAreOutputs: what a workflow has put into S3 is its job's output, once the bucket can
// be reached.
func TestArtifactsAreOutputs(t *testing.T) {
	bucket := testbed.S3(t)
	t.Setenv("AWS_ACCESS_KEY_ID", bucket.AccessKey)
	t.Setenv("AWS_SECRET_ACCESS_KEY", bucket.SecretKey)
	cluster := testbed.Kubernetes(t)
	cluster.InstallWorkflows(t)
	cfg, err := config.Read("server.yaml", fmt.Appendf(nil, `
handlers:
  argo: {type: argo, argoConf: {artifacts: "s3://%s?endpoint=%s&region=%s"}}
workflows:
  declared: {handler: argo, argoOpts: {template: workflowtemplate/x}}
  whole: {handler: argo, argoOpts: {template: workflowtemplate/x, output: {key: "executions/{{ .id }}/output.json"}}}
`, bucket.Name, bucket.Endpoint, bucket.Region))
	if err != nil {
		t.Fatal(err)
	}
	at := cfg.Handlers["argo"].Argo
	store, err := blob.Open(t.Context(), at.Artifacts)
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, cluster, t.TempDir())
	w.buckets, w.output = map[string]caboose.Bucket{"argo": {Name: at.Bucket(), Store: store}}, cfg.ArgoOutput
	put := func(key string, content []byte) {
		t.Helper()
		if _, err := bucket.Client().PutObject(t.Context(),
			&s3.PutObjectInput{Bucket: &bucket.Name, Key: &key, Body: bytes.NewReader(content)}); err != nil {
			t.Fatal(err)
		}
	}
	job := func(process string) action.ID {
		t.Helper()
		a, err := cfg.Processes[process].Prepare([]byte(`{}`))
		if err != nil {
			t.Fatal(err)
		}
		return w.handOver(w.add(a))
	}
	declared, whole := job("declared"), job("whole")
	put("run/output.tgz", packed(t, `{"features": [{"id": "a"}]}`))
	put("executions/"+whole.String()+"/output.json", []byte(`{"features": [{"id": "b"}]}`))
	bucket.Kill(t)
	w.set(declared.String(), `{"phase": "Succeeded", "startedAt": "2026-11-20T10:00:00Z", "finishedAt": "2026-11-20T10:01:00Z", "outputs": {
		"parameters": [{"name": "n", "value": "1"}], "artifacts": [
		{"name": "made", "s3": {"bucket": "`+bucket.Name+`", "key": "run/output.tgz"}},
		{"name": "lost", "s3": {"key": "run/nowhere"}, "archive": {"none": {}}}]}}`)
	w.set(whole.String(), succeeded)
	failed := make(chan struct{}, 100)
	w.buckets["argo"] = caboose.Bucket{Name: at.Bucket(), Store: noticing{store, failed}}
	w.observe(nil)
	select {
	case <-failed:
	case <-time.After(limit):
		t.Fatalf("no artifact was asked for within %s", limit)
	}
	w.wantHistory(declared, action.Queued)
	bucket.Start(t)

	state := w.awaitStatus(declared, action.Successful)
	if want := `{"lost":null,"made":{"features":[{"id":"a"}]},"n":"1"}`; string(state.Output) != want || state.Code != "artifact_missing" {
		t.Errorf("output %s (%s: %s), want %s", state.Output, state.Code, state.Error, want)
	}
	if state := w.awaitStatus(whole, action.Successful); string(state.Output) != `{"features":[{"id":"b"}]}` || state.Code != "" {
		t.Errorf("whole output %s (%s: %s)", state.Output, state.Code, state.Error)
	}
	w.awaitGone(declared.String())
	if got := w.archived(whole, "outputs.json"); got != `{"features":[{"id":"b"}]}` {
		t.Errorf("archived %s", got)
	}
}

// noticing reports reads that failed.
type noticing struct {
	caboose.Getter
	failed chan struct{}
}

func (n noticing) Get(ctx context.Context, key string) (io.ReadCloser, int64, error) {
	r, size, err := n.Getter.Get(ctx, key)
	if err != nil {
		select {
		case n.failed <- struct{}{}:
		default:
		}
	}
	return r, size, err
}
