//go:build services

package builds_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/waybill-dev/waybill/internal/config"
	"github.com/waybill-dev/waybill/test/testbed"
)

// site is a project whose builds have workers in a namespace of the cluster. The provisioner and the server are
// programs of their own, outside of the cluster, with exactly the rights of the manifests.
type site struct {
	t           *testing.T
	world       *world
	namespace   string
	project     string // its folder
	provisioner string // its address
	token       string // token of the provisioner
	wait        string // path of a file: while it is there, builds of the project wait
	log         *printed
	seen        map[types.UID]bool
}

// printed is a program's output so far.
type printed struct {
	mutex   sync.Mutex
	text    bytes.Buffer
	changed chan struct{}
}

func (p *printed) Write(text []byte) (int, error) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	select {
	case p.changed <- struct{}{}:
	default:
	}
	return p.text.Write(text)
}

func (p *printed) String() string {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.text.String()
}

// await waits for what matches, and returns its first group.
func (p *printed) await(t *testing.T, pattern string) string {
	t.Helper()
	find := regexp.MustCompile(pattern)
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	for {
		if found := find.FindStringSubmatch(p.String()); found != nil {
			return found[len(found)-1]
		}
		select {
		case <-p.changed:
		case <-ctx.Done():
			t.Fatalf("no %q in\n%s", pattern, p.String())
		}
	}
}

const shopPipeline = `
pipeline: greeter
stages:
- name: build
  build: .wharf-ci.yml
  retry: {backoff: {retries: RETRIES, initial: 10ms}}
  artifacts: {any: out/greeter.tar.gz}
`

const shopBuild = `
package:
  greeter:
    artifacts: [out/greeter.tar.gz]
    container:
      image: busybox
      cmds: [set -e, mkdir -p out, tar -czf out/greeter.tar.gz .wharf-ci.yml, echo packed, 'while [ -f WAIT ]; do sleep 0.1; done', echo ended]
`

// newSite starts the programs. Settings of the provisioner are lines of YAML.
func newSite(t *testing.T, w *world, image string, retries int, settings string) *site {
	t.Helper()
	s := &site{t: t, world: w, namespace: w.cluster.Namespace(t), project: filepath.Join(t.TempDir(), "greeter"),
		token: "a token of the test", wait: filepath.Join(t.TempDir(), "wait"),
		log: &printed{changed: make(chan struct{}, 1)}, seen: map[types.UID]bool{}}
	home := filepath.Join(s.project, ".waybill")
	own := filepath.Join(t.TempDir(), "provisioner")
	sum := sha256.Sum256([]byte(s.token))
	token := filepath.Join(t.TempDir(), "token")
	for path, text := range map[string]string{
		filepath.Join(s.project, "waybill.yaml"):  strings.ReplaceAll(shopPipeline, "RETRIES", fmt.Sprint(retries)),
		filepath.Join(s.project, ".wharf-ci.yml"): strings.ReplaceAll(shopBuild, "WAIT", s.wait),
		token: s.token,
		filepath.Join(own, "server.yaml"): fmt.Sprintf(
			"blob: {url: \"file:%s/blobs\"}\nbuilder:\n  provisioner:\n    listen: 127.0.0.1:0\n    tokens: [%s]\n"+
				"    kubernetes: {kubeconfig: %s, namespace: %s, image: %s}\n%s",
			home, hex.EncodeToString(sum[:]), w.account(t, s.namespace, "waybill-provisioner"), s.namespace, image, settings),
	} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	s.start(own, "serve", "provisioner", "--home", own)
	s.provisioner = s.log.await(t, `requests for workers are served.*?(http://127.0.0.1:[0-9]+)`)
	server := fmt.Sprintf("builder:\n  key: %s/builder.key\n  provisioner:\n    url: %q\n    tokenFile: %s\n"+
		"    kubernetes: {kubeconfig: %s}\n%s"+
		"builds: {projects: {shop: {repository: \"file://%s\", subdirectory: resumed}}}\n", own, s.provisioner, token,
		w.account(t, s.namespace, "waybill-aggregator"), settings, s.project)
	if err := errors.Join(os.MkdirAll(home, 0o700), os.WriteFile(filepath.Join(home, "server.yaml"), []byte(server), 0o600)); err != nil {
		t.Fatal(err)
	}
	s.commit("first")
	s.start(s.project, "serve", "api", "conductor", "deployer", "aggregator", "watchdog", "--listen", "127.0.0.1:0")
	s.log.await(t, `"(?:url|address)":"(http://[^"]+)"`)
	return s
}

// start runs this program until the test ends.
func (s *site) start(dir string, arguments ...string) {
	s.t.Helper()
	c := exec.Command(s.world.program, arguments...)
	c.Dir, c.Stdout, c.Stderr = dir, s.log, s.log
	c.Env = append(os.Environ(), "HOME="+s.t.TempDir(), "WAYBILL_HOME="+filepath.Join(s.project, ".waybill"))
	if err := c.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		_ = c.Process.Signal(syscall.SIGTERM) // it may have ended
		_ = c.Wait()
		if s.t.Failed() && arguments[1] != "provisioner" {
			s.t.Logf("the programs printed:\n%s", s.log.String())
		}
	})
}

// command runs a program in the project's folder, and returns the output.
func (s *site) command(name string, arguments ...string) (string, error) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), limit)
	defer cancel()
	c := exec.CommandContext(ctx, name, arguments...)
	c.Dir = s.project
	c.Env = append(os.Environ(), "HOME="+s.t.TempDir(), "WAYBILL_HOME="+filepath.Join(s.project, ".waybill"),
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b")
	out, err := c.CombinedOutput()
	return string(out), err
}

func (s *site) must(name string, arguments ...string) string {
	s.t.Helper()
	out, err := s.command(name, arguments...)
	if err != nil {
		s.t.Fatalf("%s %q: %v\n%s", name, arguments, err, out)
	}
	return out
}

// commit makes a revision of the project.
func (s *site) commit(text string) (commit string) {
	s.t.Helper()
	if err := os.WriteFile(filepath.Join(s.project, "text"), []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
	s.must("git", "init", "--quiet")
	s.must("git", "add", "waybill.yaml", ".wharf-ci.yml", "text")
	s.must("git", "commit", "--quiet", "-m", text)
	return strings.TrimSpace(s.must("git", "rev-parse", "HEAD"))
}

// server runs a command that asks the server.
func (s *site) server(arguments ...string) string {
	s.t.Helper()
	return s.must(s.world.program, append(arguments, "--server", s.address())...)
}

// address waits until the server has an address, and returns it.
func (s *site) address() string {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), limit)
	defer cancel()
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for {
		address, err := os.ReadFile(filepath.Join(s.project, ".waybill", "address"))
		if err == nil {
			return strings.TrimSpace(string(address))
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			s.t.Fatal(err)
		}
	}
}

// awaitWorker waits for a worker's pod that was not seen before, in a state.
func (s *site) awaitWorker(done func(*corev1.Pod) bool) *corev1.Pod {
	s.t.Helper()
	pod := (&run{t: s.t, world: s.world, namespace: s.namespace}).awaitPod(func(pod *corev1.Pod) bool {
		return strings.HasPrefix(pod.Name, "waybill-worker-") && !s.seen[pod.UID] && done(pod)
	})
	s.seen[pod.UID] = true
	return pod
}

// awaitStep waits until a step of a worker runs.
func (s *site) awaitStep(worker *corev1.Pod) *corev1.Pod {
	s.t.Helper()
	return (&run{t: s.t, world: s.world, namespace: s.namespace}).awaitPod(func(pod *corev1.Pod) bool {
		return len(pod.OwnerReferences) == 1 && pod.OwnerReferences[0].UID == worker.UID && runs(pod)
	})
}

// awaitNone waits until the namespace has no pod and no Secret of Waybill's.
func (s *site) awaitNone() {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), limit)
	defer cancel()
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for {
		of := metav1.ListOptions{LabelSelector: "app.kubernetes.io/managed-by=waybill"}
		pods, err := s.world.client.CoreV1().Pods(s.namespace).List(ctx, of)
		secrets, secretsErr := s.world.client.CoreV1().Secrets(s.namespace).List(ctx, of)
		if errors.Join(err, secretsErr) == nil && len(pods.Items) == 0 && len(secrets.Items) == 0 {
			return
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			s.t.Fatalf("pods or Secrets are left: %+v, %+v, %v", pods, secrets, errors.Join(err, secretsErr))
		}
	}
}

// hold has builds wait until it is called again with false.
func (s *site) hold(on bool) {
	s.t.Helper()
	err := os.Remove(s.wait)
	if on {
		err = os.WriteFile(s.wait, nil, 0o600)
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// ask sends a request to the provisioner.
func (s *site) ask(method, path, body string) (status int, answer string) {
	s.t.Helper()
	request, err := http.NewRequestWithContext(s.t.Context(), method, s.provisioner+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+s.token)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		s.t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

func works(pod *corev1.Pod) bool {
	return len(pod.Status.ContainerStatuses) > 0 && pod.Status.ContainerStatuses[0].State.Running != nil
}

func TestWorkersOnKubernetes(t *testing.T) {
	w := newWorld(t)
	s := newSite(t, w, "waybill", 1, "")
	for _, test := range []struct {
		name string
		run  func(*testing.T, *site)
	}{
		{"deployment", testDeployment}, {"killed", testWorkerKilled}, {"evicted", testWorkerEvicted},
		{"requests", testRequests}, {"repository", testRepository},
		{"repository without the commit", testMissingCommit}, {"resumed", testResumed},
	} {
		t.Run(test.name, func(t *testing.T) {
			of := s.of(t)
			test.run(t, of)
		})
	}
	t.Run("deleted", func(t *testing.T) { testWorkerDeleted(t, newSite(t, w, "waybill", 0, "")) })
	t.Run("missing image", func(t *testing.T) {
		testWorkerWithoutImage(t, newSite(t, w, "missing/waybill", 0, "    startLimit: 1s\n"))
	})
	if n := w.kubelet.Processes(); n > 0 {
		t.Errorf("%d containers still run", n)
	}
}

// TestTheManifestsAreValid: the API server takes the example of a provisioner in the cluster, and its pod.
func TestTheManifestsAreValid(t *testing.T) {
	cluster := testbed.Kubernetes(t)
	client, err := kubernetes.NewForConfig(cluster.Config)
	if err != nil {
		t.Fatal(err)
	}
	namespace := cluster.Namespace(t)
	for _, name := range []string{"rbac.yaml", "deploy.yaml"} {
		text, err := os.ReadFile(filepath.Join("..", "..", "..", "config", "builder", name))
		if err != nil {
			t.Fatal(err)
		}
		cluster.Apply(t, strings.ReplaceAll(string(text), "\nmetadata: {", "\nmetadata: {namespace: "+namespace+", "))
	}
	d, err := client.AppsV1().Deployments(namespace).Get(t.Context(), "waybill-provisioner", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "provisioner", Labels: d.Spec.Template.Labels}, Spec: d.Spec.Template.Spec}
	if _, err := client.CoreV1().Pods(namespace).
		Create(t.Context(), pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}); err != nil {
		t.Error(err)
	}
	policies, err := client.NetworkingV1().NetworkPolicies(namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(policies.Items) != 2 {
		t.Errorf("%d network policies, %v", len(policies.Items), err)
	}
	files, err := config.Read("server.yaml", []byte(configOf(t, client, namespace)))
	if err != nil || files.Builder.Provisioner.Kubernetes == nil ||
		files.Builder.Provisioner.Kubernetes.Image != pod.Spec.Containers[0].Image {
		t.Errorf("the settings are %+v, %v", files.Builder, err)
	}
}

// configOf returns the settings of the example.
func configOf(t *testing.T, client kubernetes.Interface, namespace string) string {
	t.Helper()
	m, err := client.CoreV1().ConfigMaps(namespace).Get(t.Context(), "waybill-provisioner", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return m.Data["server.yaml"]
}

// of returns the site for a part of the test.
func (s *site) of(t *testing.T) *site {
	other := *s
	other.t = t
	return &other
}

// testDeployment: provisioner, worker's pod, pods of steps, aggregator, database. The snapshot comes from the provisioner.
func testDeployment(t *testing.T, s *site) {
	s.hold(true)
	s.must(s.world.program, "ship", "--detach")
	worker := s.awaitWorker(works)
	step := s.awaitStep(worker)
	if text := worker.String(); strings.Contains(text, "k1.") {
		t.Errorf("the pod has the token: %s", text)
	}
	if step.OwnerReferences[0].Name != worker.Name || step.OwnerReferences[0].Controller == nil || !*step.OwnerReferences[0].Controller {
		t.Errorf("the owner of the step's pod is %+v", step.OwnerReferences)
	}
	if status, answer := s.ask("GET", "/api/worker", ""); status != 200 ||
		!strings.Contains(answer, `"status":"Running"`) || !strings.Contains(answer, `"complete":true`) {
		t.Errorf("the list is %d, %s", status, answer)
	}
	s.hold(false)
	if out := s.must(s.world.program, "deployment", "watch"); !strings.Contains(out, "finished: ") {
		t.Error(out)
	}
	if got := s.server("build", "log", "1", "package/greeter"); !strings.Contains(got, "packed") || !strings.Contains(got, "ended") {
		t.Errorf("the log is %q", got)
	}
	s.awaitNone()
}

// testWorkerKilled: the build is Lost, with the output of the worker, and made again.
func testWorkerKilled(t *testing.T, s *site) {
	s.lose(func(worker *corev1.Pod) { s.world.kubelet.KillContainer(t, worker.Name, "worker") },
		"the container worker ended: exit status 137", "runner kubernetes")
}

func testWorkerEvicted(t *testing.T, s *site) {
	s.lose(func(worker *corev1.Pod) { s.world.kubelet.Evict(t, worker.Name) },
		"Evicted: The node was low on resource: ephemeral-storage.", "its last lines")
}

// lose has a build lose its worker.
func (s *site) lose(take func(*corev1.Pod), reasons ...string) {
	s.t.Helper()
	s.hold(true)
	s.commit(s.t.Name())
	s.must(s.world.program, "ship", "--detach")
	worker := s.awaitWorker(works)
	s.awaitStep(worker)
	take(worker)
	again := s.awaitWorker(works)
	s.awaitStep(again)
	s.hold(false)
	if out := s.must(s.world.program, "deployment", "watch"); !strings.Contains(out, "finished: ") {
		s.t.Error(out)
	}
	id := strings.TrimPrefix(worker.Name, "waybill-worker-waybill-")
	got := s.server("build", "show", id, "-o", "json")
	for _, want := range append(reasons, "Lost") {
		if !strings.Contains(got, want) {
			s.t.Errorf("build %s has no %q: %s", id, want, got)
		}
	}
	s.awaitNone()
}

// testWorkerDeleted: the build is canceled, and the database has the end.
func testWorkerDeleted(t *testing.T, s *site) {
	s.hold(true)
	s.must(s.world.program, "ship", "--detach")
	worker := s.awaitWorker(works)
	s.awaitStep(worker)
	if status, answer := s.ask("DELETE", "/api/worker/"+worker.Name, ""); status != 204 {
		t.Fatal(status, answer)
	}
	s.awaitNone()
	s.hold(false)
	if got := s.server("build", "list"); !strings.Contains(got, "Canceled") {
		t.Errorf("the builds are %s", got)
	}
}

// testWorkerWithoutImage: the build fails with what the node says.
func testWorkerWithoutImage(t *testing.T, s *site) {
	out, err := s.command(s.world.program, "ship")
	if err == nil || !strings.Contains(out, "ImagePull: missing/waybill: not found") {
		t.Errorf("%v\n%s", err, out)
	}
	if got := s.server("build", "show", "1", "-o", "json"); !strings.Contains(got, "the worker has not started within 1s") {
		t.Error(got)
	}
	s.awaitNone()
}

func (s *site) request(id int64, repository, commit string) string {
	s.t.Helper()
	body, err := json.Marshal(map[string]any{"buildId": id, "project": "greeter", "instance": "other",
		"nonce": "mYoP3hQWq0JbUuV2", "inputs": map[string]string{},
		"repository": map[string]string{"url": repository, "commit": commit, "branch": "main"}})
	if err != nil {
		s.t.Fatal(err)
	}
	return string(body)
}

// testRequests: a build has one worker.
func testRequests(t *testing.T, s *site) {
	s.hold(true)
	defer s.hold(false)
	commit := strings.TrimSpace(s.must("git", "rev-parse", "HEAD"))
	body := s.request(41, "file://"+s.project, commit)
	for i, want := range []int{201, 200} {
		status, answer := s.ask("POST", "/api/worker", body)
		if status != want || !strings.Contains(answer, `"waybill-worker-other-41"`) {
			t.Fatalf("request %d: %d, %s", i, status, answer)
		}
	}
	if status, answer := s.ask("POST", "/api/worker", strings.Replace(body, "main", "other", 1)); status != 409 {
		t.Errorf("another request: %d, %s", status, answer)
	}
	s.awaitStep(s.awaitWorker(works))
	for range 2 {
		if status, answer := s.ask("DELETE", "/api/worker/waybill-worker-other-41?force=true", ""); status != 204 {
			t.Errorf("delete: %d, %s", status, answer)
		}
	}
	s.awaitNone()
}

// testRepository: a worker builds a commit that it clones, and ends once its results were acknowledged or it is deleted.
func testRepository(t *testing.T, s *site) {
	commit := strings.TrimSpace(s.must("git", "rev-parse", "HEAD"))
	s.commit("later")
	if status, answer := s.ask("POST", "/api/worker", s.request(42, "file://"+s.project, commit)); status != 201 {
		t.Fatal(status, answer)
	}
	s.awaitLog(s.awaitWorker(works), "@ "+commit[:7], "Completed in ")
	s.remove(42)
}

// testMissingCommit: the build fails, and says why.
func testMissingCommit(t *testing.T, s *site) {
	commit := strings.Repeat("ab", 20)
	if status, answer := s.ask("POST", "/api/worker", s.request(43, "file://"+s.project, commit)); status != 201 {
		t.Fatal(status, answer)
	}
	results := s.world.kubelet.Folder(t, s.awaitWorker(works).Name, "/mnt/work/results")
	(&run{t: t, results: results}).awaitLog("0", "fetch commit "+commit)
	s.remove(43)
}

// resumedBuild has a step that leaves an artifact and a line in RUNS, and one that needs the artifact and fails.
const resumedBuild = `make:
  tool: {artifacts: [tool], container: {image: i, cmds: [set -e, echo made >>RUNS, echo echo it was made >tool, chmod +x tool]}}
use:
  it: {needs: [tool], container: {image: i, cmds: [set -e, ./tool, exit 3]}}
`

// testResumed: the worker's pod clones, and is sent what the steps of the earlier build have left.
func testResumed(t *testing.T, s *site) {
	folder, runs := filepath.Join(s.project, "resumed"), filepath.Join(t.TempDir(), "runs")
	if err := errors.Join(os.Mkdir(folder, 0o700),
		os.WriteFile(filepath.Join(folder, ".wharf-ci.yml"), []byte(strings.ReplaceAll(resumedBuild, "RUNS", runs)), 0o600)); err != nil {
		t.Fatal(err)
	}
	s.must("git", "add", "resumed")
	s.commit("resumed")
	of := []string{"--follow", "--server", s.address()}
	first, _ := s.command(s.world.program, append([]string{"build", "run", "shop"}, of...)...)
	number := regexp.MustCompile(`build ([0-9]+): Failed`).FindStringSubmatch(first)
	if number == nil {
		t.Fatal(first)
	}
	second, _ := s.command(s.world.program, append([]string{"build", "rerun", number[1], "--resume"}, of...)...)
	text, err := os.ReadFile(runs)
	if err != nil || string(text) != "made\n" || !strings.Contains(second, "use/it | it was made\n") {
		t.Errorf("the step that completed ran %q, %v:\n%s", text, err, second)
	}
	s.awaitNone()
}

// awaitLog waits until a worker without a reader has printed texts, and returns the output.
func (s *site) awaitLog(worker *corev1.Pod, texts ...string) string {
	s.t.Helper()
	log, err := s.world.client.CoreV1().Pods(s.namespace).
		GetLogs(worker.Name, &corev1.PodLogOptions{Container: "worker", Follow: true}).Stream(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	defer log.Close()
	out := printed{changed: make(chan struct{}, 1)}
	go func() { _, _ = io.Copy(&out, log) }() // await says what is missing
	for _, text := range texts {
		out.await(s.t, regexp.QuoteMeta(text))
	}
	return out.String()
}

// remove has the provisioner remove a worker that no aggregator follows.
func (s *site) remove(id int64) {
	s.t.Helper()
	if status, answer := s.ask("DELETE", fmt.Sprintf("/api/worker/waybill-worker-other-%d?force=true", id), ""); status != 204 {
		s.t.Error(status, answer)
	}
	s.awaitNone()
}
