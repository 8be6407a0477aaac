//go:build linux && services

package crash_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/childtest"
	"github.com/waybill-dev/waybill/internal/deployer"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/ssh/sshtest"
)

// fleetGroups are the groups of the fleet, by stage, and how many hosts each begins with: 40 in all.
var fleetGroups = []struct {
	stage, group string
	hosts        int
}{{"canary", "all", 2}, {"near", "east", 10}, {"near", "west", 6}, {"far", "all", 12}, {"rest", "all", 10}}

// fleetParallel is the maxParallel of each group.
const fleetParallel = 4

// fleet is a project whose hosts are real sshd, each with an account that begins in a folder of its own.
type fleet struct {
	*project
	t       *testing.T
	key     string
	servers map[string]*sshtest.Server // by STAGE/GROUP/HOST
	lines   map[string][]string        // lines of hosts in waybill.yaml, by STAGE/GROUP
	homes   map[string]string          // homes of accounts, by STAGE/GROUP/HOST
}

func newFleet(t *testing.T) *fleet {
	t.Helper()
	f := &fleet{project: newProject(t), t: t, key: filepath.Join(t.TempDir(), "key"), servers: map[string]*sshtest.Server{},
		lines: map[string][]string{}, homes: map[string]string{}}
	sshtest.Keygen(t, f.key)
	t.Cleanup(f.endServices)
	for _, g := range fleetGroups {
		for i := range g.hosts {
			f.join(g.stage, g.group, fmt.Sprintf("h%d", i))
		}
	}
	return f
}

// join starts a host and adds it to its group.
func (f *fleet) join(stage, group, name string) {
	f.t.Helper()
	home := f.t.TempDir()
	s := sshtest.Start(f.t, `ForceCommand cd `+home+` && exec sh -c "$SSH_ORIGINAL_COMMAND"`)
	s.Accept(f.key + ".pub")
	path := stage + "/" + group
	f.servers[path+"/"+name], f.homes[path+"/"+name] = s, home
	f.lines[path] = append(f.lines[path], fmt.Sprintf(`{name: %s, url: "ssh://%s@%s", hostKey: %q}`, name, s.User, s.Address, s.Fingerprint()))
}

// write writes waybill.yaml; warm adds an own step to the chain.
func (f *fleet) write(warm bool) {
	f.t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, `pipeline: hello
service: {exec: [./serve, "${revision}"], shared: [data], ready: {for: 100ms, within: 20s}}
test: [{run: [./selftest, "${revision}"]}]
ssh: {identity: %q}
retry: {backoff: {retries: 5, initial: 100ms, max: 1s}}
`, f.key)
	if warm {
		b.WriteString("steps: [replicate, deploy, {name: warmed, run: [./warm]}, test]\n")
	}
	b.WriteString(
		"batches: [{name: live, stages: [near, far]}]\nstages:\n- {name: build, build: .wharf-ci.yml, artifacts: {any: dist/hello.tar.gz}}\n")
	stage := ""
	for _, g := range fleetGroups {
		if g.stage != stage {
			fmt.Fprintf(&b, "- name: %s\n  groups:\n", g.stage)
		}
		stage = g.stage
		fmt.Fprintf(&b, "  - {name: %s, maxParallel: %d, hosts: [%s]}\n", g.group, fleetParallel,
			strings.Join(f.lines[g.stage+"/"+g.group], ", "))
	}
	if err := os.WriteFile(filepath.Join(f.dir, "waybill.yaml"), []byte(b.String()), 0o644); err != nil {
		f.t.Fatal(err)
	}
}

// endServices ends what deployments have started on the hosts.
func (f *fleet) endServices() {
	for _, home := range f.homes {
		text, _ := os.ReadFile(filepath.Join(home, "waybill", "hello", ".waybill", "state")) // nothing may have been started
		for _, field := range strings.Fields(string(text))[:min(2, len(strings.Fields(string(text))))] {
			if pid, err := strconv.Atoi(field); err == nil && pid > 1 {
				_ = syscall.Kill(-pid, syscall.SIGKILL) // it may have ended
			}
		}
	}
}

// up starts a process that does all the work.
func (f *fleet) up(home string) *server {
	f.t.Helper()
	s := &server{ended: make(chan error, 1)}
	s.command, s.output = waybill(f.t.Context(), f.project, home, "up", "--listen", "127.0.0.1:0")
	if err := s.command.Start(); err != nil {
		f.t.Fatal(err)
	}
	go func() { s.ended <- s.command.Wait() }()
	f.t.Cleanup(s.kill)
	return s
}

// ship registers a revision, and returns its label.
func (f *fleet) ship(home string, number int) string {
	f.t.Helper()
	label := f.commit(f.t, number)
	command, output := waybill(childtest.Context(f.t), f.project, home, "ship", "--detach", "--yes")
	if err := command.Run(); err != nil {
		f.t.Fatalf("ship %d: %v\n%s", number, err, output)
	}
	return label
}

// deployment returns a deployment as the command line shows it.
func (f *fleet) deployment(home string, number int) pipeline.DeploymentState {
	f.t.Helper()
	command, _ := waybill(childtest.Context(f.t), f.project, home, "deployment", "show", fmt.Sprintf("hello#%d", number), "-o", "json")
	command.Stdout, command.Stderr = nil, nil
	text, err := command.Output()
	var d struct {
		State pipeline.DeploymentState `json:"state"`
	}
	if err == nil {
		err = json.Unmarshal(text, &d)
	}
	if err != nil {
		f.t.Fatalf("show hello#%d: %v\n%s", number, err, text)
	}
	return d.State
}

// until waits for a deployment to come as far as wanted.
func (f *fleet) until(home string, number int, what string, condition func(status pipeline.Status, done int) bool) {
	f.t.Helper()
	var status string
	for deadline := time.Now().Add(4 * time.Minute); time.Now().Before(deadline); <-time.After(200 * time.Millisecond) {
		d := f.deployment(home, number)
		if condition(d.Status, d.Done) {
			return
		}
		status = fmt.Sprintf("%s with %d facts", d.Status, d.Done)
	}
	f.t.Fatalf("hello#%d never %s: it is %s", number, what, status)
}

// TestAFleetTakesRevisionsThatRace: 40 hosts over ssh in four stages take three revisions. In the meantime a host
// joins, a step is introduced, one host is out of reach for a while, connections die, and the process is killed
// twice.
func TestAFleetTakesRevisionsThatRace(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	home := filepath.Join(f.dir, ".waybill")
	f.write(false)
	working := f.up(home)
	away := f.servers["near/east/h3"]
	away.Refuse(true)
	f.ship(home, 1)
	f.until(home, 1, "is in near", func(_ pipeline.Status, done int) bool { return done > 30 })
	f.ship(home, 2)
	working.kill()
	working = f.up(home)
	f.until(home, 2, "is through canary", func(_ pipeline.Status, done int) bool { return done > 18 }) // else 3 may supersede it
	f.join("far", "all", "joined")
	f.write(true)
	last := f.ship(home, 3)
	away.Refuse(false)
	for _, s := range f.servers {
		s.Cut()
	}
	f.until(home, 1, "is in rest", func(status pipeline.Status, done int) bool { return done > 120 || status == pipeline.StatusFinished })
	working.kill()
	f.up(home)
	for number := 1; number <= 3; number++ {
		f.until(home, number, "finishes", func(status pipeline.Status, _ int) bool { return status == pipeline.StatusFinished })
	}
	f.judge(home, last)
}

// judge compares the log and the hosts with what must hold at the end.
func (f *fleet) judge(home, last string) {
	f.t.Helper()
	check := &checker{}
	check.onSQLite(f.t, home, func(t *testing.T) {
		check.look(t)
		engine, err := deployer.Fold(t.Context(), check.ledger, "hello")
		if err != nil {
			t.Fatal(err)
		}
		if live := len(engine.Deployments(true)); live != 0 {
			t.Errorf("%d deployments are active", live)
		}
	})
	f.judgeEntries(check.seen)
	for path, folder := range f.homes {
		f.judgeHost(path, filepath.Join(folder, "waybill", "hello"), last)
	}
}

// judgeEntries judges how many hosts of a group were in flight, and where the step ran that came in between.
func (f *fleet) judgeEntries(entries []pipeline.Entry) {
	f.t.Helper()
	flight := map[string]map[string]bool{} // by group: hosts and deployments that have started and not finished
	warmed := map[int64]int{}
	for _, e := range entries {
		parts := strings.Split(e.Target, "/")
		if e.Class != pipeline.Fact || len(parts) != 4 {
			continue
		}
		group, host := parts[1]+"/"+parts[2], fmt.Sprintf("%s of #%d", parts[3], e.Deployment)
		if flight[group] == nil {
			flight[group] = map[string]bool{}
		}
		switch e.Event {
		case pipeline.HostStarted:
			flight[group][host] = true
		case pipeline.HostFinished:
			delete(flight[group], host)
		case "host-warmed":
			warmed[e.Deployment]++
		}
		if len(flight[group]) > fleetParallel {
			f.t.Errorf("at %d, %d hosts of %s are in flight: %v", e.Seq, len(flight[group]), group, flight[group])
		}
	}
	if warmed[3] != len(f.homes) {
		f.t.Errorf("hello#3 warmed %d hosts, want all %d", warmed[3], len(f.homes))
	}
	// For the deployments before, the step is all or nothing among the hosts that had still to be tested.
	f.t.Logf("hello#1 warmed %d hosts, hello#2 %d", warmed[1], warmed[2])
}

// judgeHost judges what one host has and what it has started: each revision at most once, never an older one after a newer.
func (f *fleet) judgeHost(path, folder, last string) {
	f.t.Helper()
	current, err := os.Readlink(filepath.Join(folder, "current"))
	if err != nil || !strings.Contains(current, last) {
		f.t.Errorf("%s runs %q (%v), want %s", path, current, err, last)
	}
	starts, err := os.ReadFile(filepath.Join(folder, "shared", "data", "starts"))
	if err != nil {
		f.t.Error(err)
	}
	order := strings.Fields(f.git(f.t, "log", "--reverse", "--format=%h"))
	at := -1
	for _, label := range strings.Fields(string(starts)) {
		n := -1
		for i, known := range order {
			if strings.HasPrefix(label, known) {
				n = i
			}
		}
		if n <= at {
			f.t.Errorf("%s started %v, of %v: an older revision after a newer one, or one twice", path, strings.Fields(string(starts)), order)
		}
		at = n
	}
	if _, err := os.Stat(filepath.Join(folder, ".waybill", "revert")); err == nil {
		f.t.Errorf("a switch is open on %s", path)
	}
}
