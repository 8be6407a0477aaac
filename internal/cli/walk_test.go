//go:build services

package cli_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/childtest"
	"github.com/waybill-dev/waybill/internal/service"
)

// walkFile is the pipeline of the walk; each step edits it.
const walkFile = `pipeline: mini
service: {name: mini, exec: [./run.sh], ready: {for: 100ms, within: 30s}}
stages:
- {name: build, build: .wharf-ci.yml, artifacts: {any: a.tgz}}
- name: prod
  groups: [{name: web, hosts: [{name: h1, url: "local://SRV"}]}]
`

// walkSteps are the changes of the host, in order. After each one every answer about the host agrees with it, or
// reports that it does not know. host is the name of the host from then on.
var walkSteps = []struct {
	name, host string
	do         func(w *walk)
}{
	{"the first deployment", "prod/web/h1", func(w *walk) { w.ship() }},
	{"the stage has another name", "live/web/h1", func(w *walk) { w.edit("name: prod", "name: live"); w.run("pipeline", "apply") }},
	{"so has the group", "live/app/h1", func(w *walk) { w.edit("name: web", "name: app"); w.run("pipeline", "apply") }},
	{"a deployment by the new names", "live/app/h1", func(w *walk) { w.ship() }},
	{"another name, which was the former", "main/all/h1", func(w *walk) {
		w.edit("name: live", "name: main\n  was: [live, prod]")
		w.edit("name: app", "name: all, was: [app]")
		w.run("pipeline", "apply")
	}},
	{"its link is set back by hand", "main/all/h1", func(w *walk) { w.swap() }},
	{"and forth", "main/all/h1", func(w *walk) { w.swap() }},
	{"a rollback over the names", "main/all/h1", func(w *walk) {
		w.exec("sh", "-c", `id=$(waybill deployment rollback mini main | cut -d" " -f1) && { waybill serve conductor deployer & p=$!; }
			waybill deployment watch "$id"; s=$?; kill -INT $p; wait $p; exit $s`)
	}},
	{"the service is killed", "main/all/h1", func(w *walk) { w.kill() }},
	{"it is started again", "main/all/h1", func(w *walk) { w.ship() }},
	{"a deadline while it becomes ready", "main/all/h1", func(w *walk) {
		w.edit("ready: {for: 100ms, within: 30s}", "ready: {for: 20s, within: 30s}")
		w.edit("exec: [./run.sh]", "exec: [./run.sh, slow]")
		w.edit("stages:", "retry: {deadline: 3s}\nstages:")
		w.fails("ship")
		w.edit("retry: {deadline: 3s}\n", "")
		w.edit("ready: {for: 20s, within: 30s}", "ready: {for: 100ms, within: 30s}")
	}},
	{"checks that never pass", "main/all/h1", func(w *walk) {
		w.edit("within: 30s}", `within: 1s, checks: [{tcp: "127.0.0.1:1"}]}`)
		w.edit("stages:", "retry: {backoff: {retries: 0}}\nstages:")
		w.fails("ship")
		w.edit("retry: {backoff: {retries: 0}}\n", "")
		w.edit(`within: 1s, checks: [{tcp: "127.0.0.1:1"}]}`, "within: 30s}")
	}},
	{"its folder is moved away", "main/all/h1", func(w *walk) { w.move(w.srv, w.srv+"-away") }},
	{"and back", "main/all/h1", func(w *walk) { w.move(w.srv+"-away", w.srv) }},
	{"the host is installed again", "main/all/h1", func(w *walk) {
		w.kill()
		w.must(os.RemoveAll(w.srv))
	}},
	{"a deployment to the empty host", "main/all/h1", func(w *walk) { w.ship() }},
	{"another log has the pipeline", "main/all/h1", func(w *walk) {
		w.must(os.RemoveAll(filepath.Join(w.project, ".waybill")))
		w.run("pipeline", "apply")
	}},
	{"the host is taken over", "main/all/h1", func(w *walk) {
		w.exec("sh", "-c", `echo y | script -qec "waybill pipeline trust --take-over" /dev/null`)
	}},
	{"a deployment of the new log", "main/all/h1", func(w *walk) { w.ship() }},
}

// A host is followed through all that may happen to its names, its service, its folder and its log.
func TestEveryAnswerAgreesWithTheHost(t *testing.T) {
	t.Parallel()
	w := newWalk(t)
	for _, step := range walkSteps {
		w.agree(step.name, "mini/"+step.host, func() { step.do(w) })
	}
}

// agree does a step and then has every answer about a host agree with it. The requests are repeated if the host
// changed in the meantime: it may be starting a service.
func (w *walk) agree(step, target string, do func()) {
	w.t.Helper()
	do()
	is := w.truth()
	wrong := w.disagreements(target, is)
	for now := w.truth(); now != is; now = w.truth() {
		is = now
		wrong = w.disagreements(target, is)
	}
	for _, text := range wrong {
		w.t.Errorf("%s: %s", step, text)
	}
	if w.t.Failed() {
		w.t.Fatalf("%s\n%s%s", step, w.run("service", "list"), w.run("pipeline", "show"))
	}
}

// walk holds a project with one host.
type walk struct {
	t            *testing.T
	project, srv string
	ships        int
	lost         bool // the host cannot be reached: every answer reports it
}

func newWalk(t *testing.T) *walk {
	t.Helper()
	dir := t.TempDir()
	w := &walk{t: t, project: filepath.Join(dir, "m"), srv: filepath.Join(dir, "srv")}
	w.must(os.Mkdir(w.project, 0o755))
	w.write("waybill.yaml", strings.Replace(walkFile, "SRV", w.srv, 1))
	w.write(".wharf-ci.yml",
		"p:\n  a:\n    artifacts: [a.tgz]\n    container: {image: x, cmds: [\"chmod +x run.sh && tar -czf a.tgz run.sh\"]}\n")
	w.exec("git", "init", "-q")
	t.Cleanup(func() { endHost(w.srv) })
	return w
}

func (w *walk) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *walk) write(name, text string) {
	w.t.Helper()
	w.must(os.WriteFile(filepath.Join(w.project, name), []byte(text), 0o644))
}

func (w *walk) edit(from, to string) {
	w.t.Helper()
	text, err := os.ReadFile(filepath.Join(w.project, "waybill.yaml"))
	w.must(err)
	if !strings.Contains(string(text), from) {
		w.t.Fatalf("waybill.yaml lacks %q:\n%s", from, text)
	}
	w.write("waybill.yaml", strings.Replace(string(text), from, to, 1))
}

func (w *walk) move(from, to string) {
	w.t.Helper()
	w.must(os.Rename(from, to))
}

// swap points the link of the current release to another release.
func (w *walk) swap() {
	w.t.Helper()
	link := filepath.Join(w.srv, "mini", "current")
	all, err := filepath.Glob(filepath.Join(w.srv, "mini", "releases", "*"))
	w.must(err)
	now := w.truth().release
	other := slices.IndexFunc(all, func(path string) bool { return filepath.Base(path) != now })
	w.must(os.Remove(link))
	w.must(os.Symlink(filepath.Join("releases", filepath.Base(all[other])), link))
}

// change makes another revision of the project.
func (w *walk) change() {
	w.ships++
	w.write("run.sh", fmt.Sprintf("#!/bin/sh\n# %d\nexec sleep 1000\n", w.ships))
}

func (w *walk) ship() {
	w.t.Helper()
	w.change()
	w.run("ship", "--yes")
}

// fails runs a command that must fail, with another revision.
func (w *walk) fails(args ...string) {
	w.t.Helper()
	w.change()
	if out, err := w.command("waybill", append(args, "--yes")...).CombinedOutput(); err == nil {
		w.t.Fatalf("waybill %v is done:\n%s", args, out)
	}
}

func (w *walk) command(name string, args ...string) *exec.Cmd {
	c := exec.CommandContext(w.t.Context(), name, args...)
	c.Dir, c.WaitDelay = w.project, childtest.Linger
	c.Env = append(os.Environ(), "HOME="+filepath.Dir(w.project), "USER=ana", "WAYBILL_RUNNER=process", "GIT_CONFIG_NOSYSTEM=1")
	return c
}

func (w *walk) exec(name string, args ...string) string {
	w.t.Helper()
	c := w.command(name, args...)
	var errs strings.Builder
	c.Stderr = &errs
	out, err := c.Output()
	if err != nil {
		w.t.Fatalf("%s %v: %v\n%s%s", name, args, err, out, errs.String())
	}
	return string(out)
}

func (w *walk) run(args ...string) string {
	w.t.Helper()
	return w.exec("waybill", args...)
}

func (w *walk) read(into any, args ...string) {
	w.t.Helper()
	w.must(json.Unmarshal([]byte(w.run(append(args, "-o", "json")...)), into))
}

// kill ends the service and its supervisor, and waits until both have ended.
func (w *walk) kill() {
	w.t.Helper()
	pids := pidsOn(w.srv)
	endHost(w.srv)
	for slices.ContainsFunc(pids, isAlive) {
		if w.t.Context().Err() != nil {
			w.t.Fatal("the service does not end")
		}
	}
}

// endHost ends the programs on a local host. Each of supervisor and service has a group of its own.
func endHost(srv string) {
	for _, pid := range pidsOn(srv) {
		_ = syscall.Kill(-pid, syscall.SIGKILL) // it may have ended
	}
}

// pidsOn returns the supervisor and the service of a host, as its state file names them.
func pidsOn(srv string) (pids []int) {
	text, err := os.ReadFile(filepath.Join(srv, "mini", ".waybill", "state"))
	if err != nil {
		return nil
	}
	for _, field := range strings.Fields(string(text))[:2] {
		if pid, err := strconv.Atoi(field); err == nil && pid > 1 {
			pids = append(pids, pid)
		}
	}
	return pids
}

// truth is the true state of the host's folder and processes.
type truth struct {
	release string // current; "": none
	up      bool
}

func (w *walk) truth() truth {
	link, _ := os.Readlink(filepath.Join(w.srv, "mini", "current"))
	is := truth{release: strings.TrimPrefix(filepath.Base(link), ".")}
	if pids := pidsOn(w.srv); len(pids) == 2 {
		is.up = isAlive(pids[1])
	}
	return is
}

// isAlive reports whether a process runs. One that has ended may have a parent that does not wait for it.
func isAlive(pid int) bool {
	if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		return false
	}
	state, err := exec.CommandContext(context.Background(), "ps", "-o", "stat=", "-p", strconv.Itoa(pid)).Output()
	return err == nil && !strings.HasPrefix(string(state), "Z")
}

// disagreements reads every view of the host and returns the differences. A view may report that it does not know.
func (w *walk) disagreements(target string, is truth) (wrong []string) {
	w.t.Helper()
	say := func(view, format string, args ...any) {
		wrong = append(wrong, fmt.Sprintf("%s: %s; the host has %+v", view, fmt.Sprintf(format, args...), is))
	}
	check := func(view, name string, runs *service.Running, found *service.Found, state *service.Services) {
		known := state != nil && state.State != service.ServiceUnknown
		switch {
		case name != target:
			say(view, "the host is called %s", name)
		case is.release != "" && runs == nil && found == nil && (state == nil || known):
			say(view, "nothing runs")
		case is.up && (state == nil || known && state.State != service.ServiceUp):
			say(view, "its service is %+v", state)
		case !is.up && known && state.State == service.ServiceUp:
			say(view, "its service is up")
		case is.release != "" && found != nil && found.Release != is.release:
			say(view, "it has %s", found)
		case is.release != "" && runs != nil && found == nil && known && !strings.HasPrefix(is.release, runs.Label+"-"):
			say(view, "it runs %s", runs)
		case w.lost && (state == nil || known):
			say(view, "its service is known")
		}
	}
	var services []service.ServiceView
	w.read(&services, "service", "list")
	if len(services) != 1 {
		return append(wrong, fmt.Sprintf("service list has %d hosts", len(services)))
	}
	check("service list", services[0].Target, services[0].Runs, services[0].Found, services[0].State)
	var view service.PipelineView
	w.read(&view, "pipeline", "show")
	check("pipeline show", view.Hosts[0].Target, view.Hosts[0].Runs, view.Hosts[0].Found, view.Hosts[0].Service)
	for _, claim := range runsClaim.FindAllStringSubmatch(w.run("pipeline", "show"), -1) {
		if is.release != claim[1] && !strings.HasPrefix(is.release, claim[1]+"-") {
			say("pipeline show", "it says %q", claim[0])
		}
	}
	var status service.StatusView
	w.read(&status, "status")
	troubled := false
	for _, trouble := range status.Troubles {
		troubled = troubled || trouble.Subject == target
	}
	if (w.lost || !is.up) && services[0].Runs != nil && !troubled {
		say("status", "no trouble")
	}
	page, up, unknown := w.served(is.release != "")
	switch {
	case w.lost && (unknown != 1 || up != 0):
		say("metrics", "%d services are up and %d are unknown", up, unknown)
	case w.lost && !strings.Contains(page, "by the log"):
		say("page", "the release is known")
	case is.release != "" && strings.Contains(page, `<span class="none">nothing</span>`) && services[0].State.State != service.ServiceUnknown:
		say("page", "nothing runs")
	case is.up != (up == 1) && unknown == 0 && (is.release != "" || is.up):
		say("metrics", "%d services are up", up)
	}
	return wrong
}

// countOf returns the number that a metric has; 0 without it.
func countOf(metric *regexp.Regexp, metrics string) int {
	found := metric.FindStringSubmatch(metrics)
	if found == nil {
		return 0
	}
	n, _ := strconv.Atoi(found[1])
	return n
}

var (
	runsClaim       = regexp.MustCompile(`(?m)^\S+ runs (\S+)`)
	anyService      = regexp.MustCompile(`(?m)^waybill_deployer_services\{state="[a-z]+"\} [1-9]`)
	upServices      = regexp.MustCompile(`(?m)^waybill_deployer_services\{state="up"\} (\d+)$`)
	unknownServices = regexp.MustCompile(`(?m)^waybill_deployer_services\{state="unknown"\} (\d+)$`)
)

// served starts the API and returns the page of the pipeline and how many services it has observed, as soon as it has observed one
// if there is one.
func (w *walk) served(one bool) (page string, up, unknown int) {
	w.t.Helper()
	port, err := childtest.FreePort(w.t.Context())
	w.must(err)
	url := fmt.Sprintf("http://127.0.0.1:%d", port)
	ctx, cancel := context.WithTimeoutCause(w.t.Context(), childtest.Limit, childtest.ErrLimit)
	serving := w.command("waybill", "serve", "api", "--listen", fmt.Sprintf("127.0.0.1:%d", port))
	var out strings.Builder
	serving.Stderr = &out
	w.must(serving.Start())
	defer func() {
		cancel()
		_ = serving.Process.Signal(syscall.SIGTERM)
		_ = serving.Wait()
	}()
	for {
		metrics := get(ctx, url+"/metrics")
		if metrics != "" && (!one || anyService.MatchString(metrics)) {
			return get(ctx, url+"/pipelines/mini"), countOf(upServices, metrics), countOf(unknownServices, metrics)
		}
		select {
		case <-ctx.Done():
			w.t.Fatalf("nothing was observed: %s", out.String())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// get returns the body of a page; "" for none.
func get(ctx context.Context, url string) string {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return ""
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return ""
	}
	defer answer.Body.Close()
	body, _ := io.ReadAll(answer.Body)
	return string(body)
}
