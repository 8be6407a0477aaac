package runner

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	shimv1 "github.com/waybill-dev/waybill/api/shim/v1"
	"github.com/waybill-dev/waybill/internal/attempt"
	"github.com/waybill-dev/waybill/internal/bubbletest"
	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/networktest"
	"github.com/waybill-dev/waybill/internal/workspace"
)

// TestATransferIsGivenUpOnlyWithoutProgress: connections are cut after a time that is longer than the cluster may be away.
func TestATransferIsGivenUpOnlyWithoutProgress(t *testing.T) {
	t.Parallel()
	cut := errors.New("the connection was cut")
	for name, c := range map[string]struct {
		lasts   time.Duration   // each try
		at      func(n int) int // how far it came
		succeed int             // the try; 0: none
		tries   int             // at the least
		limit   time.Duration   // bounds the whole transfer
	}{
		"slow and whole at last":    {15 * time.Minute, func(n int) int { return n }, 20, 20, 6 * time.Hour},
		"whole at the second try":   {15 * time.Minute, func(int) int { return 0 }, 2, 2, time.Hour},
		"the same bytes every time": {15 * time.Minute, func(int) int { return 1000 }, 0, 3, 2 * time.Hour},
		"no connection":             {0, func(int) int { return 0 }, 0, 50, 15 * time.Minute},
		"further, then no more":     {time.Minute, func(n int) int { return min(n, 30) }, 0, 38, time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubbletest.Test(t, func(t *testing.T) {
				a := &podAttempt{runner: &Runner{Config: Config{Away: 10 * time.Minute}}, sink: &notes{}, watched: map[string]bool{}}
				tries, began := 0, time.Now()
				err := a.transfer(t.Context(), "move", func(context.Context) (int64, error) {
					<-time.After(c.lasts)
					if tries++; tries == c.succeed {
						return int64(c.at(tries)), nil
					}
					return int64(c.at(tries)), cut
				})
				if (err == nil) != (c.succeed > 0) || tries < c.tries || time.Since(began) > c.limit {
					t.Errorf("%d tries in %s: %v", tries, time.Since(began), err)
				}
			})
		})
	}
}

// keeper keeps artifacts.
type keeper struct {
	build.Sink
	kept map[string]string
}

func (k *keeper) Artifact(name, _ string, _ bool, content io.Reader) error {
	text, err := io.ReadAll(content)
	k.kept[name] = string(text)
	return err
}

// fakeShim is a pod whose step prints nothing, ends when it is asked to, and has large files.
type fakeShim struct {
	repo    string
	stopped chan struct{}
	once    sync.Once
	cuts    int  // connections to the output that are cut, each after a quarter of an hour
	ended   bool // the pod was ended, and the step with it
}

func (f *fakeShim) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case shimv1.PathStop:
		f.once.Do(func() { close(f.stopped) })
	case shimv1.PathOutput:
		if f.cuts > 0 {
			f.cuts--
			_ = http.NewResponseController(w).Flush()
			<-time.After(15 * time.Minute)
			panic(http.ErrAbortHandler) // the way to cut the connection
		}
		<-f.stopped
		end, _ := json.Marshal(build.SpoolTrailer{Code: 143, Ended: f.ended}) // never fails
		_, _ = w.Write(build.AppendSpool(nil, build.SpoolRecord{Kind: build.SpoolEnd, At: time.Now(), Data: end}))
	case shimv1.PathFiles:
		select {
		case <-time.After(time.Hour):
		case <-r.Context().Done():
			return
		}
		_, _ = workspace.PackPart(r.Context(), w, f.repo, func(string) bool { return true }) // the runner reads it
	}
}

// serve returns a client of a pod.
func (f *fakeShim) serve(t *testing.T) *Client {
	t.Helper()
	network := networktest.NewMemory(0)
	server := &http.Server{Handler: f}
	served := make(chan error, 1)
	go func() { served <- server.Serve(network) }()
	t.Cleanup(func() {
		_ = server.Close()
		<-served
	})
	return NewClient("", network.Dial)
}

// TestAStepMayPrintNothingForLong: connections that are cut in the meantime do not mean that the cluster is away.
func TestAStepMayPrintNothingForLong(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		pod := &fakeShim{stopped: make(chan struct{}), cuts: 5}
		close(pod.stopped)
		a := &podAttempt{runner: &Runner{Config: Config{Away: 10 * time.Minute}, seen: newPods(nil, nil, "")},
			sink: &keeper{}, watched: map[string]bool{}}
		end, _, err := a.read(t.Context(), pod.serve(t))
		if err != nil || end.Code != 143 {
			t.Errorf("%+v, %v", end, err)
		}
	})
}

// TestFilesOfACanceledStepAreKept however long it takes to copy them.
func TestFilesOfACanceledStepAreKept(t *testing.T) {
	t.Parallel()
	repo := t.TempDir()
	if err := os.WriteFile(filepath.Join(repo, "core"), []byte("dumped"), 0o600); err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	bubbletest.Test(t, func(t *testing.T) {
		client := (&fakeShim{repo: repo, stopped: make(chan struct{})}).serve(t)
		step := build.PlanStep{ID: 1, Name: "dump", Artifacts: []build.ArtifactRule{{Path: "core", When: build.Always}}}
		sink := &keeper{kept: map[string]string{}}
		files := &attempt.Files{Run: build.Run{Step: step}, Sink: sink}
		if err := files.Prepare(t.Context(), t.TempDir()); err != nil {
			t.Fatal(err)
		}
		a := &podAttempt{runner: &Runner{Config: Config{Grace: time.Second, Away: 10 * time.Minute,
			Silence: 10 * time.Minute}, seen: newPods(nil, nil, "")},
			run: build.Run{Step: step}, sink: sink, given: &given{files: files}, folder: folder, watched: map[string]bool{}}
		ctx, stop := context.WithCancelCause(t.Context())
		podCtx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		stop(errors.New("the build was canceled"))
		exit, err := a.work(ctx, podCtx, client, cancel)
		if err != nil || exit.Code != 143 || !strings.Contains(sink.kept["core"], "dumped") {
			t.Errorf("%+v, %v, kept %v", exit, err, sink.kept)
		}
	})
}
