package step

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/blob"
	"github.com/waybill-dev/waybill/internal/conductor"
	"github.com/waybill-dev/waybill/internal/conductor/handler/evidence"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/ssh"
)

// shells are those that the host program must work under besides busyboxShell, each the sh of its own PATH.
var shells = map[string]func(t *testing.T) string{
	"dash": func(t *testing.T) string { return pathWith(t, "dash") + ":/usr/bin:/bin" },
	"bash": func(t *testing.T) string { return pathWith(t, "bash") + ":/usr/bin:/bin" },
}

// pathWith returns a folder whose sh is the named shell.
func pathWith(t *testing.T, shell string) string {
	t.Helper()
	path, err := exec.LookPath(shell)
	if err != nil {
		t.Fatalf("the host program is tested under %s: install %s", shell, shell)
	}
	dir := t.TempDir()
	if err := os.Symlink(path, filepath.Join(dir, "sh")); err != nil {
		t.Fatal(err)
	}
	return dir
}

// underEach runs a test under every shell, and over each of the ways to a host, if the flag -every is set. Otherwise it runs the
// test under the one that its name decides, so that the tests together cover all.
func underEach(t *testing.T, test func(t *testing.T, w *world)) {
	names := shellsAndWays()
	if !*every {
		hash := fnv.New32a()
		_, _ = hash.Write([]byte(t.Name())) // it returns no error
		names = names[hash.Sum32()%uint32(len(names)):][:1]
	}
	underThese(t, names, test)
}

// underThese runs a test under shells and over ways to a host.
func underThese(t *testing.T, names []string, test func(t *testing.T, w *world)) {
	t.Parallel()
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if move, ok := ways[name]; ok {
				w := newWorld(t, "/usr/bin:/bin")
				move(w)
				test(t, w)
				return
			}
			path, ok := shells[name]
			if !ok {
				path = busyboxShell[name]
			}
			test(t, newWorld(t, path(t)))
		})
	}
}

// shellsAndWays returns the names of all. At the other end of a way is the machine's own shell, dash on Debian, which needs no
// run without them then.
func shellsAndWays() []string {
	all := slices.Sorted(maps.Keys(shells))
	all = slices.AppendSeq(all, maps.Keys(busyboxShell))
	all = slices.AppendSeq(all, maps.Keys(ways))
	if len(ways) > 0 {
		all = slices.DeleteFunc(all, func(name string) bool { return name == "dash" })
	}
	return all
}

// world is one host, oak, of one pipeline, greeter, and what the handler reads of the log.
type world struct {
	t       *testing.T
	home    string
	dir     string // folder of the service on oak
	blobs   blob.Store
	handler *Handler

	mu        sync.Mutex
	service   pipeline.Service
	ssh       *pipeline.SSH
	url, root string // URL and root of oak
	more      []pipeline.Host

	inForce       func(d *pipeline.Definition) // how the version in force differs from that of the actions; nil: not at all
	cutConnection func()                       // kills the server of oak's connections; nil: it has none
	test          []pipeline.Check
	own           []pipeline.Step
	revisions     map[int64]pipeline.RegisteredRevision
	attempts      int
	era           int64            // era of the log
	parameters    json.RawMessage  // parameters of actions; nil: none, as an earlier version stored them
	reports       []pipeline.Entry // what attempts noted
	timeout       time.Duration    // bounds an attempt
}

func newWorld(t *testing.T, path string) *world {
	t.Helper()
	home := filepath.Join(t.TempDir(), "home")
	blobs, err := blob.Open(t.Context(), filepath.Join(home, "blobs"))
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, timeout: time.Minute, home: home, dir: filepath.Join(home, "hosts", "oak", "greeter"), blobs: blobs,
		revisions: map[int64]pipeline.RegisteredRevision{},
		url:       "local://oak", service: pipeline.Service{Name: "greeter", Manager: "process",
			Exec: []string{"./greeter", "${host}"}, Restart: "restart",
			Ready: pipeline.Ready{For: action.Duration(300 * time.Millisecond), Within: action.Duration(20 * time.Second)}}}
	hosts := Hosts{Home: home, Dir: filepath.Dir(home), SSH: ssh.NewPool(ssh.Config{}), Env: []string{"PATH=" + path}}
	t.Cleanup(hosts.SSH.Close)
	w.handler = New(Config{Hosts: hosts, Ledger: w, Blobs: blobs, LedgerID: "ledger-1", Evidence: evidence.Archive{Blobs: blobs}})
	t.Cleanup(w.endPrograms)
	t.Cleanup(w.stopAll)
	return w
}

func (w *world) stopAll() {
	w.t.Helper()
	outcomes, err := w.stop()
	if err != nil {
		w.t.Errorf("stop: %v", err)
	}
	for _, o := range outcomes {
		if o.Kind != action.Done {
			w.t.Errorf("stop: %s: %s", o.Kind, o.Error)
		}
	}
}

// stop makes one attempt to end each service that is up.
func (w *world) stop() (outcomes []action.Outcome, err error) {
	d := w.definition()
	d.Stages[0].Groups[0].Hosts[0].URL = "local://oak" // an ssh host has its folder there as well
	stops, err := Stops(context.Background(), w.home, w.handler.config.LedgerID, d.Pipeline, InstalledBy(&d), "ana")
	for i, stop := range stops {
		stop.ID = actionID(int64(i), "stop")
		outcomes = append(outcomes,
			Stopper{Home: w.home, LedgerID: w.handler.config.LedgerID, Log: w}.Do(context.Background(), conductor.Attempt{Action: stop, Number: 1}))
	}
	return outcomes, err
}

func (w *world) definition() pipeline.Definition {
	w.mu.Lock()
	defer w.mu.Unlock()
	policy := action.Policy{AttemptTimeout: action.Duration(w.timeout)}
	chain := []pipeline.Step{{Name: pipeline.Replicate, Event: pipeline.HostReplicated, Policy: policy},
		{Name: pipeline.Deploy, Event: pipeline.HostDeployed, Policy: policy}, {Name: pipeline.Test, Event: pipeline.HostTested, Policy: policy}}
	return pipeline.Definition{Pipeline: "greeter", Keep: pipeline.Keep{Releases: 3}, Service: w.service, SSH: w.ssh,
		Stages: []pipeline.Stage{{Name: "beta", Kind: pipeline.HostStage, Chain: append(chain, w.own...), Test: w.test,
			Groups: []pipeline.Group{{Name: "all", Hosts: append([]pipeline.Host{{Name: "oak", URL: w.url, Root: w.root}}, w.more...)}}}}}
}

func (w *world) Definition(_ context.Context, _ string, version int) (pipeline.Definition, error) {
	d := w.definition()
	if version == 0 && w.inForce != nil {
		w.inForce(&d)
	}
	return d, nil
}

func (w *world) Era(context.Context) (int64, error) { return w.era, nil }

func (w *world) Revision(_ context.Context, _, _ string, seq int64) (pipeline.RegisteredRevision, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	r, ok := w.revisions[seq]
	if !ok {
		return r, fault.New(fault.NotFound, "revision %d not found", seq)
	}
	return r, nil
}

func (w *world) EntriesUnder(context.Context, string, int64, string) ([]pipeline.Entry, error) {
	return nil, nil
}

func (w *world) Remark(_ context.Context, name string, note pipeline.Entry) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	note.Pipeline = name
	w.reports = append(w.reports, note)
	return nil
}

// revise registers revision n, whose greeter is a shell script with the given body.
func (w *world) revise(n int64, script string) {
	w.t.Helper()
	w.register(n, "greeter.tar.gz",
		pack(w.t, map[string]string{"greeter*": "#!/bin/sh\n" + script + "\n", "data/words.txt": fmt.Sprintf("revision %d\n", n)}))
}

func (w *world) register(n int64, name string, content []byte) {
	w.t.Helper()
	key, digest, size, err := w.blobs.Put(w.t.Context(), "sha256/", bytes.NewReader(content))
	if err != nil {
		w.t.Fatal(err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.revisions[n] = pipeline.RegisteredRevision{Pipeline: "greeter", Seq: n, Label: fmt.Sprintf("r%d", n),
		Artifacts: []pipeline.RevisionArtifact{{Label: "amd64", Name: name, Digest: digest, Size: size, Blob: key}}}
}

func (w *world) release(n int64) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return releaseName(w.revisions[n].Label, w.revisions[n].Artifacts[0].Digest)
}

// pack makes a tar.gz, and compresses nothing, which would take seconds of a large file under the race detector; a name that
// ends in * is executable.
func pack(t *testing.T, files map[string]string) []byte {
	t.Helper()
	var buffer bytes.Buffer
	zipped, err := gzip.NewWriterLevel(&buffer, gzip.NoCompression)
	if err != nil {
		t.Fatal(err)
	}
	archive := tar.NewWriter(zipped)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		mode := int64(0o644)
		plain, executable := strings.CutSuffix(name, "*")
		if executable {
			mode = 0o755
		}
		if err := archive.WriteHeader(&tar.Header{Name: plain, Mode: mode, Size: int64(len(files[name]))}); err != nil {
			t.Fatal(err)
		}
		if _, err := archive.Write([]byte(files[name])); err != nil {
			t.Fatal(err)
		}
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
	if err := zipped.Close(); err != nil {
		t.Fatal(err)
	}
	return buffer.Bytes()
}

// do makes an attempt of deployment and revision n at the step of an event.
func (w *world) do(ctx context.Context, n int64, event string) action.Outcome {
	return w.doOn(ctx, "oak", n, event)
}

// doOn makes an attempt on a host.
func (w *world) doOn(ctx context.Context, host string, n int64, event string) action.Outcome {
	w.mu.Lock()
	w.attempts++
	number := w.attempts
	w.mu.Unlock()
	return w.handler.Do(ctx, conductor.Attempt{Number: number, Action: action.Action{ID: actionID(n, event),
		Handler: "step", Parameters: w.parameters,
		Step: &action.StepRef{Pipeline: "greeter", Deployment: n, Target: "greeter/beta/all/" + host, Event: event, Revision: n, Version: 1}}})
}

func actionID(n int64, event string) action.ID {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d %s", n, event))
	return action.ID(sum[:16])
}

// answered makes an attempt on a host. One that a busy machine has not answered in time is made again, as a conductor would.
func (w *world) answered(host string, n int64, event string) action.Outcome {
	o := w.doOn(w.t.Context(), host, n, event)
	for again := 0; again < 5 && o.Kind == action.Throttle && strings.Contains(o.Error, "no answer within"); again++ {
		o = w.doOn(w.t.Context(), host, n, event)
	}
	return o
}

// done makes an attempt that must succeed.
func (w *world) done(n int64, event string) Output {
	w.t.Helper()
	o := w.answered("oak", n, event)
	if o.Kind != action.Done {
		w.t.Fatalf("%s of #%d: %s %s: %s", event, n, o.Kind, o.Code, o.Error)
	}
	var output Output
	if err := json.Unmarshal(o.Output, &output); err != nil {
		w.t.Fatal(err)
	}
	return output
}

// ship takes revision n through replicate and deploy.
func (w *world) ship(n int64) Output {
	w.t.Helper()
	w.done(n, pipeline.HostReplicated)
	return w.done(n, pipeline.HostDeployed)
}

func (w *world) state() State {
	w.t.Helper()
	d := w.definition()
	at, _ := d.Place("greeter/beta/all/oak")
	s, _, err := w.handler.config.Look(context.Background(), at, "greeter")
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

// until polls a condition for a minute. Many conditions run the host program, which keeps a processor busy for longer than a
// shorter interval.
func until(t *testing.T, what string, condition func() bool) {
	t.Helper()
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for range 600 {
		if condition() {
			return
		}
		<-ticker.C
	}
	t.Fatalf("waited in vain: %s", what)
}

func (w *world) read(name string) string {
	content, err := os.ReadFile(filepath.Join(w.dir, name))
	if err != nil {
		return ""
	}
	return string(content)
}

const forever = `echo "I am $1"; while :; do sleep 1; done`

func TestShipSwitchesReleases(t *testing.T) {
	underEach(t, func(t *testing.T, w *world) {
		w.revise(1, forever)
		if out := w.done(1, pipeline.HostReplicated); out.Sent == 0 || out.Already {
			t.Errorf("first replicate: %+v", out)
		}
		if out := w.done(1, pipeline.HostReplicated); out.Sent != 0 || !out.Already {
			t.Errorf("second replicate: %+v", out)
		}
		if out := w.done(1, pipeline.HostDeployed); out.Already {
			t.Errorf("first deploy: %+v", out)
		}
		first := w.state()
		if since := time.Since(first.Started); since < -2*time.Second || since > 10*time.Minute {
			t.Errorf("the service was started at %s", first.Started)
		}
		if first.Release != w.release(1) || first.Running != w.release(1) || first.Service == 0 || first.Rank != 1 ||
			first.Deployment != "greeter#1" {
			t.Errorf("after #1: %+v", first)
		}
		if out := w.done(1, pipeline.HostDeployed); !out.Already || out.Text != "already runs r1, not restarted" {
			t.Errorf("second deploy: %+v", out)
		}
		if again := w.state(); again.Service != first.Service {
			t.Errorf("the service was restarted: %+v", again)
		}
		w.revise(2, forever+"; # two")
		w.ship(2)
		second := w.state()
		if second.Release != w.release(2) || second.Previous != w.release(1) || second.Running != w.release(2) || second.Unfinished {
			t.Errorf("after #2: %+v", second)
		}
		if log := w.read(".waybill/log"); !strings.Contains(log, "I am oak") {
			t.Errorf("log: %q", log)
		}
		if alive(first.Service) {
			t.Errorf("the old service %d lives", first.Service)
		}
	})
}

func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(stat), ") Z ")
}
