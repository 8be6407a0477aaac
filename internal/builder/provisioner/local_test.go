package provisioner_test

import (
	"bufio"
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
	"sync"
	"syscall"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"

	provisionerv1 "github.com/waybill-dev/waybill/api/provisioner/v1"
	workerv1 "github.com/waybill-dev/waybill/api/worker/v1"
	"github.com/waybill-dev/waybill/api/worker/v1/workerv1connect"
	"github.com/waybill-dev/waybill/internal/blob"
	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/builder/provisioner"
	"github.com/waybill-dev/waybill/internal/childtest"
	"github.com/waybill-dev/waybill/internal/command"
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

// runTests builds the real program, and gives the workers a temporary folder of their own.
func runTests(m *testing.M) int {
	dir, err := os.MkdirTemp("", "provisioner-*")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	ctx, cancel := context.WithTimeout(context.Background(), buildLimit)
	defer cancel()
	program := filepath.Join(dir, "waybill")
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", program, "github.com/waybill-dev/waybill/cmd/waybill").CombinedOutput(); err != nil {
		panic(fmt.Sprintf("%v\n%s", err, out))
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
	return provisioner.New(provisioner.Config{Backend: backend, Name: "local", Keys: keys, Log: slog.New(slog.DiscardHandler),
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
		at[m.GetStepId()] = &workerv1.Position{StepId: m.GetStepId(), LogId: m.GetFirstLogId() + int64(m.GetEntries()) - 1, Offset: m.GetOffset() + int64(len(m.GetData()))}
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

func TestAWorkerIsStartedReadAndRemoved(t *testing.T) {
	t.Parallel()
	s := newSite(t, "inputs: [{name: password, type: password}]\nbuild: {app: {container: {image: i, cmds: ['echo built ${GIT_COMMIT} ${GIT_BRANCH} ${GREETING} ${WHARF_INSTANCE} ${PROJECT_ID} ${password}']}}}")
	request := s.request(41)
	request.Variables, request.Inputs = map[string]string{"GREETING": "hello"}, map[string]string{"password": "swordfish"}
	created := s.create(request)
	if !created.New || created.Worker.WorkerID != "local-41" {
		t.Fatalf("%+v", created)
	}
	worker := s.until("Running")
	if again := s.create(request); again.New || again.Worker.WorkerID != "local-41" {
		t.Errorf("again: %+v", again)
	}
	s.holdsNo("swordfish")
	status, log := s.take(worker)
	if status != workerv1.Status_STATUS_COMPLETED || !strings.Contains(log, "built "+s.commit+" main hello shop 7 ***") {
		t.Errorf("%s:\n%s", status, log)
	}
	ended := s.until("Ended")
	if ended.Reason != "the build is Completed, and its results were taken" {
		t.Error(ended.Reason)
	}
	for range 2 {
		if err := s.client.Delete(t.Context(), "local-41", false); err != nil {
			t.Fatal(err)
		}
	}
	s.until("")
	s.local.Tidy(time.Now())
	if left, _ := os.ReadDir(s.dir); len(left) != 1 || left[0].Name() != "lock" {
		t.Errorf("left: %v", left)
	}
}

func TestWorkersListenWhereTheyAreReached(t *testing.T) {
	t.Parallel()
	s := newSite(t, "build: {app: {container: {image: i, cmds: ['true']}}}")
	if err := s.local.Close(); err != nil {
		t.Fatal(err)
	}
	s.open(func(c *provisioner.LocalConfig) { c.Host, c.Advertise = "0.0.0.0", "localhost" })
	s.create(s.request(41))
	worker := s.until("Running")
	if !strings.HasPrefix(worker.Address, "http://localhost:") {
		t.Error(worker.Address)
	}
	served, err := os.ReadFile(filepath.Join(s.dir, "41", "results", "worker.json"))
	if err != nil || !strings.Contains(string(served), "[::]:") && !strings.Contains(string(served), "0.0.0.0:") {
		t.Errorf("it serves %s, %v", served, err)
	}
	if status, _ := s.take(worker); status != workerv1.Status_STATUS_COMPLETED {
		t.Error(status)
	}
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

func TestTwoRequestsAtOnceStartOneWorker(t *testing.T) {
	t.Parallel()
	at := pipe(t)
	s := newSite(t, fmt.Sprintf("build: {app: {container: {image: i, cmds: ['cat %s']}}}", at))
	created := make([]provisionerv1.Created, 4)
	var all sync.WaitGroup
	for i := range created {
		all.Go(func() { created[i], _ = s.client.Create(childtest.Context(t), s.request(41)) })
	}
	all.Wait()
	started := 0
	for _, c := range created {
		if c.New {
			started++
		}
		if c.Worker.WorkerID != "local-41" {
			t.Errorf("%+v", c)
		}
	}
	if started != 1 {
		t.Errorf("%d requests started a worker", started)
	}
}

func TestABuildHasOneRequest(t *testing.T) {
	t.Parallel()
	s := newSite(t, fmt.Sprintf("build: {app: {container: {image: i, cmds: ['cat %s']}}}", pipe(t)))
	s.create(s.request(41))
	other := s.request(41)
	other.Environment = "prod"
	if _, err := s.client.Create(t.Context(), other); !fault.Is(err, fault.Conflict) {
		t.Errorf("another request: %v", err)
	}
	if err := s.client.Delete(t.Context(), "local-41", true); err != nil {
		t.Fatal(err)
	}
	s.until("")
	if _, err := s.client.Create(t.Context(), s.request(41)); !fault.Is(err, fault.Conflict) {
		t.Errorf("after the deletion: %v", err)
	}
}

func TestAProvisionerThatStartsAgainFindsItsWorkers(t *testing.T) {
	t.Parallel()
	at := pipe(t)
	s := newSite(t, fmt.Sprintf("build: {app: {container: {image: i, cmds: ['cat %s']}}}", at))
	s.create(s.request(41))
	before := s.until("Running")
	if _, err := provisioner.OpenLocal(localConfig(s.dir, "")); !fault.Is(err, fault.Unavailable) {
		t.Errorf("two provisioners on one folder: %v", err)
	}
	if err := s.local.Close(); err != nil {
		t.Fatal(err)
	}
	s.open()
	if now := s.until("Running"); now.Address != before.Address || !now.StartedAt.Equal(before.StartedAt) {
		t.Errorf("%+v, was %+v", now, before)
	}
	if again := s.create(s.request(41)); again.New {
		t.Errorf("a second worker was started: %+v", again)
	}
	if err := os.WriteFile(at, []byte("go\n"), 0o600); err != nil { // waits for the step
		t.Fatal(err)
	}
	if status, _ := s.take(before); status != workerv1.Status_STATUS_COMPLETED {
		t.Error(status)
	}
}

func TestAWorkerThatDiesHasEnded(t *testing.T) {
	t.Parallel()
	s := newSite(t, fmt.Sprintf("build: {app: {container: {image: i, cmds: ['cat %s']}}}", pipe(t)))
	s.create(s.request(41))
	s.until("Running")
	if err := s.local.Process(41).Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if ended := s.until("Ended"); !strings.HasPrefix(ended.Reason, "the process ended before the build did") {
		t.Error(ended.Reason)
	}
	if again := s.create(s.request(41)); again.New || again.Worker.Status != "Ended" {
		t.Errorf("the build ran again: %+v", again)
	}
}

func TestADeletedWorkerCancelsAndHandsItsResultsOver(t *testing.T) {
	t.Parallel()
	at := pipe(t)
	s := newSite(t, fmt.Sprintf("build: {app: {container: {image: i, cmds: ['echo begun > %s; exec sleep 600']}}}", at))
	s.create(s.request(41))
	worker := s.until("Running")
	if _, err := os.ReadFile(at); err != nil { // waits for the step
		t.Fatal(err)
	}
	for range 2 { // a second signal would end the worker at once
		if err := s.client.Delete(t.Context(), "local-41", false); err != nil {
			t.Fatal(err)
		}
	}
	if status, _ := s.take(worker); status != workerv1.Status_STATUS_CANCELED {
		t.Errorf("%s, want canceled", status)
	}
	s.until("")
}

// TestAWorkerIsAskedToEndOnce: a second SIGTERM would end it before its results are taken.
func TestAWorkerIsAskedToEndOnce(t *testing.T) {
	t.Parallel()
	s := newSite(t, "build: {app: {container: {image: i, cmds: ['true']}}}")
	worker := childtest.Command(t, os.Args[0])
	worker.Env = append(os.Environ(), signalVariable+"=1")
	out, err := worker.StdoutPipe()
	if err == nil {
		err = worker.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	next := func() string { lines.Scan(); return lines.Text() }
	process, err := command.InstanceOf(worker.Process.Pid)
	if err != nil || next() != "ready" {
		t.Fatal(err)
	}
	record := fmt.Sprintf(`{"buildId": 41, "instance": "shop", "process": {"pid": %d, "start": %q}}`, process.PID, process.Start)
	if err := errors.Join(os.Mkdir(filepath.Join(s.dir, "41"), 0o700), os.WriteFile(filepath.Join(s.dir, "41", "worker.json"), []byte(record), 0o600)); err != nil {
		t.Fatal(err)
	}
	var got []string
	for range 2 {
		if err := s.client.Delete(t.Context(), "local-41", false); err != nil {
			t.Fatal(err)
		}
		if got == nil {
			got = append(got, next())
		}
	}
	for range 2 { // whatever was sent before is printed before the second one
		if err := process.Signal(syscall.SIGUSR1); err != nil {
			t.Fatal(err)
		}
		got = append(got, next())
	}
	if diff := cmp.Diff([]string{"terminated", "user defined signal 1", "user defined signal 1"}, got); diff != "" {
		t.Error(diff)
	}
	if err := s.client.Delete(t.Context(), "local-41", true); err != nil {
		t.Fatal(err)
	}
	_ = worker.Wait() // killed
}

func TestResultsThatWereNotTakenAreKept(t *testing.T) {
	t.Parallel()
	s := newSite(t, fmt.Sprintf("build: {app: {container: {image: i, cmds: ['cat %s']}}}", pipe(t)))
	s.create(s.request(41))
	s.until("Running")
	if err := s.client.Delete(t.Context(), "local-41", true); err != nil {
		t.Fatal(err)
	}
	s.until("")
	s.local.Tidy(time.Now().Add(6 * 24 * time.Hour))
	kept := filepath.Join(s.dir, "41", "results", "build.json")
	if _, err := os.Stat(kept); err != nil {
		t.Error(err)
	}
	s.local.Tidy(time.Now().Add(8 * 24 * time.Hour))
	if _, err := os.Stat(kept); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("kept for longer than a week: %v", err)
	}
}

func TestAWorkerThatDoesNotEndIsKilledAfterTheGrace(t *testing.T) {
	t.Parallel()
	s := newSite(t, fmt.Sprintf("build: {app: {container: {image: i, cmds: ['cat %s']}}}", pipe(t)))
	s.create(s.request(41))
	s.until("Running")
	if err := s.client.Delete(t.Context(), "local-41", false); err != nil { // it waits for a reader
		t.Fatal(err)
	}
	s.local.Tidy(time.Now().Add(10 * time.Minute))
	if alive, err := s.local.Process(41).Alive(); err != nil || !alive {
		t.Errorf("killed within the grace: %v, %v", alive, err)
	}
	s.local.Tidy(time.Now().Add(11 * time.Minute))
	s.until("")
}

func TestWhatARequestLeftIsRemoved(t *testing.T) {
	t.Parallel()
	s := newSite(t, "build: {app: {container: {image: i, cmds: ['true']}}}")
	left := filepath.Join(s.dir, "41", "1.snapshot.tar.zst")
	if err := errors.Join(os.Mkdir(filepath.Dir(left), 0o700), os.WriteFile(left, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	if list := s.list(); len(list.Workers) > 0 || !list.Complete {
		t.Errorf("%+v", list)
	}
	s.local.Tidy(time.Now())
	if _, err := os.Stat(left); err != nil {
		t.Errorf("removed at once: %v", err)
	}
	s.local.Tidy(time.Now().Add(8 * 24 * time.Hour))
	if _, err := os.Stat(filepath.Dir(left)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("kept for longer than a week: %v", err)
	}
}

func TestAProcessWithTheSameNumberIsLeftAlone(t *testing.T) {
	t.Parallel()
	s := newSite(t, "build: {app: {container: {image: i, cmds: ['true']}}}")
	other := childtest.Command(t, "sleep", "600")
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	record := fmt.Sprintf(`{"buildId": 41, "instance": "shop", "process": {"pid": %d, "start": "long ago"}}`, other.Process.Pid)
	if err := errors.Join(os.Mkdir(filepath.Join(s.dir, "41"), 0o700), os.WriteFile(filepath.Join(s.dir, "41", "worker.json"), []byte(record), 0o600)); err != nil {
		t.Fatal(err)
	}
	if w := s.until("Ended"); w.WorkerID != "local-41" {
		t.Errorf("%+v", w)
	}
	if err := s.client.Delete(t.Context(), "local-41", true); err != nil {
		t.Fatal(err)
	}
	s.local.Tidy(time.Now().Add(time.Hour))
	if err := other.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("the other process: %v", err)
	}
	_ = other.Process.Kill()
	_ = other.Wait() // killed
}

func TestAWorkerThatWasNeverGivenItsWorkIsStartedAgain(t *testing.T) {
	t.Parallel()
	s := newSite(t, "build: {app: {container: {image: i, cmds: ['true']}}}")
	digest, err := s.request(41).Digest()
	if err != nil {
		t.Fatal(err)
	}
	record := fmt.Sprintf(`{"buildId": 41, "instance": "shop", "digest": %q, "process": {"pid": 1, "start": "long ago"}}`, digest)
	if err := errors.Join(os.Mkdir(filepath.Join(s.dir, "41"), 0o700), os.WriteFile(filepath.Join(s.dir, "41", "worker.json"), []byte(record), 0o600)); err != nil {
		t.Fatal(err)
	}
	if created := s.create(s.request(41)); !created.New {
		t.Errorf("%+v", created)
	}
	if status, _ := s.take(s.until("Running")); status != workerv1.Status_STATUS_COMPLETED {
		t.Error(status)
	}
}

func TestCredentialsAreNamed(t *testing.T) {
	t.Parallel()
	s := newSite(t, "build: {app: {container: {image: i, cmds: ['true']}}}")
	request := s.request(41)
	request.Repository.Credential = "github"
	if _, err := s.client.Create(t.Context(), request); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), `credentials "github" not found`) {
		t.Error(err)
	}
	request.Repository.Credential, request.Repository.URL = "", "ext::sh -c x"
	if _, err := s.client.Create(t.Context(), request); !fault.Is(err, fault.Invalid) {
		t.Error(err)
	}
}

func TestACommitThatIsMissingIsABuildThatFailed(t *testing.T) {
	t.Parallel()
	s := newSite(t, "build: {app: {container: {image: i, cmds: ['true']}}}")
	request := s.request(41)
	request.Repository.Commit = strings.Repeat("a", 40)
	s.create(request)
	status, log := s.take(s.until("Running"))
	if status != workerv1.Status_STATUS_FAILED || !strings.Contains(log, "fetch commit "+request.Repository.Commit) {
		t.Errorf("%s:\n%s", status, log)
	}
}

func TestASnapshotIsBuilt(t *testing.T) {
	t.Parallel()
	s := newSite(t, "")
	pack := childtest.Command(t, "sh", "-c", `mkdir -p "$1" && cd "$1" && printf 'build: {app: {container: {image: i, cmds: [cat a.txt]}}}' > .wharf-ci.yml && echo from the snapshot > a.txt`, "sh", filepath.Join(t.TempDir(), "shop"))
	if out, err := pack.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	blobs, key := packed(t, pack.Args[len(pack.Args)-1])
	if err := s.local.Close(); err != nil {
		t.Fatal(err)
	}
	s.open(func(c *provisioner.LocalConfig) { c.Blobs = blobs })
	request := s.request(41)
	request.Repository, request.Snapshot = nil, key
	s.create(request)
	if status, log := s.take(s.until("Running")); status != workerv1.Status_STATUS_COMPLETED || !strings.Contains(log, "from the snapshot") {
		t.Errorf("%s:\n%s", status, log)
	}
	request.BuildID, request.Snapshot = 42, "sha256/missing"
	if _, err := s.client.Create(t.Context(), request); !fault.Is(err, fault.NotFound) {
		t.Errorf("a snapshot that is missing: %v", err)
	}
}

// TestKillingTheProvisionerLosesNoWorkerAndStartsNoSecond kills provisioners while they start workers.
func TestKillingTheProvisionerLosesNoWorkerAndStartsNoSecond(t *testing.T) {
	t.Parallel()
	count := filepath.Join(t.TempDir(), "count")
	s := newSite(t, fmt.Sprintf("build: {app: {container: {image: i, cmds: ['echo ${BUILD_REF} >> %s']}}}", count))
	if err := s.local.Close(); err != nil {
		t.Fatal(err)
	}
	const rounds = 6
	for round := range rounds {
		alone := childtest.Command(t, os.Args[0])
		alone.Env = append(os.Environ(), folderVariable+"="+s.dir)
		out, err := alone.StdoutPipe()
		if err == nil {
			err = alone.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		address, err := bufio.NewReader(out).ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		asked := make(chan struct{})
		go func() {
			defer close(asked)
			for id := range int64(3) {
				_, _ = clientOf(strings.TrimSpace(address)).Create(t.Context(), s.request(id+1)) // it may be killed
			}
		}()
		waitForFolder(t, asked, s.dir, round)
		_ = alone.Process.Kill()
		_ = alone.Wait() // killed
		<-asked
	}
	s.open()
	for id := range int64(3) {
		s.create(s.request(id + 1))
	}
	for _, w := range s.list().Workers {
		s.take(s.running(w.BuildID))
	}
	text, err := os.ReadFile(count)
	if lines := strings.Fields(string(text)); err != nil || len(lines) != 3 {
		t.Errorf("builds ran %q, %v", lines, err)
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
