package build_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	provisionerv1 "github.com/waybill-dev/waybill/api/provisioner/v1"
	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/blob"
	domain "github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/builds"
	"github.com/waybill-dev/waybill/internal/conductor"
	"github.com/waybill-dev/waybill/internal/conductor/handler/build"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/results"
	"github.com/waybill-dev/waybill/internal/testresult"
	"github.com/waybill-dev/waybill/internal/workspace"
)

// leave returns the messages of a worker about a build whose step tool has completed with an artifact and tests, and
// whose step use has failed. The artifact is in the blob store.
func leave(t *testing.T, blobs blob.Store) builds.Batch {
	t.Helper()
	log := domain.FormatEntry(nil, domain.Entry{At: time.Unix(1, 0).UTC(), Text: []byte("made")})
	sum, none := sha256.Sum256(log), sha256.Sum256(nil)
	whole, empty := &domain.Trailer{Entries: 1, Bytes: int64(len(log)),
		SHA256: hex.EncodeToString(sum[:])}, &domain.Trailer{SHA256: hex.EncodeToString(none[:])}
	key, digest, size, err := blobs.Put(t.Context(), builds.Folder(1)+"/1", strings.NewReader("the tool"))
	if err != nil {
		t.Fatal(err)
	}
	exit := 1
	events := []builds.Event{{Step: 0, Status: domain.Running}, {Step: 1, Status: domain.Running},
		{Step: 1, Status: domain.Completed, Trailer: whole},
		{Step: 2, Status: domain.Running}, {Step: 2, Status: domain.Failed, ExitCode: &exit, Trailer: empty},
		{Step: 0, Status: domain.Failed, Trailer: empty, Final: &domain.Final{Steps: 2, Events: 6, Artifacts: 1}}}
	for i := range events {
		events[i].Source, events[i].EventID, events[i].At = builds.Worker, strconv.Itoa(i+1), time.Unix(int64(i), 0)
	}
	report := domain.TestFile{Artifact: 1, Step: 1, Name: "out.xml", Format: testresult.JUnit, Report: testresult.Report{Results: []testresult.Result{
		{Suite: "s", Name: "a", Outcome: testresult.Passed}, {Suite: "s", Name: "b", Outcome: testresult.Failed, Message: "no"}}}}
	report.Counts = testresult.Counts{Tests: 2, Failed: 1}
	return builds.Batch{Steps: []builds.Step{{ID: 1, Stage: "one", Name: "tool", Identity: strings.Repeat("a", 64)},
		{ID: 2, Stage: "two", Name: "use", Needs: []int{1}}},
		Logs: []*builds.LogBatch{{Step: 1, Entries: 1, Data: log}},
		Artifacts: []builds.Artifact{{Artifact: domain.Artifact{ID: 1, Step: 1, Name: "bin/tool", Size: size, SHA256: digest,
			Kind: domain.KindFile, Path: key, Executable: true}, State: builds.Stored}},
		Tests: []domain.TestFile{report}, Events: events}
}

// resumes stores the earlier build 1 and build 2, which resumes it, and makes the handler's action that of build 2.
// change changes the earlier build's results.
func resumes(t *testing.T, change func(b *builds.Batch)) (*setup, *builds.Builds, *yard, *[]byte) {
	t.Helper()
	var sent []byte // the bundle, as it was when the worker ran
	var s *setup
	var y *yard
	s, stored, y := inWorkers(t, func(ctx context.Context, stored *builds.Builds) error {
		asked := y.asked[len(y.asked)-1]
		content, _, err := s.blobs.Get(ctx, asked.Earlier.Bundle)
		if err != nil {
			return err
		}
		sent, err = io.ReadAll(content)
		_, recorded := stored.Record(ctx, builds.ID(asked.BuildID), builds.Event{Source: builds.API, EventID: "end", Status: domain.Failed})
		return errors.Join(err, content.Close(), recorded)
	})
	earlier, err := stored.Create(t.Context(), builds.Build{Project: "shop"})
	if err != nil {
		t.Fatal(err)
	}
	batch := leave(t, s.blobs)
	if change != nil {
		change(&batch)
	}
	if _, err := stored.Ingest(t.Context(), earlier.ID, batch); err != nil {
		t.Fatal(err)
	}
	alone(t, s, stored, "", builds.Build{RerunOf: earlier.ID, Resume: true, Commit: strings.Repeat("ab", 20)})
	return s, stored, y, &sent
}

// unpacked returns the results in a bundle.
func unpacked(t *testing.T, bundle []byte) (*results.Reader, results.Earlier) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "earlier")
	if err := workspace.Extract(t.Context(), bytes.NewReader(bundle), dir, ""); err != nil {
		t.Fatal(err)
	}
	r, err := results.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	earlier, err := r.Earlier()
	if err != nil {
		t.Fatal(err)
	}
	return r, earlier
}

func TestAResumedBuildIsGivenWhatTheEarlierOneHasLeft(t *testing.T) {
	t.Parallel()
	s, stored, y, sent := resumes(t, nil)
	y.waiting = &provisionerv1.Waiting{Running: 4, Limit: 4}
	if o := s.do(t.Context(), 1); o.Kind != action.RetryAfter {
		t.Fatalf("%+v", o)
	}
	if err := errors.Join(stored.Delete(t.Context(), 1), s.blobs.Clear(t.Context(), builds.Folder(1))); err != nil { // it was gathered before
		t.Fatal(err)
	}
	y.waiting = nil
	if o := s.do(t.Context(), 2); o.Kind != action.Fatal || o.Code != "build_failed" {
		t.Fatalf("%+v", o)
	}
	if diff := cmp.Diff(y.asked[0], y.asked[1]); diff != "" {
		t.Errorf("the second request is another one: %s", diff)
	}
	if err := y.asked[0].Check(); err != nil || y.asked[0].Earlier.BuildID != 1 {
		t.Errorf("%+v, %v", y.asked[0], err)
	}
	r, earlier := unpacked(t, *sent)
	want := results.Earlier{Build: "1", Steps: []domain.Earlier{{ID: 1, Stage: "one", Name: "tool", Identity: strings.Repeat("a", 64)},
		{ID: 2, Stage: "two", Name: "use", Missing: "it failed"}}}
	if diff := cmp.Diff(want, earlier); diff != "" {
		t.Error(diff)
	}
	artifacts, err := r.StepArtifacts(1)
	if err != nil || len(artifacts) != 1 || !artifacts[0].Executable || artifacts[0].Name != "bin/tool" {
		t.Errorf("%+v, %v", artifacts, err)
	}
	tests, err := r.TestsOf(1)
	if err != nil || len(tests) != 1 || tests[0].Failed != 1 || len(tests[0].Results) != 2 || tests[0].Results[1].Message != "no" {
		t.Errorf("%+v, %v", tests, err)
	}
	if text, err := os.ReadFile(r.LogPath(1)); err != nil || !strings.HasSuffix(string(text), " made\n") {
		t.Errorf("%q, %v", text, err)
	}
	if has, err := s.blobs.Has(t.Context(), y.asked[1].Earlier.Bundle); err != nil || has {
		t.Errorf("the bundle is there after the end of the build: %v, %v", has, err)
	}
}

// TestWhatTheEarlierBuildLacksRunsAgain, and the worker learns why.
func TestWhatTheEarlierBuildLacksRunsAgain(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(b *builds.Batch)
		after  func(ctx context.Context, s *setup, stored *builds.Builds) error
		build  string // why nothing can be reused
		step   string // why the step tool cannot
	}{
		"it had no steps": {change: func(b *builds.Batch) { *b = builds.Batch{} }, build: "build 1 ended before it had steps",
			after: func(ctx context.Context, _ *setup, stored *builds.Builds) error {
				_, err := stored.Cancel(ctx, 1, "ana")
				return err
			}},
		"it was deleted": {after: func(ctx context.Context, _ *setup, stored *builds.Builds) error { return stored.Delete(ctx, 1) },
			build: "build 1 has been deleted"},
		"it expired": {after: func(ctx context.Context, s *setup, stored *builds.Builds) error {
			return stored.Retain(ctx, time.Nanosecond, s.blobs)
		},
			build: "the logs and artifacts of build 1 were kept until DAY"},
		"its artifact is gone": {after: func(ctx context.Context, s *setup, _ *builds.Builds) error {
			return s.blobs.Clear(ctx, builds.Folder(1))
		},
			step: "the artifact bin/tool is gone"},
		"its artifact is another one": {after: func(ctx context.Context, s *setup, _ *builds.Builds) error {
			_, _, _, err := s.blobs.Put(ctx, builds.Folder(1)+"/1", strings.NewReader("longer than the tool"))
			return err
		}, step: "the artifact bin/tool is damaged"},
		"its artifact has other bytes": {after: func(ctx context.Context, s *setup, _ *builds.Builds) error {
			_, _, _, err := s.blobs.Put(ctx, builds.Folder(1)+"/1", strings.NewReader("the fool"))
			return err
		}, step: "its log or an artifact is damaged"},
		"its artifact never came": {change: func(b *builds.Batch) { b.Artifacts[0].State, b.Artifacts[0].Path = builds.Damaged, "" },
			step: "the artifact bin/tool is damaged"},
		"its log is not whole": {change: func(b *builds.Batch) { b.Logs, b.Events = nil, b.Events[:len(b.Events)-1] },
			step: "its log is not whole, or is gone"},
		"it is too large": {change: func(b *builds.Batch) { b.Artifacts[0].Size = 1000<<20 + 1 },
			step: "with its log and artifacts, those of the steps that are reused would be more than 1000 MiB"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, stored, _, sent := resumes(t, c.change)
			if c.after != nil {
				if err := c.after(t.Context(), s, stored); err != nil {
					t.Fatal(err)
				}
			}
			if o := s.do(t.Context(), 1); o.Code != "build_failed" {
				t.Fatalf("%+v", o)
			}
			_, earlier := unpacked(t, *sent)
			want := c.build
			if strings.HasSuffix(want, "DAY") { // by the database's clock
				row, err := stored.Build(t.Context(), 1)
				if err != nil {
					t.Fatal(err)
				}
				want = strings.Replace(want, "DAY", row.ExpiredAt.UTC().Format("2 January 2006"), 1)
			}
			if earlier.Missing != want {
				t.Errorf("nothing can be reused because %q, want %q", earlier.Missing, want)
			}
			if c.build == "" && earlier.Steps[0].Missing != c.step {
				t.Errorf("the step cannot be reused because %q, want %q", earlier.Steps[0].Missing, c.step)
			}
		})
	}
}

// TestAnotherProjectsBuildIsNotReused: the number in the row may be wrong.
func TestAnotherProjectsBuildIsNotReused(t *testing.T) {
	t.Parallel()
	s, stored, _, sent := resumes(t, nil)
	s.handler.Workers.Project = func(string) (build.Project, error) { return build.Project{URL: "other"}, nil }
	other, err := stored.Create(t.Context(), builds.Build{Project: "other", RerunOf: 1, Resume: true, Commit: strings.Repeat("ab", 20)})
	if err == nil {
		err = builds.Describe(&s.action, other)
	}
	if err != nil {
		t.Fatal(err)
	}
	_ = s.do(t.Context(), 1)
	if _, earlier := unpacked(t, *sent); earlier.Missing != "build 1 is of another project" || len(earlier.Steps) != 0 {
		t.Errorf("%+v", earlier)
	}
}

// TestWhatGoesWhileItIsGatheredIsLookedAtAgain: the attempt is made again, and finds it gone.
func TestWhatGoesWhileItIsGatheredIsLookedAtAgain(t *testing.T) {
	t.Parallel()
	s, _, _, sent := resumes(t, nil)
	s.handler.Blobs = &vanishing{Store: s.blobs, left: 1}
	if o := s.do(t.Context(), 1); o.Kind != action.Retry || !strings.Contains(o.Error, "gather what build 1 has left") {
		t.Fatalf("%+v", o)
	}
	if o := s.do(t.Context(), 2); o.Code != "build_failed" {
		t.Fatalf("%+v", o)
	}
	if _, earlier := unpacked(t, *sent); earlier.Steps[0].Missing != "the artifact bin/tool is gone" {
		t.Errorf("%+v", earlier)
	}
}

// TestABundleThatTheProvisionerCannotSendIsLeftOut, and the build reports it.
func TestABundleThatTheProvisionerCannotSendIsLeftOut(t *testing.T) {
	t.Parallel()
	for _, code := range []fault.Code{fault.TooLarge, fault.NotFound} {
		t.Run(string(code), func(t *testing.T) {
			t.Parallel()
			s, stored, y := inWorkers(t, fails)
			_, err := stored.Create(t.Context(), builds.Build{Project: "shop"})
			if err := errors.Join(err, fails(t.Context(), stored)); err != nil {
				t.Fatal(err)
			}
			alone(t, s, stored, "", builds.Build{RerunOf: 1, Resume: true, Commit: strings.Repeat("ab", 20)})
			y.away = fault.New(code, "the bundle has 9 bytes")
			if o := s.do(t.Context(), 1); o.Kind != action.RetryAfter {
				t.Fatalf("%+v", o)
			}
			row, err := stored.Build(t.Context(), 2)
			if err != nil || row.Reason != "Resume" ||
				row.Message != "every step runs again: what build 1 has left cannot be sent to the worker: the bundle has 9 bytes" {
				t.Errorf("%+v, %v", row, err)
			}
			y.away = nil
			if o := s.do(t.Context(), 2); o.Code != "build_failed" || len(y.asked) != 2 || y.asked[0].Earlier == nil || y.asked[1].Earlier != nil {
				t.Errorf("%+v, asked for %+v", o, y.asked)
			}
		})
	}
}

// TestAConductorThatEndsWhileItGathersLeavesNothing: the next attempt gathers everything.
func TestAConductorThatEndsWhileItGathersLeavesNothing(t *testing.T) {
	t.Parallel()
	s, stored, y, sent := resumes(t, nil)
	ctx, end := context.WithCancelCause(t.Context())
	s.handler.Blobs = &ending{Store: s.blobs, left: 1, end: func() { end(conductor.ErrShutdown) }}
	if o := s.do(ctx, 1); o.Kind != action.GivenBack || len(y.asked) != 0 {
		t.Fatalf("%+v, asked for %+v", o, y.asked)
	}
	if row, err := stored.Build(t.Context(), 2); err != nil || row.Bundle != "" {
		t.Errorf("%+v, %v", row, err)
	}
	if left, err := s.blobs.Folders(t.Context(), "build/2"); err != nil || len(left) != 0 {
		t.Errorf("%v is left, %v", left, err)
	}
	s.handler.Blobs = s.blobs
	if o := s.do(t.Context(), 2); o.Code != "build_failed" {
		t.Fatalf("%+v", o)
	}
	if _, earlier := unpacked(t, *sent); earlier.Steps[0].Missing != "" {
		t.Errorf("%+v", earlier)
	}
}

// ending is a store that ends something when an artifact is read after so many reads.
type ending struct {
	blob.Store
	left int
	end  func()
}

func (e *ending) Get(ctx context.Context, key string) (io.ReadCloser, int64, error) {
	if e.left--; e.left < 0 {
		e.end()
		return nil, 0, context.Cause(ctx)
	}
	return e.Store.Get(ctx, key)
}

// vanishing is a store whose artifacts are gone after so many reads.
type vanishing struct {
	blob.Store
	left int
}

func (v *vanishing) Get(ctx context.Context, key string) (io.ReadCloser, int64, error) {
	if strings.HasPrefix(key, builds.Folder(1)) {
		if v.left == 0 {
			return nil, 0, fault.New(fault.NotFound, "blob %s not found", key)
		}
		v.left--
	}
	return v.Store.Get(ctx, key)
}
