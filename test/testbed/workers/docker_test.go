//go:build services

// Package workers_test runs the workers of builds in containers of a real Docker Engine.
package workers_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/moby/moby/client"

	provisionerv1 "github.com/waybill-dev/waybill/api/provisioner/v1"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/test/testbed"
)

// limit bounds every wait.
const limit = 5 * time.Minute

var program testbed.Product

func TestMain(m *testing.M) {
	code := m.Run()
	_ = program.Remove() // a temporary folder
	os.Exit(code)
}

func waybill(t *testing.T) string {
	t.Helper()
	return program.Path(t, filepath.Join("..", "..", ".."))
}

// site is a server with a provisioner of Docker workers, in the network of the Engine, and a project.
type site struct {
	t      *testing.T
	engine *testbed.Engine
	dir    string // the project
	home   string
	env    []string
	log    string // file with what the server printed
	client *provisionerv1.Client
	server *exec.Cmd
}

const pipeline = `pipeline: PROJECT
stages:
- name: build
  build: .wharf-ci.yml
  retry: {backoff: {retries: 1, initial: 10ms}}
  artifacts: {any: out/greeter.txt}
`

// newSite makes a project with a build file, and starts the server.
func newSite(t *testing.T, engine *testbed.Engine, name string, port int, settings, file string) *site {
	t.Helper()
	s := &site{t: t, engine: engine, dir: t.TempDir(), home: t.TempDir()}
	s.log = filepath.Join(s.home, "log")
	s.env = append(os.Environ(), "HOME="+s.home, "WAYBILL_HOME="+filepath.Join(s.dir, ".waybill"), "DOCKER_HOST=",
		"GIT_AUTHOR_NAME=Ana", "GIT_AUTHOR_EMAIL=a@example.net", "GIT_COMMITTER_NAME=Ana", "GIT_COMMITTER_EMAIL=a@example.net")
	config := fmt.Sprintf(`builder:
  instance: %s
  provisioner: {url: "http://127.0.0.1:%d", listen: "127.0.0.1:%d", grace: 20s, docker: {host: %q, image: %q%s}}
`, name, port, port, engine.Host, testbed.WorkerImage, settings)
	for path, content := range map[string]string{".waybill/server.yaml": config, "waybill.yaml": strings.ReplaceAll(pipeline, "PROJECT", name),
		".wharf-ci.yml": strings.ReplaceAll(file, "BUSYBOX", testbed.Busybox), ".gitignore": ".waybill\n"} {
		path = filepath.Join(s.dir, path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	s.must("git", "init", "-q", "-b", "main")
	s.commit("first")
	log, err := os.Create(s.log)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	argv := engine.Inside(waybill(t), "serve", "api", "conductor", "deployer", "aggregator", "provisioner", "--listen", "127.0.0.1:0")
	s.server = exec.Command(argv[0], argv[1:]...)
	s.server.Dir, s.server.Env, s.server.Stderr = s.dir, s.env, log
	if err := s.server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = s.server.Process.Signal(syscall.SIGINT)
		_ = s.server.Wait() // its log says why
		if t.Failed() {
			text, _ := os.ReadFile(s.log)
			t.Logf("the server's log:\n%s", text[max(0, len(text)-6000):])
		}
	})
	s.client = &provisionerv1.Client{URL: fmt.Sprintf("http://127.0.0.1:%d", port),
		HTTP: &http.Client{Transport: &http.Transport{DialContext: engine.Dial}},
		Token: func() (string, error) {
			text, err := os.ReadFile(filepath.Join(s.dir, ".waybill", "token"))
			return strings.TrimSpace(string(text)), err
		}}
	await(t, "the provisioner answers", func() bool { _, err := s.client.List(t.Context(), provisionerv1.Filter{}); return err == nil })
	return s
}

// run runs a program in the project and the network of the Engine, and returns its exit status and the output.
func (s *site) run(argv ...string) (int, string) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.t.Context()), limit)
	defer cancel()
	argv = s.engine.Inside(argv...)
	c := exec.CommandContext(ctx, argv[0], argv[1:]...)
	c.Dir, c.Env = s.dir, s.env
	out, err := c.CombinedOutput()
	if _, ended := errors.AsType[*exec.ExitError](err); err != nil && !ended {
		s.t.Fatalf("%v: %v", argv, err)
	}
	return c.ProcessState.ExitCode(), string(out)
}

func (s *site) must(argv ...string) string {
	s.t.Helper()
	status, out := s.run(argv...)
	if status != 0 {
		s.t.Fatalf("%v: exit status %d\n%s", argv, status, out)
	}
	return out
}

func (s *site) commit(subject string) {
	s.t.Helper()
	s.must("git", "add", ".")
	s.must("git", "commit", "-q", "--allow-empty", "-m", subject)
}

// printed reports whether the server has printed a text.
func (s *site) printed(text string) bool {
	log, _ := os.ReadFile(s.log)
	return strings.Contains(string(log), text)
}

// await waits until a condition holds.
func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), limit)
	defer cancel()
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for !holds() {
		select {
		case <-again.C:
		case <-ctx.Done():
			t.Fatalf("not within %s: %s", limit, what)
		}
	}
}

// containers lists the ids of containers with a label.
func (s *site) containers(label string) (ids []string) {
	s.t.Helper()
	found, err := s.engine.Client.ContainerList(context.WithoutCancel(s.t.Context()),
		client.ContainerListOptions{All: true, Filters: make(client.Filters).Add("label", label)})
	if err != nil {
		s.t.Fatal(err)
	}
	for _, c := range found.Items {
		ids = append(ids, c.ID)
	}
	return ids
}

// only returns the only worker of a build; false if there is none, or another status.
func (s *site) only(buildID int64, status string) (provisionerv1.Worker, bool) {
	list, err := s.client.List(context.WithoutCancel(s.t.Context()), provisionerv1.Filter{BuildID: buildID})
	if err != nil || len(list.Workers) != 1 || list.Workers[0].Status != status {
		return provisionerv1.Worker{}, false
	}
	return list.Workers[0], true
}

// kill kills a container without warning.
func (s *site) kill(id string) {
	s.t.Helper()
	if _, err := s.engine.Client.ContainerKill(s.t.Context(), id, client.ContainerKillOptions{Signal: "SIGKILL"}); err != nil {
		s.t.Fatal(err)
	}
}

// TestDocker runs builds in one Engine, side by side.
func TestDocker(t *testing.T) {
	t.Parallel()
	engine := testbed.Docker(t)
	bare := repository(t)
	engine.ImportWorkers(t, waybill(t), bare.files)
	for name, test := range map[string]func(*testing.T, *testbed.Engine){
		"ADeploymentIsBuilt": aDeploymentIsBuilt,
		"AKilledWorker":      aKilledWorker,
		"ARepositoryIsCloned": func(t *testing.T, engine *testbed.Engine) {
			aRepositoryIsCloned(t, engine, bare.commit)
		},
		"ABuildIsResumed": func(t *testing.T, engine *testbed.Engine) { aBuildIsResumed(t, engine, bare.commit) },
		"OutOfMemory":     func(t *testing.T, engine *testbed.Engine) { outOfMemory(t, engine, bare.commit) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, engine)
		})
	}
}

const greeter = `package:
  greeter:
    artifacts: [out/greeter.txt]
    container:
      image: BUSYBOX
      cmds: [set -e, mkdir out, "echo hello > out/greeter.txt", "echo packed by $(hostname)", "if [ -f wait ]; then touch begun; exec sleep 600; fi"]
`

// failing is a stage of the environment strict, with a step that fails after it has shown the artifact that it needs.
const failing = `environments: {strict: {}}
check:
  environments: [strict]
  use: {needs: [greeter], container: {image: BUSYBOX, cmds: [set -e, cat out/greeter.txt, exit 3]}}
`

// aBuildIsResumed by a worker that is sent what the steps of the earlier build have left, beside the repository that it clones.
func aBuildIsResumed(t *testing.T, engine *testbed.Engine, commit string) {
	s := newSite(t, engine, "resumed", 5105, "", greeter)
	settings, err := os.OpenFile(filepath.Join(s.dir, ".waybill", "server.yaml"), os.O_WRONLY|os.O_APPEND, 0)
	if err == nil {
		_, err = settings.WriteString("builds: {projects: {shop: {repository: \"file://" + repositoryPath + "\"}}}\n")
		err = errors.Join(err, settings.Close())
	}
	address, readErr := os.ReadFile(filepath.Join(s.dir, ".waybill", "address"))
	if err := errors.Join(err, readErr); err != nil {
		t.Fatal(err)
	}
	server := strings.TrimSpace(string(address))
	first := ""
	await(t, "the server knows the project, and its build fails", func() bool {
		_, first = s.run(waybill(t), "build", "run", "shop", "--commit", commit, "--environment", "strict", "--follow", "--server", server)
		return strings.Contains(first, "build 1: Failed")
	})
	status, second := s.run(waybill(t), "build", "rerun", "1", "--resume", "--follow", "--server", server)
	if status != 1 || !strings.Contains(second, "check/use | hello\n") {
		t.Errorf("exit status %d: %s", status, second)
	}
	_, packed, _ := strings.Cut(first, "packed by ") // the container of the step
	host, _, found := strings.Cut(packed, "\n")
	if !found || !strings.Contains(second, "packed by "+host+"\n") {
		t.Errorf("the step that completed ran again:\n%s\n%s", first, second)
	}
	if out := s.must(waybill(t), "build", "show", "2", "--server", server); !strings.Contains(out, "reused from build 1") {
		t.Errorf("%s", out)
	}
}

// aDeploymentIsBuilt by a worker that is sent its snapshot, in containers beside the worker's own.
func aDeploymentIsBuilt(t *testing.T, engine *testbed.Engine) {
	s := newSite(t, engine, "built", 5101, "", greeter)
	if out := s.must(waybill(t), "ship"); !strings.Contains(out, "finished: ") {
		t.Errorf("%s", out)
	}
	for _, text := range []string{"the worker has its snapshot", "everything of a build is stored"} {
		if !s.printed(text) {
			t.Errorf("the server has not printed %q", text)
		}
	}
	address, err := os.ReadFile(filepath.Join(s.dir, ".waybill", "address"))
	if err != nil {
		t.Fatal(err)
	}
	if out := s.must(waybill(t), "build", "log", "1", "package/greeter", "--server",
		strings.TrimSpace(string(address))); !strings.Contains(out, "packed by ") {
		t.Errorf("%s", out)
	}
	await(t, "the worker and its steps are removed", func() bool {
		return len(s.containers("dev.waybill.worker.instance=built")) == 0
	})
}

// aKilledWorker loses its build, and the attempt is made again. The container of its step is removed.
func aKilledWorker(t *testing.T, engine *testbed.Engine) {
	s := newSite(t, engine, "killed", 5102, "", greeter)
	if err := os.WriteFile(filepath.Join(s.dir, "wait"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s.commit("waits")
	s.must(waybill(t), "ship", "--detach")
	worker := ""
	await(t, "the first worker runs a step", func() bool {
		found, ok := s.only(1, "Running")
		worker = found.WorkerID
		return ok && len(s.stepsOf(worker)) > 0
	})
	steps := s.stepsOf(worker)
	s.kill(worker)
	await(t, "the provisioner says how it ended", func() bool {
		found, ok := s.only(1, "Ended")
		return ok && found.Reason == "the worker was killed" || s.printed("worker was killed")
	})
	await(t, "its step is removed", func() bool { return !s.exists(steps[0]) })
	await(t, "another worker runs the step", func() bool {
		found, ok := s.only(2, "Running")
		worker = found.WorkerID
		return ok && len(s.stepsOf(worker)) > 0
	})
	steps = s.stepsOf(worker)
	if err := s.client.Delete(t.Context(), worker, false); err != nil {
		t.Fatal(err)
	}
	await(t, "a deleted worker ends its step", func() bool { return !s.exists(steps[0]) })
	await(t, "the deployment has failed", func() bool { status, _ := s.run(waybill(t), "deployment", "watch"); return status != 0 })
	if !s.printed("everything of a build is stored") {
		t.Error("the canceled build's results were not stored")
	}
	await(t, "the worker is removed", func() bool { return !s.exists(worker) })
}

// stepsOf lists the containers of a worker's steps.
func (s *site) stepsOf(worker string) (ids []string) {
	s.t.Helper()
	found, err := s.engine.Client.ContainerInspect(s.t.Context(), worker, client.ContainerInspectOptions{})
	if err != nil {
		return nil
	}
	all, err := s.engine.Client.ContainerList(s.t.Context(),
		client.ContainerListOptions{Filters: make(client.Filters).Add("label", "dev.waybill.step")})
	if err != nil {
		s.t.Fatal(err)
	}
	for _, c := range all.Items {
		if strings.HasPrefix(c.Labels["dev.waybill.instance"], found.Container.Config.Hostname+"/") {
			ids = append(ids, c.ID)
		}
	}
	return ids
}

func (s *site) exists(id string) bool {
	_, err := s.engine.Client.ContainerInspect(context.WithoutCancel(s.t.Context()), id, client.ContainerInspectOptions{})
	return err == nil
}

// bareRepository is a repository that the image of the workers has.
type bareRepository struct {
	files  map[string][]byte
	commit string
}

const repositoryPath = "/srv/shop.git"

func repository(t *testing.T) bareRepository {
	t.Helper()
	dir := t.TempDir()
	git := func(arguments ...string) string {
		c := exec.CommandContext(t.Context(), "git", arguments...)
		c.Dir = dir
		out, err := c.CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v\n%s", arguments, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	git("init", "-q", "-b", "main")
	file := strings.ReplaceAll("inputs: [{name: password, type: password}]\n"+greeter+failing, "BUSYBOX", testbed.Busybox)
	if err := os.WriteFile(filepath.Join(dir, ".wharf-ci.yml"), []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	git("add", ".")
	git("-c", "user.name=Ana", "-c", "user.email=a@example.net", "commit", "-q", "-m", "one")
	r := bareRepository{files: map[string][]byte{}, commit: git("rev-parse", "HEAD")}
	err := filepath.WalkDir(filepath.Join(dir, ".git"), func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		name, _ := filepath.Rel(filepath.Join(dir, ".git"), path)
		r.files[repositoryPath+"/"+filepath.ToSlash(name)], err = os.ReadFile(path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	r.files[repositoryPath+"/refs/tags/.keep"] = nil
	return r
}

func wanted(name, commit string) provisionerv1.CreateWorker {
	return provisionerv1.CreateWorker{BuildID: 7, Project: "shop", Instance: name, Nonce: "0123456789abcdef",
		Inputs:     map[string]string{"password": "swordfish"},
		Repository: &provisionerv1.Repository{URL: "file://" + repositoryPath, Commit: commit, Branch: "main"}}
}

// aRepositoryIsCloned by the worker, which is created once, lists its address and keeps its secrets.
func aRepositoryIsCloned(t *testing.T, engine *testbed.Engine, commit string) {
	s := newSite(t, engine, "cloned", 5103, "", greeter)
	request := wanted("cloned", commit)
	first, err := s.client.Create(t.Context(), request)
	if err != nil || !first.New {
		t.Fatalf("%+v, %v", first, err)
	}
	if again, err := s.client.Create(t.Context(), request); err != nil || again.New || again.Worker.WorkerID != first.Worker.WorkerID {
		t.Errorf("again: %+v, %v", again, err)
	}
	other := request
	other.Environment = "prod"
	if _, err := s.client.Create(t.Context(), other); !fault.Is(err, fault.Conflict) {
		t.Errorf("another request: %v", err)
	}
	found, err := engine.Client.ContainerInspect(t.Context(), first.Worker.WorkerID, client.ContainerInspectOptions{})
	if err != nil {
		t.Fatal(err)
	}
	shown, err := json.Marshal(found)
	if err != nil || bytes.Contains(shown, []byte("swordfish")) || bytes.Contains(shown, []byte("k1.")) {
		t.Errorf("the container shows a secret: %v\n%s", err, shown)
	}
	worker := provisionerv1.Worker{}
	await(t, "the worker runs", func() (ok bool) { worker, ok = s.only(7, "Running"); return ok })
	outside := &http.Client{Transport: &http.Transport{DialContext: engine.Dial}}
	await(t, "the build has ended", func() bool {
		answer, err := outside.Get(worker.Address + "/metrics")
		if err != nil {
			return false
		}
		defer answer.Body.Close()
		text, _ := io.ReadAll(answer.Body)
		return strings.Contains(string(text), `status="Completed"`)
	})
	for range 2 {
		if err := s.client.Delete(t.Context(), worker.WorkerID, false); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.client.Create(t.Context(), request); !fault.Is(err, fault.Conflict) {
		t.Errorf("after the deletion: %v", err)
	}
	await(t, "it ends after its grace", func() bool { return len(s.listed()) == 0 })
	if !s.exists(worker.WorkerID) {
		t.Error("results that no reader has acknowledged are gone")
	}
	if err := s.client.Delete(t.Context(), "0123456789ab", true); err != nil {
		t.Errorf("a worker that does not exist: %v", err)
	}
	if _, err := engine.Client.ContainerRemove(context.WithoutCancel(t.Context()), worker.WorkerID,
		client.ContainerRemoveOptions{Force: true, RemoveVolumes: true}); err != nil {
		t.Error(err)
	}
}

func (s *site) listed() []provisionerv1.Worker {
	s.t.Helper()
	list, err := s.client.List(context.WithoutCancel(s.t.Context()), provisionerv1.Filter{BuildID: 7})
	if err != nil {
		s.t.Fatal(err)
	}
	return list.Workers
}

// outOfMemory: a worker that may use almost none is killed, and the list says why.
func outOfMemory(t *testing.T, engine *testbed.Engine, commit string) {
	s := newSite(t, engine, "small", 5104, ", memory: 6MiB", greeter)
	if _, err := s.client.Create(t.Context(), wanted("small", commit)); err != nil {
		t.Fatal(err)
	}
	reason := ""
	await(t, "the worker has ended", func() bool {
		found, ok := s.only(7, "Ended")
		reason = found.Reason
		return ok
	})
	// The Engine names the limit only if it sees the event of the kill before the end of the container.
	if !strings.Contains(reason, "needed more memory than it may use (6291456 bytes") {
		t.Error(reason)
	}
}
