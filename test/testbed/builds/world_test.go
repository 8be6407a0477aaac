//go:build services

package builds_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	watchtools "k8s.io/client-go/tools/watch"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/childtest"
	"github.com/waybill-dev/waybill/test/testbed"
)

// limit bounds one build of a test; it takes a few seconds.
const limit = 5 * time.Minute

// world is a cluster with a node, and this program.
type world struct {
	cluster *testbed.Cluster
	kubelet *testbed.Kubelet // nil: the node is a real one
	client  kubernetes.Interface
	program string
	flags   []string // flags of every build
}

// newWorld makes a cluster whose node is the testbed's own.
func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{cluster: testbed.Kubernetes(t)}
	w.prepare(t)
	w.kubelet = w.cluster.Kubelet(t, w.program)
	return w
}

// prepare finds or builds the program and connects to the cluster.
func (w *world) prepare(t testing.TB) {
	t.Helper()
	var err error
	if w.program, err = childtest.Program(t.Context(), "../../..", t.TempDir()); err != nil {
		t.Fatal(err)
	}
	if w.client, err = kubernetes.NewForConfig(w.cluster.Config); err != nil {
		t.Fatal(err)
	}
}

// run is one build.
type run struct {
	t         *testing.T
	world     *world
	namespace string
	results   string
	command   *exec.Cmd
	out       bytes.Buffer
	ended     chan struct{}
}

// start starts a build of a folder with these files.
func (w *world) start(t *testing.T, files map[string]string, flags ...string) *run {
	t.Helper()
	return w.startAs(t, w.cluster.Kubeconfig, w.cluster.Namespace(t), files, flags...)
}

func (w *world) startAs(t *testing.T, kubeconfig, namespace string, files map[string]string, flags ...string) *run {
	t.Helper()
	r := &run{t: t, world: w, namespace: namespace, results: filepath.Join(t.TempDir(), "results"), ended: make(chan struct{})}
	dir := t.TempDir()
	for name, content := range files {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o755)); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), limit)
	arguments := append([]string{"run", "--runner", "kubernetes", "--kubeconfig", kubeconfig, "--namespace", namespace,
		"--shim-image", "waybill", "--results-dir", r.results, "--build-id", "7", "--grace", "20s", "--cache-dir",
		filepath.Join(t.TempDir(), "cache")}, flags...)
	argv := w.cluster.Inside(append(append([]string{w.program}, arguments...), w.flags...)...)
	r.command = exec.CommandContext(ctx, argv[0], argv[1:]...)
	r.command.Dir, r.command.Stdout, r.command.Stderr = dir, &r.out, &r.out
	r.command.Env = append(os.Environ(), "HOME="+t.TempDir())
	if err := r.command.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(r.ended)
		_ = r.command.Wait() // the state says it
	}()
	t.Cleanup(func() {
		cancel()
		<-r.ended
		if t.Failed() {
			t.Logf("the build printed:\n%s", r.out.String())
		}
	})
	return r
}

// end waits for the build, whose exit status must be this one, and checks that it left no pod and no process.
func (r *run) end(status int) {
	r.t.Helper()
	<-r.ended
	if got := r.command.ProcessState.ExitCode(); got != status {
		r.t.Fatalf("exit status %d, want %d", got, status)
	}
	pods, err := r.world.client.CoreV1().Pods(r.namespace).List(r.t.Context(), metav1.ListOptions{})
	if err != nil || len(pods.Items) > 0 {
		r.t.Errorf("%d pods are left, %v", len(pods.Items), err)
	}
	secrets, err := r.world.client.CoreV1().Secrets(r.namespace).List(r.t.Context(), metav1.ListOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
	for _, s := range secrets.Items {
		if len(s.OwnerReferences) > 0 && s.OwnerReferences[0].Name != s.Name {
			r.t.Errorf("the Secret %s belongs to %s", s.Name, s.OwnerReferences[0].Name)
		}
		if strings.HasPrefix(s.Name, "wharf-build-") {
			r.t.Errorf("the Secret %s is left", s.Name)
		}
	}
}

// fails waits for the end of a build whose only step runs and then fails, for a reason that begins so.
func (r *run) fails(reason string) {
	r.t.Helper()
	r.end(1)
	if got, why := r.statuses("1"); !slices.Equal(got, []string{"Scheduling", "Initializing", "Running", "Failed"}) ||
		!strings.HasPrefix(why, reason) {
		r.t.Errorf("%q, %q", got, why)
	}
}

// log returns the output of a step and what was noted of it, without times and marks.
func (r *run) log(step string) string {
	r.t.Helper()
	content, err := os.ReadFile(filepath.Join(r.results, "steps", step, "output.log"))
	if err != nil {
		r.t.Fatal(err)
	}
	var out strings.Builder
	for line := range bytes.Lines(content) {
		e := build.ParseEntry(line)
		out.Write(e.Text)
		if !e.Partial {
			out.WriteByte('\n')
		}
	}
	return out.String()
}

// awaitLog waits until the log of a step has a text.
func (r *run) awaitLog(step, text string) {
	r.t.Helper()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for {
		select {
		case <-again.C:
		case <-r.ended:
			r.t.Fatalf("the build ended without %q", text)
		}
		if _, err := os.Stat(filepath.Join(r.results, "steps", step, "output.log")); err == nil && strings.Contains(r.log(step), text) {
			return
		}
	}
}

// interrupt cancels the build, as Ctrl-C does.
func (r *run) interrupt() {
	r.t.Helper()
	if err := r.command.Process.Signal(os.Interrupt); err != nil {
		r.t.Fatal(err)
	}
}

// artifacts lists the artifacts of a step as "kind name".
func (r *run) artifacts(step string) (all []string) {
	r.t.Helper()
	content, err := os.ReadFile(filepath.Join(r.results, "steps", step, "artifacts.json"))
	if err != nil {
		r.t.Fatal(err)
	}
	var file struct{ Artifacts []struct{ Kind, Name string } }
	if err := json.Unmarshal(content, &file); err != nil {
		r.t.Fatal(err)
	}
	for _, a := range file.Artifacts {
		all = append(all, a.Kind+" "+a.Name)
	}
	return all
}

// applyRights applies the manifests of rights to a namespace.
func (w *world) applyRights(t testing.TB, namespace string) {
	t.Helper()
	manifests, err := os.ReadFile(filepath.Join("..", "..", "..", "config", "builder", "rbac.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	w.cluster.Apply(t, strings.ReplaceAll(string(manifests), "metadata: {", "metadata: {namespace: "+namespace+", "))
}

// account applies the manifests of rights to a namespace, and returns the kubeconfig of an account that has one of its roles.
func (w *world) account(t *testing.T, namespace, role string) string {
	t.Helper()
	w.applyRights(t, namespace)
	accounts := w.client.CoreV1().ServiceAccounts(namespace)
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}
	account, err := accounts.Create(t.Context(), account, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	binding := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: account.Name}, RoleRef: rbacv1.RoleRef{Kind: "Role", Name: role},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Name: account.Name, Namespace: namespace}}}
	if _, err := w.client.RbacV1().RoleBindings(namespace).Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	token, err := accounts.CreateToken(t.Context(), account.Name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.LoadFromFile(w.cluster.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	for _, user := range config.AuthInfos {
		user.Token = token.Status.Token
	}
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// waiting returns a script that prints that it has begun and waits until the test lets it continue.
func (w *world) waiting(t *testing.T) (script string, let func()) {
	t.Helper()
	if w.kubelet == nil {
		return w.waitingForServer(t)
	}
	file := filepath.Join(t.TempDir(), "let")
	return "echo begun; while ! test -e " + file + "; do sleep 0.1; done; echo ended", func() {
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// waitingForServer asks a server beside the node, since a container has no file of this computer.
func (w *world) waitingForServer(t *testing.T) (script string, let func()) {
	t.Helper()
	var open atomic.Bool
	listener := w.cluster.Listen(t)
	server := &http.Server{ReadHeaderTimeout: limit, Handler: http.HandlerFunc(func(answer http.ResponseWriter, _ *http.Request) {
		if !open.Load() {
			http.Error(answer, "not yet", http.StatusServiceUnavailable)
		}
	})}
	go func() { _ = server.Serve(listener) }() // it runs until it is closed
	t.Cleanup(func() { _ = server.Close() })
	return "echo begun; until wget -q -O /dev/null http://" + listener.Addr().String() +
		"/ 2> /dev/null; do sleep 0.1; done; echo ended", func() { open.Store(true) }
}

// statuses returns every status of a step in order.
func (r *run) statuses(step string) (all []string, reason string) {
	r.t.Helper()
	content, err := os.ReadFile(filepath.Join(r.results, "steps", step, "status.json"))
	if err != nil {
		r.t.Fatal(err)
	}
	var file struct {
		StatusUpdates []struct{ Status, Reason string }
	}
	if err := json.Unmarshal(content, &file); err != nil {
		r.t.Fatal(err)
	}
	for _, u := range file.StatusUpdates {
		all, reason = append(all, u.Status), u.Reason
	}
	return all, reason
}

// awaitPod waits for a pod of the build.
func (r *run) awaitPod(done func(*corev1.Pod) bool) *corev1.Pod {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), limit)
	defer cancel()
	pods := r.world.client.CoreV1().Pods(r.namespace)
	event, err := watchtools.UntilWithSync(ctx, &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return pods.List(ctx, o) },
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return pods.Watch(ctx, o)
		},
	}, &corev1.Pod{}, nil, func(event watch.Event) (bool, error) {
		pod, ok := event.Object.(*corev1.Pod)
		return ok && done(pod), nil
	})
	if err != nil {
		r.t.Fatalf("no such pod: %v", err)
	}
	return event.Object.(*corev1.Pod)
}

// runs reports whether the step of a pod runs.
func runs(pod *corev1.Pod) bool {
	for _, c := range pod.Status.ContainerStatuses {
		if c.Name == "step" && c.State.Running != nil {
			return true
		}
	}
	return false
}
