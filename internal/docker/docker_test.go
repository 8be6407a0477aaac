package docker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/moby/moby/api/types/jsonstream"
	"github.com/moby/moby/client"

	"github.com/waybill-dev/waybill/internal/bubbletest"
	"github.com/waybill-dev/waybill/internal/build"
)

func TestPortsAtWhichAServiceListens(t *testing.T) {
	t.Parallel()
	const table = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 00000000:1538 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 29012 1 0000000000000000 100 0 0 10 0
   1: 0100007F:0050 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 29013 1
   2: 020011AC:1F90 030011AC:8888 01 00000000:00000000 00:00000000 00000000     0        0 29014 1
  sl  local_address                         remote_address                        st
   0: 00000000000000000000000000000000:1F91 00000000000000000000000000000000:0000 0A 0
   1: 00000000000000000000000001000000:1F92 00000000000000000000000000000000:0000 0A 0
   2: 00000000:zz 00000000:0000 0A
  short
`
	if diff := cmp.Diff([]int{5432, 8081}, listening([]byte(table))); diff != "" {
		t.Error(diff)
	}
}

func TestAPullThatCannotSucceedIsTheStepsFault(t *testing.T) {
	t.Parallel()
	for text, hopeless := range map[string]bool{
		"manifest for shop:9 not found: manifest unknown: manifest unknown":                            true,
		"pull access denied for shop, repository does not exist or may require 'docker login'":         true,
		"no matching manifest for linux/arm64 in the manifest list entries":                            true,
		"Get \"https://registry-1.docker.io/v2/\": dial tcp 10.0.0.1:443: connect: connection refused": false,
		"toomanyrequests: You have reached your pull rate limit":                                       false,
		"received unexpected HTTP status: 503 Service Unavailable":                                     false,
		"Get \"https://registry-1.docker.io/v2/\": net/http: TLS handshake timeout":                    false,
	} {
		_, ofStep := errors.AsType[*build.StepError](pullError("shop:9", &jsonstream.Error{Message: text}))
		if ofStep != hopeless {
			t.Errorf("%s: the step's fault: %v", text, ofStep)
		}
	}
}

func TestProgressOfAPullIsThatOfAllLayers(t *testing.T) {
	t.Parallel()
	l := layers{}
	for _, m := range []jsonstream.Message{
		{ID: "a", Status: "Pulling fs layer"},
		{ID: "a", Status: "Downloading", Progress: &jsonstream.Progress{Current: 1 << 20, Total: 4 << 20}},
		{ID: "b", Status: "Downloading", Progress: &jsonstream.Progress{Current: 1 << 20, Total: 6 << 20}},
		{ID: "a", Status: "Download complete"},
		{ID: "b", Status: "Extracting", Progress: &jsonstream.Progress{Current: 9 << 20, Total: 9 << 20}},
	} {
		l.add(m)
	}
	if got := l.String(); got != "5.0 MiB of 10 MiB" {
		t.Errorf("got %q", got)
	}
	for i := range 2 * maxLayers {
		l.add(jsonstream.Message{ID: fmt.Sprint(i), Status: "Downloading", Progress: &jsonstream.Progress{}})
	}
	if len(l) > maxLayers {
		t.Errorf("%d layers are remembered", len(l))
	}
}

func newTestWorker(t *testing.T, dir string) *worker {
	t.Helper()
	w, err := newWorker(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.close() }) // closed twice
	return w
}

func TestAWorkerIsGoneWhenItsLockIs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first, second, other := newTestWorker(t, dir), newTestWorker(t, dir), newTestWorker(t, t.TempDir())
	if first.instance != second.instance || first.instance == other.instance {
		t.Errorf("instances %q, %q and %q", first.instance, second.instance, other.instance)
	}
	for id, want := range map[string]bool{second.id: false, first.id: false, "never-there": true, "": false, "../" + second.id: false} {
		if got := first.gone(id); got != want {
			t.Errorf("%q is gone: %v", id, got)
		}
	}
	if err := second.lock.Close(); err != nil { // as when a process is killed
		t.Fatal(err)
	}
	if !first.gone(second.id) {
		t.Error("a worker without its lock is not gone")
	}
	first.removeLocks()
	if files, _ := filepath.Glob(filepath.Join(dir, "*"+lockExtension)); len(files) != 1 || files[0] != first.lockOf(first.id) {
		t.Errorf("locks %q", files)
	}
}

// TestAnEngineThatDoesNotAnswerIsNotWaitedFor: a socket that accepts and stays silent.
func TestAnEngineThatDoesNotAnswerIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	_, err = ConnectTo(t.Context(), "unix://"+listener.Addr().String())
	if err == nil || !strings.Contains(err.Error(), "no answer within 2s") {
		t.Errorf("%v", err)
	}
}

func TestABrokenConnectionIsTriedAgainAndAnAnswerIsNot(t *testing.T) {
	t.Parallel()
	calls := 0
	_, err := persist(t.Context(), func(context.Context) (int, error) {
		calls++
		return 0, http.ErrBodyNotAllowed
	})
	if calls != 1 || !errors.Is(err, http.ErrBodyNotAllowed) {
		t.Errorf("%d calls, %v", calls, err)
	}
	calls = 0
	_, err = persist(t.Context(), func(context.Context) (int, error) {
		if calls++; calls < 3 {
			return 0, &net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}
		}
		return 7, nil
	})
	if calls != 3 || err != nil {
		t.Errorf("%d calls, %v", calls, err)
	}
}

// TestTheEngineIsWaitedForAMinute: counted from when it went away, also under a call that had lasted.
func TestTheEngineIsWaitedForAMinute(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		refused := &net.OpError{Op: "dial", Err: os.ErrDeadlineExceeded}
		began, calls := time.Now(), 0
		if _, err := persist(t.Context(), func(context.Context) (int, error) {
			calls++
			return 0, refused
		}); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(began) < patience || time.Since(began) > patience+2*lastPause {
			t.Errorf("%d calls in %s, %v", calls, time.Since(began), err)
		}
		calls = 0
		if _, err := persist(t.Context(), func(context.Context) (int, error) {
			if calls++; calls == 1 {
				<-time.After(time.Hour)
			}
			if calls < 4 {
				return 0, refused
			}
			return 0, nil
		}); err != nil || calls != 4 {
			t.Errorf("%d calls, %v", calls, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		calls = 0
		if _, err := persist(ctx, func(context.Context) (int, error) {
			if calls++; calls == 3 {
				cancel()
			}
			return 0, refused
		}); err == nil || calls != 3 {
			t.Errorf("%d calls although the context ended during the third: %v", calls, err)
		}
	})
}

// silent is an Engine that takes every request and answers none.
type silent struct{}

func (silent) RoundTrip(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, context.Cause(r.Context())
}

func TestAnEngineThatHangsDoesNotHoldTheEndOfAStep(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		api, err := client.New(client.WithHost("tcp://engine:2375"), client.WithHTTPClient(&http.Client{Transport: silent{}}))
		if err != nil {
			t.Fatal(err)
		}
		watch, stop := context.WithCancel(t.Context())
		svc := &service{id: "db", end: &ending{exited: make(chan struct{})}, stop: stop, done: make(chan struct{})}
		go func() {
			defer close(svc.done)
			<-watch.Done() // as follow does, which reads the output of the service
		}()
		s := &step{Runner: &Runner{engine: &Engine{api: api}, worker: &worker{id: "w"}}, id: "step", began: true, services: []*service{svc}}
		began := time.Now()
		s.end(t.Context())
		s.removals.Wait()
		if took := time.Since(began); took > 3*removal || len(s.remarks) != 1 || !strings.Contains(s.remarks[0], "the next build does so") {
			t.Errorf("after %s: %q", took, s.remarks)
		}
	})
}
