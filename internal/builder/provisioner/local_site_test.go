package provisioner_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"connectrpc.com/connect"

	provisionerv1 "github.com/waybill-dev/waybill/api/provisioner/v1"
	workerv1 "github.com/waybill-dev/waybill/api/worker/v1"
	"github.com/waybill-dev/waybill/api/worker/v1/workerv1connect"
	"github.com/waybill-dev/waybill/internal/blob"
	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/builder/provisioner"
	"github.com/waybill-dev/waybill/internal/childtest"
	"github.com/waybill-dev/waybill/internal/fault"
)

const (
	programVariable = "TEST_PROVISIONER_PROGRAM"
	folderVariable  = "TEST_PROVISIONER_FOLDER"
	signalVariable  = "TEST_PROVISIONER_SIGNALS"
	buildLimit      = 15 * time.Minute
	token           = "the token of the provisioner"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(folderVariable); dir != "" {
		serveAlone(dir, os.Getenv(programVariable))
		return
	}
	if os.Getenv(signalVariable) != "" {
		printSignals()
	}
	os.Exit(runTests(m))
}

// printSignals prints the signals that come, a line each.
func printSignals() {
	caught := make(chan os.Signal, 10)
	signal.Notify(caught, syscall.SIGTERM, syscall.SIGUSR1)
	fmt.Println("ready")
	for s := range caught {
		fmt.Println(s)
	}
}

// runTests finds or builds the real program, and gives the workers a temporary folder of their own.
func runTests(m *testing.M) int {
	dir, err := os.MkdirTemp("", "provisioner-*")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	ctx, cancel := context.WithTimeout(context.Background(), buildLimit)
	defer cancel()
	program, err := childtest.Program(ctx, "../../..", dir)
	if err != nil {
		panic(err)
	}
	temporary := filepath.Join(dir, "tmp")
	if err := errors.Join(os.Mkdir(temporary, 0o700), os.Setenv(programVariable, program), os.Setenv("TMPDIR", temporary)); err != nil {
		panic(err)
	}
	return m.Run()
}

// serveAlone runs a provisioner as a process of its own, which prints its address.
func serveAlone(dir, program string) {
	local, err := provisioner.OpenLocal(localConfig(dir, program))
	if err != nil {
		panic(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Println("http://" + listener.Addr().String())
	panic(http.Serve(listener, newServer(local))) //nolint:gosec // a test
}

func localConfig(dir, program string) provisioner.LocalConfig {
	return provisioner.LocalConfig{Dir: dir, Program: []string{program}, Log: slog.New(slog.DiscardHandler)}
}

var keys = build.BuilderKeys{{Number: 1, Secret: []byte("0123456789abcdef")}} //nolint:gochecknoglobals // a constant

func newServer(backend provisioner.Backend) *provisioner.Server {
	return provisioner.New(provisioner.Config{Backend: backend, Name: "local", Keys: keys, Concurrent: 8, PerProject: 4,
		Log: slog.New(slog.DiscardHandler),
		Access: func(_ context.Context, given string) error {
			if given != token {
				return fault.New(fault.Unauthorized, "this token is not known")
			}
			return nil
		}})
}

// site is a provisioner of local workers and a repository that they build.
type site struct {
	t      *testing.T
	dir    string
	local  *provisioner.Local
	client *provisionerv1.Client
	origin string
	commit string
}

// newSite makes a repository with a build file, and a provisioner. Workers that are left are killed at the end.
func newSite(t *testing.T, file string) *site {
	t.Helper()
	s := &site{t: t, dir: filepath.Join(t.TempDir(), "workers"), origin: t.TempDir()}
	s.git("init", "-q", "-b", "main")
	if err := os.WriteFile(filepath.Join(s.origin, ".wharf-ci.yml"), []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	s.git("add", ".")
	s.git("-c", "user.name=Ana", "-c", "user.email=ana@example.net", "commit", "-q", "-m", "one")
	s.commit = s.git("rev-parse", "HEAD")
	s.open()
	t.Cleanup(s.close)
	return s
}

// close kills the workers and waits for their ends.
func (s *site) close() {
	ctx := childtest.Context(s.t)
	for {
		workers, err := s.local.List(ctx)
		alive := false
		for _, w := range workers {
			alive = alive || w.Status != "Ended"
			err = errors.Join(err, s.local.Delete(ctx, w.WorkerID, true))
		}
		if err != nil || ctx.Err() != nil {
			s.t.Error(err, context.Cause(ctx))
		}
		if !alive || err != nil || ctx.Err() != nil {
			break
		}
	}
	_ = s.local.Close()
}

func (s *site) git(arguments ...string) string {
	s.t.Helper()
	c := childtest.Command(s.t, "git", arguments...)
	c.Dir = s.origin
	out, err := c.Output()
	if err != nil {
		s.t.Fatalf("git %v: %v", arguments, err)
	}
	return strings.TrimSpace(string(out))
}

// open opens the folder of the workers, as a provisioner that was started again does.
func (s *site) open(edits ...func(*provisioner.LocalConfig)) {
	s.t.Helper()
	config := localConfig(s.dir, os.Getenv(programVariable))
	blobs, err := blob.Open(s.t.Context(), s.t.TempDir())
	if err != nil {
		s.t.Fatal(err)
	}
	config.Blobs = blobs
	for _, edit := range edits {
		edit(&config)
	}
	if s.local, err = provisioner.OpenLocal(config); err != nil {
		s.t.Fatal(err)
	}
	server := httptest.NewServer(newServer(s.local))
	s.t.Cleanup(server.Close)
	s.client = clientOf(server.URL)
}

func clientOf(url string) *provisionerv1.Client {
	return &provisionerv1.Client{URL: url, Token: func() (string, error) { return token, nil }}
}

func (s *site) request(id int64) provisionerv1.CreateWorker {
	return provisionerv1.CreateWorker{BuildID: id, Project: "7", Instance: "shop", Nonce: "0123456789abcdef",
		Repository: &provisionerv1.Repository{URL: "file://" + s.origin, Commit: s.commit, Branch: "main"}}
}

func (s *site) create(request provisionerv1.CreateWorker) provisionerv1.Created {
	s.t.Helper()
	created, err := s.client.Create(childtest.Context(s.t), request)
	if err != nil {
		s.t.Fatal(err)
	}
	return created
}

func (s *site) list() provisionerv1.WorkerList {
	s.t.Helper()
	list, err := s.client.List(context.WithoutCancel(s.t.Context()), provisionerv1.Filter{})
	if err != nil {
		s.t.Fatal(err)
	}
	return list
}

// until waits until the only worker is as wanted; "" is none.
func (s *site) until(status string) provisionerv1.Worker {
	s.t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(childtest.Limit)
	for {
		workers := s.list().Workers
		switch {
		case len(workers) == 0 && status == "":
			return provisionerv1.Worker{}
		case len(workers) == 1 && workers[0].Status == status:
			return workers[0]
		}
		select {
		case <-tick.C:
		case <-limit:
			s.t.Fatalf("want a worker that is %q, found %+v", status, workers)
		}
	}
}

// withToken is a transport that shows a token.
type withToken string

func (t withToken) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(t))
	return http.DefaultTransport.RoundTrip(r)
}

// take reads everything from a worker, with a token that is computed and not looked up, and acknowledges it. It returns the build's
// status and the logs.
func (s *site) take(w provisionerv1.Worker) (workerv1.Status, string) {
	s.t.Helper()
	ctx := childtest.Context(s.t)
	key, ok := keys.Numbered(w.Key)
	own := key.WorkerToken("shop", w.BuildID, "0123456789abcdef")
	if !ok {
		s.t.Fatalf("the worker's token is made of key %d", w.Key)
	}
	client := workerv1connect.NewWorkerClient(&http.Client{Transport: withToken(own)}, w.Address)
	events, err := client.StatusEvents(ctx, connect.NewRequest(&workerv1.StatusEventsRequest{}))
	if err != nil {
		s.t.Fatal(err)
	}
	defer events.Close()
	var last *workerv1.StatusEvent
	for events.Receive() {
		for _, e := range events.Msg().GetEvents() {
			last = e
		}
	}
	logs, err := client.Logs(ctx, connect.NewRequest(&workerv1.LogsRequest{}))
	if err != nil {
		s.t.Fatal(err)
	}
	defer logs.Close()
	var text strings.Builder
	ack := &workerv1.AcknowledgeRequest{Final: true, EventId: last.GetEventId()}
	at := map[int32]*workerv1.Position{}
	for logs.Receive() {
		m := logs.Msg()
		text.Write(m.GetData())
		at[m.GetStepId()] = &workerv1.Position{StepId: m.GetStepId(), LogId: m.GetFirstLogId() + int64(m.GetEntries()) - 1,
			Offset: m.GetOffset() + int64(len(m.GetData()))}
	}
	for _, p := range at {
		if p.GetLogId() > 0 {
			ack.Logs = append(ack.Logs, p)
		}
	}
	if _, err := client.Acknowledge(ctx, connect.NewRequest(ack)); err != nil {
		s.t.Fatal(err)
	}
	return last.GetStatus(), text.String()
}

// pipe makes a file that a step can wait at. Reading it waits for the step.
func pipe(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "pipe")
	if err := childtest.Command(t, "mkfifo", path).Run(); err != nil {
		t.Fatal(err)
	}
	return path
}

// holdsNo fails the test if a file of the workers, or the arguments of a process, have a secret.
func (s *site) holdsNo(secret string) {
	s.t.Helper()
	found, err := childtest.Command(s.t, "grep", "-rl", secret, s.dir).Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); err == nil || !ok || exit.ExitCode() != 1 {
		s.t.Errorf("the secret is in %s, %v", found, err)
	}
	if arguments, err := childtest.Command(s.t, "ps", "-eo", "args").Output(); err != nil || strings.Contains(string(arguments), secret) {
		s.t.Errorf("the secret is in the arguments of a process, %v", err)
	}
}

// waitForFolder waits until so many entries are below the folder of workers, so that each round kills at another place.
func waitForFolder(t *testing.T, done <-chan struct{}, dir string, entries int) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		found, _ := filepath.Glob(filepath.Join(dir, "*", "*"))
		if len(found) >= entries {
			return
		}
		select {
		case <-done:
			return
		case <-tick.C:
		}
	}
}

// running waits until the worker of a build serves.
func (s *site) running(id int64) provisionerv1.Worker {
	s.t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(childtest.Limit)
	for {
		list, err := s.client.List(s.t.Context(), provisionerv1.Filter{BuildID: id, Statuses: []string{"Running"}})
		if err == nil && len(list.Workers) == 1 {
			return list.Workers[0]
		}
		select {
		case <-tick.C:
		case <-limit:
			s.t.Fatalf("the worker of build %d: %+v, %v", id, list, err)
		}
	}
}
