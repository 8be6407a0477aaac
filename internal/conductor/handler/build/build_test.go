package build_test

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/blob"
	"github.com/waybill-dev/waybill/internal/childtest"
	"github.com/waybill-dev/waybill/internal/conductor"
	"github.com/waybill-dev/waybill/internal/conductor/handler/build"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/pipeline"
)

// buildLimit bounds how long the program is built, with nothing in the cache.
const buildLimit = 15 * time.Minute

// folderVariable names the folder of the real program, which is removed after the tests.
const folderVariable = "TEST_BUILD_FOLDER"

func TestMain(m *testing.M) { os.Exit(runTests(m)) }

func runTests(m *testing.M) int {
	dir, err := os.MkdirTemp("", "waybill-*")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	if err := os.Setenv(folderVariable, dir); err != nil {
		panic(err)
	}
	return m.Run()
}

// binary is the path of the real program, which is built at most once.
var binary = sync.OnceValues(func() (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), buildLimit)
	defer cancel()
	return childtest.Program(ctx, "../../../..", os.Getenv(folderVariable))
})

// log is a ledger with one definition and one revision.
type log struct {
	mu         sync.Mutex
	definition pipeline.Definition
	revision   pipeline.RegisteredRevision
	registered []pipeline.RevisionArtifact
	refuse     error
}

func (l *log) Definition(context.Context, string, int) (pipeline.Definition, error) {
	return l.definition, nil
}

func (l *log) Revision(context.Context, string, string, int64) (pipeline.RegisteredRevision, error) {
	return l.revision, nil
}

func (l *log) UploadKey(context.Context) (string, error) { return "upload/20261122T15/x/", nil }

func (l *log) RegisterArtifact(_ context.Context, _ string, _ int64, a pipeline.RevisionArtifact) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.refuse == nil {
		l.registered = append(l.registered, a)
	}
	return l.refuse
}

// setup is a handler on a home of its own.
type setup struct {
	t        *testing.T
	log      *log
	blobs    blob.Store
	builds   string
	handler  *build.Handler
	action   action.Action
	database string // file of the builds; "": none
}

// fresh makes a handler for a revision that consists of one .wharf-ci.yml.
func fresh(t *testing.T, file string, artifacts ...pipeline.Artifact) *setup {
	t.Helper()
	program, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	blobs, err := blob.Open(t.Context(), filepath.Join(home, "blobs"))
	if err != nil {
		t.Fatal(err)
	}
	s := &setup{t: t, blobs: blobs, builds: filepath.Join(home, "builds"), log: &log{
		definition: pipeline.Definition{Pipeline: "shop", Stages: []pipeline.Stage{{Name: "build", Kind: pipeline.BuildStage,
			Build: &pipeline.Build{File: ".wharf-ci.yml", Artifacts: artifacts}}}},
		revision: pipeline.RegisteredRevision{Pipeline: "shop", Seq: 3, Label: "3f9c2ab", Branch: "topic/a", Commit: "3f9c2ab0123456789"},
	}}
	s.log.revision.Snapshot = s.snapshot(file)
	s.handler = build.New(build.Config{Builds: s.builds, Program: []string{program}, Ledger: s.log, Blobs: blobs,
		Workers: &build.Workers{}, Log: slog.New(slog.DiscardHandler)})
	s.action = action.Action{ID: action.DerivedID(time.Unix(1, 0), t.Name()), Kind: "build", Handler: build.Name,
		Parameters: json.RawMessage(`{"stage":"build"}`),
		Step: &action.StepRef{Pipeline: "shop", Deployment: 1, Target: "shop/build", Event: pipeline.BuildCompleted,
			Revision: 3, Version: 1}}
	return s
}

// snapshot stores a workspace of one file.
func (s *setup) snapshot(file string) string {
	s.t.Helper()
	var out bytes.Buffer
	compressed, err := zstd.NewWriter(&out)
	if err != nil {
		s.t.Fatal(err)
	}
	archive := tar.NewWriter(compressed)
	header := &tar.Header{Typeflag: tar.TypeReg, Name: ".wharf-ci.yml", Mode: 0o644, Size: int64(len(file)), Format: tar.FormatPAX}
	_, writeErr := io.Copy(archiveWriter{archive, header}, strings.NewReader(file))
	if err := errors.Join(writeErr, archive.Close(), compressed.Close()); err != nil {
		s.t.Fatal(err)
	}
	key, _, _, err := s.blobs.Put(context.Background(), "sha256/", &out)
	if err != nil {
		s.t.Fatal(err)
	}
	return key
}

// archiveWriter writes its header before the first byte.
type archiveWriter struct {
	*tar.Writer
	header *tar.Header
}

func (w archiveWriter) Write(p []byte) (int, error) {
	if err := w.WriteHeader(w.header); err != nil {
		return 0, err
	}
	return w.Writer.Write(p)
}

func (s *setup) do(ctx context.Context, attempt int) action.Outcome {
	return s.handler.Do(ctx, conductor.Attempt{Action: s.action, Number: attempt})
}

const shop = `
build:
  app:
    artifacts: ["dist/*"]
    test-results: {junit: ["reports/*.xml"]} # a file of test results is no artifact of a stage
    container: {image: none, cmds: ["mkdir dist reports; echo '<testsuite/>' > reports/about.xml; echo amd64 > dist/shop-amd64; echo arm64 > dist/shop-arm64; echo ${GIT_COMMIT_SHORT} ${REPO_NAME} > dist/about"]}
`

func TestABuildRegistersItsArtifacts(t *testing.T) {
	t.Parallel()
	s := fresh(t, shop, pipeline.Artifact{Label: "amd64", Path: "dist/shop-amd64"}, pipeline.Artifact{Label: "about", Path: "**/ab*"})
	o := s.do(t.Context(), 1)
	if o.Kind != action.Done {
		t.Fatalf("%+v", o)
	}
	var got []string
	for _, a := range s.log.registered {
		r, size, err := s.blobs.Get(t.Context(), a.Blob)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if err := errors.Join(err, r.Close()); err != nil || size != a.Size || !strings.HasPrefix(a.Blob, "upload/") ||
			path.Base(a.Blob) != a.Digest {
			t.Errorf("%+v: %d bytes, %v", a, size, err)
		}
		got = append(got, a.Label+" "+a.Name+" "+string(text))
	}
	want := []string{"amd64 dist/shop-amd64 amd64\n", "about dist/about 3f9c2ab shop\n"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if left, _ := filepath.Glob(filepath.Join(s.builds, "*", "workspace*")); left != nil {
		t.Errorf("the snapshot is kept twice: %v", left)
	}
}

func TestWhatGoesWrongIsToldAndClassed(t *testing.T) {
	t.Parallel()
	wanted := pipeline.Artifact{Label: "amd64", Path: "dist/shop-amd64"}
	for name, test := range map[string]struct {
		file string
		want []pipeline.Artifact
		kind action.OutcomeKind
		code string
		text []string
	}{
		"a failing step": {"build:\n  app: {container: {image: i, cmds: ['echo compiling; echo broken >&2; exit 3']}}", nil,
			action.Retry, "build_failed",
			[]string{"build step build/app failed: exit status 3 (.wharf-ci.yml:2:3)\nwhole log: waybill build log ",
				"its last lines:", "\n  compiling", "\n  broken"}},
		"failed tests": {
			"build:\n  app:\n    test-results: {junit: [a.xml]}\n" +
				"    container: {image: i, cmds: ['for t in a b c d e f g; do echo \"<testcase " +
				"name=\\\"$t\\\"><failure/></testcase>\"; done >b; echo \"<testsuite><testcase name=\\\"ok\\\"/>$(cat " +
				"b)</testsuite>\" >a.xml; exit 1']}", nil, action.Retry, "build_failed",
			[]string{"\n7 of its 8 tests failed: a, b, c, d, e and 2 more"}},
		"a step that takes too long": {"build: {app: {timeout: 50ms, container: {image: i, cmds: [exec sleep 60]}}}", nil,
			action.Retry, "build_failed",
			[]string{"build step build/app timed out: it took longer than 50ms"}},
		"a file with faults": {"build: {app: {container: {imag: i}}}\nx: 5", nil, action.BadInput, "build_file",
			[]string{`.wharf-ci.yml:1:15: build/app/container: the field "image" is missing`, ".wharf-ci.yml:2:4: x: want a mapping of steps"}},
		"an artifact that is missing": {"build: {app: {container: {image: i, cmds: ['true']}}}", []pipeline.Artifact{wanted},
			action.Fatal, "artifact_missing",
			[]string{"artifact amd64: the build yields no dist/shop-amd64; it yields none (a step keeps files by its key artifacts)"}},
		"an artifact that is not unpacked": {
			"build: {app: {artifacts: [a.TAR.XZ], container: {image: i, cmds: ['echo a > a.TAR.XZ']}}}",
			[]pipeline.Artifact{{Label: "any", Path: "a.*"}},
			action.Fatal, "artifact_unpackable", []string{`artifact "a.TAR.XZ": archives of the kind .tar.xz are not unpacked`}},
		"an artifact that is ambiguous": {shop, []pipeline.Artifact{{Label: "any", Path: "dist/shop-*"}}, action.Fatal, "artifact_missing",
			[]string{"artifact any: dist/shop-* fits several of the build's artifacts: dist/shop-amd64, dist/shop-arm64"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := fresh(t, test.file, test.want...)
			o := s.do(t.Context(), 1)
			if o.Kind != test.kind || o.Code != test.code {
				t.Errorf("%s %s, want %s %s", o.Kind, o.Code, test.kind, test.code)
			}
			for _, text := range test.text {
				if !strings.Contains(o.Error, text) {
					t.Errorf("%q is not in\n%s", text, o.Error)
				}
			}
			if len(s.log.registered) > 0 {
				t.Errorf("registered %v", s.log.registered)
			}
		})
	}
}

func TestAnAttemptWhoseResultWasNotRecordedIsNotBuiltAgain(t *testing.T) {
	t.Parallel()
	count := filepath.Join(t.TempDir(), "count")
	file := fmt.Sprintf("build: {app: {artifacts: [a], container: {image: i, cmds: ['echo x >> %s; echo a > a']}}}", count)
	s := fresh(t, file, pipeline.Artifact{Label: "a", Path: "a"})
	s.log.refuse = fault.New(fault.LedgerUnavailable, "the ledger is away")
	if o := s.do(t.Context(), 1); o.Kind != action.Throttle {
		t.Fatalf("%+v", o)
	}
	s.log.refuse = nil
	if o := s.do(t.Context(), 2); o.Kind != action.Done {
		t.Fatalf("%+v", o)
	}
	if text, err := os.ReadFile(count); string(text) != "x\n" || err != nil {
		t.Errorf("built %q times, %v", text, err)
	}
}

// TestAnAttemptWithoutResultsLeavesNothing: copies of the snapshot would fill the disk, attempt by attempt.
func TestAnAttemptWithoutResultsLeavesNothing(t *testing.T) {
	t.Parallel()
	s := fresh(t, "build: {app: {container: {imag: i}}}")
	check := func(when string) {
		t.Helper()
		if left, err := filepath.Glob(filepath.Join(s.builds, "*")); err != nil || left != nil {
			t.Errorf("%s: %q are left, %v", when, left, err)
		}
	}
	if o := s.do(t.Context(), 1); o.Kind != action.BadInput {
		t.Fatalf("%+v", o)
	}
	check("after a file with faults")
	killed := filepath.Join(s.builds, s.action.ID.String()+".1")
	if err := errors.Join(os.MkdirAll(killed, 0o700),
		os.WriteFile(filepath.Join(killed, "workspace.tar.zst"), []byte("begun"), 0o600)); err != nil {
		t.Fatal(err)
	}
	s.log.revision.Snapshot = "other/" + strings.Repeat("0", 64)
	if _, _, _, err := s.blobs.Put(t.Context(), s.log.revision.Snapshot, strings.NewReader("damaged")); err != nil {
		t.Fatal(err)
	}
	if o := s.do(t.Context(), 2); !strings.Contains(o.Error, "the stored bytes are not those that were registered") {
		t.Errorf("%+v", o)
	}
	check("after a snapshot that is damaged")
}

func TestARetryOfAFailedBuildBuildsAgain(t *testing.T) {
	t.Parallel()
	count := filepath.Join(t.TempDir(), "count")
	s := fresh(t, fmt.Sprintf("build: {app: {container: {image: i, cmds: ['echo x >> %s; test $(wc -l < %s) = 2']}}}", count, count))
	if o := s.do(t.Context(), 1); o.Kind != action.Retry {
		t.Fatalf("%+v", o)
	}
	if o := s.do(t.Context(), 2); o.Kind != action.Done {
		t.Fatalf("%+v", o)
	}
}

func TestTheCauseOfTheEndDecidesTheOutcome(t *testing.T) {
	t.Parallel()
	for cause, want := range map[error]action.OutcomeKind{
		conductor.ErrCanceled: action.Stopped, conductor.ErrShutdown: action.GivenBack, conductor.ErrAttemptTimeout: action.Retry,
	} {
		t.Run(cause.Error(), func(t *testing.T) {
			t.Parallel()
			ready := filepath.Join(t.TempDir(), "ready")
			if err := childtest.Command(t, "mkfifo", ready).Run(); err != nil {
				t.Fatal(err)
			}
			s := fresh(t, fmt.Sprintf("build: {app: {container: {image: i, cmds: ['echo $$ > %s; exec sleep 60']}}}", ready))
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			go func() {
				_, _ = os.ReadFile(ready) // blocks until the step runs
				cancel(cause)
			}()
			if o := s.do(ctx, 1); o.Kind != want {
				t.Errorf("%+v, want %s", o, want)
			}
			s.log.revision.Snapshot = s.snapshot("build: {app: {container: {image: i, cmds: ['true']}}}")
			if o := s.do(t.Context(), 2); o.Kind != action.Done {
				t.Errorf("the next attempt: %+v", o)
			}
		})
	}
}
