package gate

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/conductor"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/workspace"
)

// files are snapshots by key.
type files map[string][]byte

func (f files) Get(_ context.Context, key string) (io.ReadCloser, int64, error) {
	content, ok := f[key]
	if !ok {
		return nil, 0, fault.New(fault.NotFound, "blob %s not found", key)
	}
	return io.NopCloser(bytes.NewReader(content)), int64(len(content)), nil
}

// snapshot returns a log whose revision has one file, smoke, and a gate that runs a job.
func snapshot(t *testing.T, smoke string, run ...string) log {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "smoke"), []byte(smoke), 0o755); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	var packed bytes.Buffer
	if _, _, err := workspace.Pack(t.Context(), &packed, dir, []string{"smoke"}); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(packed.Bytes())
	key := "snapshots/" + hex.EncodeToString(sum[:])
	return log{job: &pipeline.GateJob{Run: run}, snapshot: key, blobs: files{key: packed.Bytes()}}
}

// TestEndsOfAJob: the exit status of a job reports whether the gate passes, is polled again, or has failed.
func TestEndsOfAJob(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, smoke string
		want        action.OutcomeKind
		text        string
	}{
		{"passes", "exit 0", action.Done, ""},
		{"has its variables", `[ "$*" = "well prod r1 \${word}" ]`, action.Done, ""},
		{"runs in the files of the revision", "[ -x ./smoke ]", action.Done, ""},
		{"has no variable of this process", `[ -z "$WAYBILL_GATE_TEST" ] && [ -n "$PATH" ]`, action.Done, ""},
		{"fails", "echo too slow >&2; exit 1", action.Retry, "./smoke: exit status 1: too slow"},
		{"asks again", "echo warming up; exit 75", action.RetryAfter, "./smoke: exit status 75: warming up"},
		{"fails for good", "exit 78", action.Fatal, "./smoke: exit status 78"},
		{"is killed", "kill -9 $$", action.Retry, "./smoke: "},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			o := attempt(t.Context(), snapshot(t, "#!/bin/sh\n"+c.smoke+"\n", "./smoke", "${word}", "${stage}", "${revision}",
				"$${word}"), "gate-passed/smoke")
			if o.Kind != c.want || !strings.Contains(o.Error, c.text) {
				t.Errorf("%s %s: %q, want %s: %q", o.Kind, o.Code, o.Error, c.want, c.text)
			}
			if later := time.Until(o.At); o.Kind == action.RetryAfter && (later <= 0 || later > time.Minute) {
				t.Errorf("asks again in %s, want its interval", later)
			}
		})
	}
}

// TestAJobThatCannotRun: a program or files that are not there never come.
func TestAJobThatCannotRun(t *testing.T) {
	t.Parallel()
	unknown := snapshot(t, "", "./smoke")
	unknown.blobs = files{}
	altered := snapshot(t, "", "./smoke")
	of := altered.snapshot
	altered.snapshot = "snapshots/" + strings.Repeat("0", 64)
	altered.blobs = files{altered.snapshot: altered.blobs[of]}
	plain := snapshot(t, "", "sh", "-c", `[ -z "$(ls -A)" ]`)
	plain.snapshot = ""
	for name, c := range map[string]struct {
		log  log
		want action.OutcomeKind
		text string
	}{
		"no program":           {snapshot(t, "", "./gone"), action.Fatal, "start ./gone: "},
		"a variable not set":   {snapshot(t, "", "./smoke", "${host}"), action.Fatal, "run of gate smoke: ${host} is not set"},
		"no files in the blob": {unknown, action.Fatal, "unpack revision r1: "},
		"altered files":        {altered, action.Fatal, "unpack revision r1: "},
		"a revision of none":   {plain, action.Done, ""},
	} {
		if o := attempt(t.Context(), c.log, "gate-passed/smoke"); o.Kind != c.want || !strings.Contains(o.Error, c.text) {
			t.Errorf("%s: %s: %q, want %s: %q", name, o.Kind, o.Error, c.want, c.text)
		}
	}
}

// TestAJobIsCanceled: its process ends, and the conductor decides the outcome.
func TestAJobIsCanceled(t *testing.T) {
	t.Parallel()
	began := filepath.Join(t.TempDir(), "began")
	if err := syscall.Mkfifo(began, 0o600); err != nil {
		t.Fatal(err)
	}
	l := snapshot(t, "#!/bin/sh\necho >"+began+"\nexec sleep 3600\n", "./smoke")
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		_, err := os.ReadFile(began) // returns once the job has written its line
		cancel(errors.Join(err, conductor.ErrCanceled))
	}()
	if o := attempt(ctx, l, "gate-passed/smoke"); o.Kind != action.Retry || o.Error != conductor.ErrCanceled.Error() {
		t.Errorf("%s: %q", o.Kind, o.Error)
	}
}
