//go:build linux && services

package faults_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/builds"
	"github.com/waybill-dev/waybill/internal/childtest"
	"github.com/waybill-dev/waybill/internal/deployer"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/pgtest"
	"github.com/waybill-dev/waybill/internal/postgres"
	"github.com/waybill-dev/waybill/internal/sqlite"
	"github.com/waybill-dev/waybill/test/chaos"
)

// pipelines are the projects that are built at a time.
var pipelines = []string{"first", "second", "third"}

// world is a Waybill whose processes are killed, and the known state of its builds.
type world struct {
	t         *testing.T
	folder    string
	server    *pgtest.Server // nil: SQLite
	proxy     *chaos.Proxy   // between the processes and the server
	front     *front         // between the processes and the provisioner, and workers
	ledger    *ledger.Ledger // ledger of the test, past the proxy
	names     []string       // names of the processes, in the order in which they were first started
	roles     map[string][]string
	processes map[string]*process

	kinds    []string           // faults that are still to occur, in this order
	revision int                // number of the last one that was shipped
	killed   map[builds.ID]bool // builds whose worker was killed
	judged   map[builds.ID]bool
	builds   int            // number of judged builds
	ends     map[string]int // ends of the builds
	faults   map[string]int
}

func newWorld(t *testing.T, server *pgtest.Server) *world {
	t.Helper()
	w := &world{t: t, folder: t.TempDir(), server: server, roles: map[string][]string{}, processes: map[string]*process{},
		killed: map[builds.ID]bool{}, judged: map[builds.ID]bool{}, ends: map[string]int{}, faults: map[string]int{}}
	for _, folder := range []string{w.home(), w.kept(), w.temporary()} {
		w.must(os.MkdirAll(folder, 0o700))
	}
	var err error
	if server != nil {
		w.proxy, err = chaos.NewProxy(t.Context(), server.URL())
		w.must(err)
		t.Cleanup(func() { _ = w.proxy.Close() })
	}
	port, err := childtest.FreePort(t.Context())
	w.must(err)
	w.front = newFront(t, fmt.Sprintf("127.0.0.1:%d", port))
	w.must(os.WriteFile(w.config(), fmt.Appendf(nil, `ledger: {heartbeat: 1s}
server: {listen: "127.0.0.1:0"}
builder:
  provisioner: {url: %q, listen: "127.0.0.1:%d", keep: 1m}
  watchdog: {interval: 10s, workerAge: 5s, buildAge: 5s}
`, w.front.URL, port), 0o600))
	driver, err := w.driver(t.Context())
	w.must(err)
	w.ledger = ledger.New(driver, ledger.Options{})
	t.Cleanup(func() { _ = w.ledger.Close() })
	for _, name := range pipelines {
		w.repository(name)
	}
	return w
}

func (w *world) driver(ctx context.Context) (ledger.Driver, error) {
	if w.server != nil {
		return postgres.Open(ctx, w.server.URL(), postgres.Options{})
	}
	return sqlite.Open(ctx, filepath.Join(w.home(), "waybill.db"))
}

func (w *world) home() string { return filepath.Join(w.folder, "home") }

// kept returns the folder into which steps link their logs, so that they outlive their workers.
func (w *world) kept() string { return filepath.Join(w.folder, "kept") }

// temporary returns the folder in which workers work.
func (w *world) temporary() string { return filepath.Join(w.folder, "temporary") }

func (w *world) config() string { return filepath.Join(w.folder, "server.yaml") }

func (w *world) workers() string { return filepath.Join(w.home(), "workers") }

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// command returns a command of the program. through: by way of the proxy.
func (w *world) command(ctx context.Context, through bool, args ...string) *exec.Cmd {
	args = append(args, "--home", w.home(), "--config", w.config())
	if w.server != nil {
		store := w.server.URL()
		if through {
			store = w.proxy.Through(store)
		}
		args = append(args, "--store", store)
	}
	command := exec.CommandContext(ctx, binary, args...)
	command.Dir, command.WaitDelay, command.Env = w.folder, childtest.Linger, append(os.Environ(), "TMPDIR="+w.temporary())
	return command
}

// process is a `waybill serve`.
type process struct {
	handle *os.Process
	ended  chan struct{}
}

// serve starts a process under a name, first or again.
func (w *world) serve(name string, roles ...string) {
	w.t.Helper()
	if w.processes[name] == nil {
		w.names, w.roles[name] = append(w.names, name), roles
	}
	file, err := os.OpenFile(filepath.Join(w.folder, name+".log"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	w.must(err)
	defer file.Close()
	command := w.command(context.WithoutCancel(w.t.Context()), true, append([]string{"serve"}, roles...)...)
	command.Stdout, command.Stderr, command.SysProcAttr = file, file, &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	p := &process{ended: make(chan struct{})}
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // the parent whose death kills it is the thread
		err := command.Start()
		started <- err
		if err == nil {
			_ = command.Wait()
			close(p.ended)
		}
	}()
	w.must(<-started)
	p.handle = command.Process
	w.processes[name] = p
	w.t.Cleanup(func() {
		p.kill()
		if w.t.Failed() && w.processes[name] == p {
			text, _ := os.ReadFile(file.Name())
			w.t.Logf("%s printed:\n%s", name, text[max(0, len(text)-20_000):])
		}
	})
}

// kill ends the process by kill -9 and waits for its end.
func (p *process) kill() {
	_ = p.handle.Kill() // an error reports that it has ended
	<-p.ended
}

// revive starts processes again that have ended by themselves, as a supervisor does: one that is still starting when the database
// is away ends with an error.
func (w *world) revive() {
	w.t.Helper()
	for _, name := range w.names {
		select {
		case <-w.processes[name].ended:
			w.serve(name, w.roles[name]...)
		default:
		}
	}
}

// killWorker kills a worker by kill -9; false if there is none. Its logs are kept.
func (w *world) killWorker(random *rand.Rand) bool {
	w.t.Helper()
	records, _ := filepath.Glob(filepath.Join(w.workers(), "*", "worker.json"))
	random.Shuffle(len(records), func(i, j int) { records[i], records[j] = records[j], records[i] })
	for _, path := range records {
		var record struct {
			BuildID builds.ID `json:"buildId"`
			Process struct {
				PID int `json:"pid"`
			} `json:"process"`
		}
		text, err := os.ReadFile(path)
		if err != nil || json.Unmarshal(text, &record) != nil || !w.isWorker(record.Process.PID) {
			continue
		}
		for step := range 4 {
			_ = os.Link(filepath.Join(filepath.Dir(path), "results", "steps", fmt.Sprint(step), "output.log"), w.keptLog(record.BuildID, step))
		}
		w.killed[record.BuildID] = true
		return syscall.Kill(record.Process.PID, syscall.SIGKILL) == nil
	}
	return false
}

// isWorker reports whether a process is a worker of this world.
func (w *world) isWorker(pid int) bool {
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return err == nil && strings.Contains(string(line), w.workers())
}

func (w *world) keptLog(id builds.ID, step int) string {
	return filepath.Join(w.kept(), fmt.Sprintf("%d-%d", id, step))
}

// settleLimit bounds how long builds take to end: a lost one takes half a minute to be found lost, and may be lost again.
const settleLimit = 10 * time.Minute

// settle waits until every deployment and every build has ended.
func (w *world) settle(round int) {
	w.t.Helper()
	var left string
	err := chaos.Until(w.t.Context(), "everything ends", settleLimit, func(ctx context.Context) (bool, error) {
		w.revive()
		left = ""
		for _, name := range pipelines {
			engine, err := deployer.Fold(ctx, w.ledger, name)
			if err != nil {
				return false, err
			}
			for _, d := range engine.Deployments(true) {
				left = fmt.Sprintf("%s#%d is %s", name, d.Deployment, d.Status)
				return false, nil
			}
		}
		open, err := w.ledger.Builds.List(ctx, builds.Query{Active: true})
		if err != nil {
			return false, err
		}
		for i := range open {
			left = fmt.Sprintf("build %d is %s", open[i].ID, open[i].Status)
		}
		return len(open) == 0, nil
	})
	if err != nil {
		w.t.Fatalf("round %d: %v: %s", round, err, left)
	}
	for _, name := range pipelines {
		engine, err := deployer.Fold(w.t.Context(), w.ledger, name)
		w.must(err)
		if d, ok := engine.Deployment(int64(w.revision)); !ok || d.Status != "finished" {
			w.t.Errorf("round %d: %s#%d is %s", round, name, w.revision, d.Status)
		}
	}
}
