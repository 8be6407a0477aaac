package cli_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"connectrpc.com/connect"

	workerv1 "github.com/waybill-dev/waybill/api/worker/v1"
	"github.com/waybill-dev/waybill/api/worker/v1/workerv1connect"
	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/childtest"
	"github.com/waybill-dev/waybill/internal/results"
)

// servedRun is `waybill run --serve` as a process of its own.
type servedRun struct {
	t      *testing.T
	cmd    *exec.Cmd
	said   bytes.Buffer // read after its end
	reader *results.Reader
	worker results.Worker
	client workerv1connect.WorkerClient
}

// startServed runs a build file and waits until its worker serves.
func startServed(t *testing.T, file string, arguments ...string) *servedRun {
	t.Helper()
	root := t.TempDir()
	if err := errors.Join(os.Mkdir(filepath.Join(root, "shop"), 0o755), os.Mkdir(filepath.Join(root, "tmp"), 0o700),
		os.WriteFile(filepath.Join(root, "shop", ".wharf-ci.yml"), []byte(file), 0o600)); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(root, "results")
	s := &servedRun{t: t, cmd: childtest.Command(t, "waybill", append([]string{"run", "--serve", "--results-dir", dir}, arguments...)...)}
	s.cmd.Dir = filepath.Join(root, "shop")
	s.cmd.Env = append(os.Environ(), "TMPDIR="+filepath.Join(root, "tmp"), "HOME="+root)
	s.cmd.Stdout, s.cmd.Stderr = &s.said, &s.said
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s.connect(dir)
	return s
}

// connect waits for worker.json.
func (s *servedRun) connect(dir string) {
	s.t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(childtest.Limit)
	for {
		if r, err := results.Open(dir); err == nil {
			if w, err := r.Worker(); err == nil {
				s.reader, s.worker = r, w
				s.client = workerv1connect.NewWorkerClient(&http.Client{Transport: withToken(w.Token)}, w.Address)
				return
			}
		}
		select {
		case <-tick.C:
		case <-limit:
			s.t.Fatalf("no worker.json in %s", dir)
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

// exit waits for the process's end and returns its exit status.
func (s *servedRun) exit() int {
	s.t.Helper()
	err := s.cmd.Wait()
	if failed, ok := errors.AsType[*exec.ExitError](err); err != nil && (!ok || failed.ExitCode() < 0) {
		s.t.Fatalf("%v\n%s", err, s.said.String())
	}
	return s.cmd.ProcessState.ExitCode()
}

// takenResults holds the results that a reader received.
type takenResults struct {
	last *workerv1.StatusEvent
	logs map[int32][]byte
	ack  *workerv1.AcknowledgeRequest
}

// take receives every event and log to the end of the streams.
func (s *servedRun) take() (takenResults, error) {
	got := takenResults{logs: map[int32][]byte{}, ack: &workerv1.AcknowledgeRequest{Final: true}}
	events, err := s.client.StatusEvents(s.t.Context(), connect.NewRequest(&workerv1.StatusEventsRequest{}))
	if err != nil {
		return got, err
	}
	defer events.Close()
	logs, err := s.client.Logs(s.t.Context(), connect.NewRequest(&workerv1.LogsRequest{}))
	if err != nil {
		return got, err
	}
	defer logs.Close()
	positions := map[int32]*workerv1.Position{}
	for logs.Receive() {
		m := logs.Msg()
		got.logs[m.GetStepId()] = append(got.logs[m.GetStepId()], m.GetData()...)
		positions[m.GetStepId()] = &workerv1.Position{StepId: m.GetStepId(),
			LogId: m.GetFirstLogId() + int64(m.GetEntries()) - 1, Offset: m.GetOffset() + int64(len(m.GetData()))}
	}
	if err := logs.Err(); err != nil {
		return got, err
	}
	for _, p := range positions {
		got.ack.Logs = append(got.ack.Logs, p)
	}
	for events.Receive() {
		for _, e := range events.Msg().GetEvents() {
			got.last, got.ack.EventId = e, e.GetEventId()
		}
	}
	return got, events.Err()
}

// acknowledge takes everything and acknowledges it. The files must equal those taken.
func (s *servedRun) acknowledge() takenResults {
	s.t.Helper()
	got, err := s.take()
	if err != nil {
		s.t.Fatal(err)
	}
	if _, err := s.client.Acknowledge(s.t.Context(), connect.NewRequest(got.ack)); err != nil {
		s.t.Fatal(err)
	}
	for step, log := range got.logs {
		file, err := os.ReadFile(s.reader.LogPath(int(step)))
		if err != nil || !bytes.Equal(file, log) {
			s.t.Errorf("step %d: received %d bytes, the file has %d: %v", step, len(log), len(file), err)
		}
	}
	return got
}

// metrics returns the metrics after the build's end.
func (s *servedRun) metrics() string {
	s.t.Helper()
	if _, err := s.take(); err != nil {
		s.t.Fatal(err)
	}
	answer, err := http.Get(s.worker.Address + "/metrics")
	if err != nil {
		s.t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return string(text)
}

func oneStep(commands string) string {
	return fmt.Sprintf("test:\n  unit: {container: {image: i, cmds: [%q]}}\n", commands)
}

func TestAServedBuildStaysUntilItIsAcknowledged(t *testing.T) {
	t.Parallel()
	s := startServed(t, oneStep("echo hello; exit 3"))
	metrics := s.metrics()
	got := s.acknowledge()
	for _, want := range []string{`waybill_worker_step_seconds_count{status="Failed",type="container"} 1`,
		"waybill_worker_output_bytes_total 5\n", "waybill_worker_masked_total 0\n"} {
		if !strings.Contains(metrics, want) {
			t.Errorf("want %s in\n%s", want, metrics)
		}
	}
	if status := s.exit(); status != 1 || got.last.GetStatus() != workerv1.Status_STATUS_FAILED ||
		!strings.Contains(string(got.logs[1]), " hello\n") {
		t.Errorf("exit status %d, last event %v, log %q\n%s", status, got.last, got.logs[1], s.said.String())
	}
	if _, err := s.reader.Worker(); err == nil {
		t.Error("worker.json is there after the worker's end")
	}
}

func TestAServedBuildStaysNoLongerThanItMay(t *testing.T) {
	t.Parallel()
	s := startServed(t, oneStep("true"), "--linger", "0s")
	if status := s.exit(); status != 0 {
		t.Errorf("exit status %d", status)
	}
	if want := "results that no reader acknowledged: 7 of 7 events, 1 of 1 log entries, 0 " +
		"of 0 artifacts"; !strings.Contains(s.said.String(), want) {
		t.Errorf("want %q in\n%s", want, s.said.String())
	}
}

// TestASignalEndsTheWait: of a worker whose build has ended.
func TestASignalEndsTheWait(t *testing.T) {
	t.Parallel()
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		t.Run(signal.String(), func(t *testing.T) {
			t.Parallel()
			s := startServed(t, oneStep("true"), "--termination-grace", "0s")
			if _, err := s.take(); err != nil {
				t.Fatal(err)
			}
			if err := s.cmd.Process.Signal(signal); err != nil {
				t.Fatal(err)
			}
			if status := s.exit(); status != 0 || !strings.Contains(s.said.String(), "results that no reader acknowledged: 7 of 7 events") {
				t.Errorf("exit status %d\n%s", status, s.said.String())
			}
		})
	}
}

// TestATokenIsReadFromAFile: the worker does not write it down again.
func TestATokenIsReadFromAFile(t *testing.T) {
	t.Parallel()
	const token = "a-token-that-a-provisioner-made"
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := startServed(t, oneStep("true"), "--token-file", file, "--listen", "0.0.0.0:0")
	if s.worker.Token != "" {
		t.Errorf("worker.json has the token %s", s.worker.Token)
	}
	if _, err := s.take(); connect.CodeOf(err) != connect.CodeUnauthenticated {
		t.Errorf("without the token: %v", err)
	}
	s.client = workerv1connect.NewWorkerClient(&http.Client{Transport: withToken(token)}, s.worker.Address)
	s.acknowledge()
	if status := s.exit(); status != 0 {
		t.Errorf("exit status %d\n%s", status, s.said.String())
	}
}

func TestATerminatedServedBuildLeavesReadersTime(t *testing.T) {
	t.Parallel()
	s := startServed(t, oneStep("echo waits; sleep 600"))
	s.printed("waits")
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	got := s.acknowledge()
	if status := s.exit(); status != 130 || got.last.GetStatus() != workerv1.Status_STATUS_CANCELED {
		t.Errorf("exit status %d, last event %v\n%s", status, got.last, s.said.String())
	}
}

// printed waits until a reader has received a text of the step.
func (s *servedRun) printed(text string) {
	s.t.Helper()
	ctx, cancel := context.WithCancel(s.t.Context())
	defer cancel()
	logs, err := s.client.Logs(ctx, connect.NewRequest(&workerv1.LogsRequest{StepIds: []int32{1}}))
	if err != nil {
		s.t.Fatal(err)
	}
	var got []byte
	for !bytes.Contains(got, []byte(text)) {
		if !logs.Receive() {
			s.t.Fatalf("the stream ended: %v", logs.Err())
		}
		got = append(got, logs.Msg().GetData()...)
	}
}

// TestAKilledWorkerLeavesWholeEntries: entries that a reader received before kill -9 are in the files, which end with
// a whole entry and have no end of the build.
func TestAKilledWorkerLeavesWholeEntries(t *testing.T) {
	t.Parallel()
	s := startServed(t, oneStep("i=0; while :; do echo line $i; i=$((i+1)); done"))
	logs, err := s.client.Logs(t.Context(), connect.NewRequest(&workerv1.LogsRequest{StepIds: []int32{1}}))
	if err != nil {
		t.Fatal(err)
	}
	var got []byte
	for killed := false; logs.Receive(); {
		got = append(got, logs.Msg().GetData()...)
		if !killed && bytes.Contains(got, []byte("line 6000\n")) {
			killed = true
			if err := s.cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	_ = s.cmd.Wait() // killed
	if logs.Err() == nil {
		t.Fatal("the stream ended as if the build had")
	}
	file, err := os.ReadFile(s.reader.LogPath(1))
	if err != nil || !bytes.HasPrefix(file, got) {
		t.Errorf("received %d bytes, which are not the first of the file's %d: %v", len(got), len(file), err)
	}
	for i, line := range bytes.Split(bytes.TrimSuffix(file, []byte("\n")), []byte("\n")) {
		if entry := build.ParseEntry(line); entry.At.IsZero() || string(entry.Text) != fmt.Sprint("line ", i) {
			t.Fatalf("entry %d is %q", i+1, line)
		}
	}
	if last, err := s.reader.Final(); last != nil || err != nil {
		t.Errorf("final marker %v, %v", last, err)
	}
	if _, err := s.reader.Worker(); err == nil {
		t.Error("worker.json counts although its worker is dead")
	}
}

// TestAServedBuildWithoutAPlanHasAnEnd: a reader learns the faults of the file, and the worker waits for it as for any other.
func TestAServedBuildWithoutAPlanHasAnEnd(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		file, want string
		status     int
	}{
		"a fault of the file": {"test:\n  unit: {contaner: {image: i, cmds: [x]}}\n  pack: 3\n", `"contaner" is neither a step type`, 2},
		"a missing program":   {"test:\n  unit: {container: {image: i, cmds: [x], shell: nosuchshell}}\n", "program nosuchshell not found", 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startServed(t, c.file)
			got := s.acknowledge()
			if status := s.exit(); status != c.status || got.last.GetStatus() != workerv1.Status_STATUS_FAILED ||
				!strings.Contains(got.last.GetReason(), c.want) || !strings.Contains(string(got.logs[0]), c.want) {
				t.Errorf("exit status %d, last event %v, log %q\n%s", status, got.last, got.logs[0], s.said.String())
			}
			if !strings.Contains(s.said.String(), c.want) {
				t.Errorf("want %q in\n%s", c.want, s.said.String())
			}
		})
	}
}

// TestServedFlagsAreChecked: faults are reported before anything runs.
func TestServedFlagsAreChecked(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{"short": "abc\n",
		"two": strings.Repeat("a", 20) + " " + strings.Repeat("b", 20), "long": strings.Repeat("a", 5000)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, ".wharf-ci.yml"), []byte(oneStep("true")), 0o600); err != nil {
		t.Fatal(err)
	}
	for arguments, want := range map[string]string{
		"--listen 0.0.0.0:0": "0.0.0.0:0 is not a loopback address",
		"--listen :5010":     ":5010 is not a loopback address",
		"--listen 5010":      "5010 is not an address",
		"--linger -1s":       "want no less than zero",
		"--token-file short --results-dir " + dir + "/1": "want one token of 16 to 4096 bytes",
		"--token-file two --results-dir " + dir + "/2":   "want one token of 16 to 4096 bytes",
		"--token-file long --results-dir " + dir + "/3":  "want one token of 16 to 4096 bytes",
		"--token-file none --results-dir " + dir + "/4":  "no such file",
	} {
		cmd := exec.CommandContext(t.Context(), "waybill", append([]string{"run", "--serve"}, strings.Fields(arguments)...)...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if cmd.ProcessState.ExitCode() != 2 || !regexp.MustCompile(regexp.QuoteMeta(want)).Match(out) {
			t.Errorf("%s: %v\n%s", arguments, err, out)
		}
	}
}
