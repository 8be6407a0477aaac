//go:build services

package builds_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/waybill-dev/waybill/internal/build"
)

//go:embed testdata/server.yaml
var serverManifest string

// clusterImage is the image of the manifests.
const clusterImage = "registry.example.org/waybill:1"

const clusterBuild = `
test:
  unit:
    artifacts: [out/report.txt]
    container: {image: IMAGE, cmds: [set -e, mkdir out, cat text > out/report.txt, cat text]}
  large:
    container: {image: IMAGE, cmds: ['i=0; while [ $i -lt 20000 ]; do echo "line $i of the log"; i=$((i+1)); done']}
package:
  report:
    needs: [test/unit]
    container: {image: IMAGE, cmds: [cat out/report.txt, 'SCRIPT']}
`

// testInTheCluster: provisioner, server, aggregator, worker and steps are pods, with exactly the rights of the manifests.
func testInTheCluster(t *testing.T, w *world) {
	w.cluster.ImportWorkers(t, clusterImage, w.program, nil)
	namespace := w.cluster.Namespace(t)
	script, let := w.waiting(t)
	t.Cleanup(func() { w.showLogs(t, namespace) })
	collector, traced := w.collect(t, "attempt package/report", "Bearer of the test")
	server := w.deploy(t, namespace, collector, w.serveRepository(t, map[string]string{
		".wharf-ci.yml": strings.NewReplacer("IMAGE", w.cluster.Registry(t, "", ""), "SCRIPT", script).Replace(clusterBuild),
		"text":          "of the repository\n",
	}))
	token := w.inPod(t, namespace, "waybill-server", "server", "sh", "-c", "cat /mnt/home/token")
	ask := func(arguments ...string) (string, error) {
		argv := append(append([]string{w.program}, arguments...), "--server", server)
		return w.try(t, []string{"WAYBILL_TOKEN=" + strings.TrimSpace(token)}, w.cluster.Inside(argv...))
	}
	followed := make(chan error, 1)
	var printed string
	go func() {
		var err error
		printed, err = ask("build", "run", "shop", "--follow")
		followed <- err
	}()
	r := &run{t: t, world: w, namespace: namespace}
	worker := r.awaitPod(func(pod *corev1.Pod) bool { return strings.HasPrefix(pod.Name, "waybill-worker-") && works(pod) })
	w.wantConfined(t, worker)
	step := r.awaitPod(func(pod *corev1.Pod) bool {
		return strings.HasPrefix(pod.Name, "wharf-build-container-report-") && runs(pod)
	})
	if step.OwnerReferences[0].UID != worker.UID {
		t.Errorf("the owner of the step's pod is %+v", step.OwnerReferences)
	}
	let()
	if err := <-followed; err != nil || !strings.Contains(printed, "Completed") || !strings.Contains(printed, "line 19999 of the log") {
		t.Errorf("the follower: %v\n%s", err, printed)
	}
	for step, want := range map[string]string{"test/unit": "of the repository\n", "test/large": longLog(),
		"package/report": "of the repository\nbegun\nended\n"} {
		if got, err := ask("build", "log", "1", step, "--raw"); err != nil || got != want {
			t.Errorf("the log of %s has %d bytes, want %d: %v, %.200s", step, len(got), len(want), err, got)
		}
	}
	(&site{t: t, world: w, namespace: namespace}).awaitNone()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	select {
	case <-traced:
	case <-ctx.Done():
		t.Error("the worker has sent no spans")
	}
}

// collect serves beside the node what takes spans, and returns its address. The channel is closed once a span of that
// name came with that authorization.
func (w *world) collect(t *testing.T, span, authorization string) (address string, came <-chan struct{}) {
	t.Helper()
	done := make(chan struct{})
	var once sync.Once
	listener := w.cluster.Listen(t)
	server := &http.Server{ReadHeaderTimeout: limit, Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(nil, r.Body, 16<<20))
		if err == nil && bytes.Contains(body, []byte(span)) && r.Header.Get("Authorization") == authorization {
			once.Do(func() { close(done) })
		}
	})}
	go func() { _ = server.Serve(listener) }() // it runs until it is closed
	t.Cleanup(func() { _ = server.Close() })
	return "http://" + listener.Addr().String(), done
}

// deploy applies the manifests of rights and of the provisioner, which has a collector, and a server's, and returns the server's address.
func (w *world) deploy(t *testing.T, namespace, collector, repository string) (server string) {
	t.Helper()
	const token = "a token of the test"
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "waybill-builder"}, StringData: map[string]string{
		"builder.key": build.BuilderKeys{{Number: 1, Secret: []byte(strings.Repeat("k", build.BuilderSecretSize))}}.Format(), "token": token,
	}}
	if _, err := w.client.CoreV1().Secrets(namespace).Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"rbac.yaml", "deploy.yaml"} {
		text, err := os.ReadFile(filepath.Join("..", "..", "..", "config", "builder", name))
		if err != nil {
			t.Fatal(err)
		}
		w.apply(t, namespace, strings.NewReplacer(
			strings.Repeat("0", 64), fmt.Sprintf("%x", sha256.Sum256([]byte(token))),
			`{url: "s3://waybill/blobs?region=eu-north-1"}`, `{url: "file:/mnt/home/blobs"}`,
			"kubernetes: {image:", "kubernetes: {imagePullPolicy: IfNotPresent, image:",
			"          ports:\n",
			fmt.Sprintf("            - {name: OTEL_EXPORTER_OTLP_ENDPOINT, value: %q}\n"+
				"            - {name: OTEL_EXPORTER_OTLP_HEADERS, value: Authorization=Bearer%%20of%%20the%%20test}\n          ports:\n", collector),
		).Replace(string(text)))
	}
	service, err := w.client.CoreV1().Services(namespace).Get(t.Context(), "waybill-provisioner", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w.apply(t, namespace, strings.NewReplacer("PROVISIONER", service.Spec.ClusterIP, "REPOSITORY", repository).Replace(serverManifest))
	r := &run{t: t, world: w, namespace: namespace}
	ready := func(prefix string) *corev1.Pod {
		return r.awaitPod(func(pod *corev1.Pod) bool {
			return strings.HasPrefix(pod.Name, prefix) && len(pod.Status.ContainerStatuses) > 0 && pod.Status.ContainerStatuses[0].Ready
		})
	}
	ready("waybill-provisioner-")
	return "http://" + net.JoinHostPort(ready("waybill-server").Status.PodIP, "7070")
}

// showLogs shows what the pods of a test that failed have printed.
func (w *world) showLogs(t *testing.T, namespace string) {
	t.Helper()
	if !t.Failed() {
		return
	}
	ctx := context.WithoutCancel(t.Context())
	pods, err := w.client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Error(err)
		return
	}
	for _, pod := range pods.Items {
		last := int64(100)
		log, err := w.client.CoreV1().Pods(namespace).
			GetLogs(pod.Name, &corev1.PodLogOptions{TailLines: &last, Container: pod.Spec.Containers[0].Name}).DoRaw(ctx)
		t.Logf("pod %s is %s, %v, and printed\n%s", pod.Name, pod.Status.Phase, err, log)
	}
}

// apply applies manifests to a namespace.
func (w *world) apply(t *testing.T, namespace, text string) {
	t.Helper()
	w.cluster.Apply(t, strings.NewReplacer("\nmetadata: {", "\nmetadata: {namespace: "+namespace+", ",
		"\nmetadata:\n  name", "\nmetadata:\n  namespace: "+namespace+"\n  name").Replace(text))
}

// wantConfined checks what a worker's container may do, by trying it.
func (w *world) wantConfined(t *testing.T, worker *corev1.Pod) {
	t.Helper()
	const try = `id -u; id -g; grep -e CapEff -e NoNewPrivs -e Seccomp: /proc/self/status | tr -d '\t'; touch /file 2>&1; touch /mnt/work/file && echo written; ` +
		`cat /var/run/secrets/kubernetes.io/serviceaccount/namespace; echo`
	got := w.inPod(t, worker.Namespace, worker.Name, "worker", "sh", "-c", try)
	want := "65532\n65532\nCapEff:0000000000000000\nNoNewPrivs:1\nSeccomp:2\n" +
		"touch: /file: Read-only file system\nwritten\n" + worker.Namespace + "\n"
	if got != want {
		t.Errorf("in the worker's container: %q, want %q", got, want)
	}
}

// inPod runs a program in a container of a pod, as the container's user with its rights, and returns the output.
func (w *world) inPod(t *testing.T, namespace, pod, container string, argv ...string) string {
	t.Helper()
	found, err := w.client.CoreV1().Pods(namespace).Get(t.Context(), pod, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, status := range found.Status.ContainerStatuses {
		if status.Name == container {
			id := strings.TrimPrefix(status.ContainerID, "containerd://")
			return w.output(t, w.cluster.OnNode(append([]string{"ctr", "-n", "k8s.io", "tasks", "exec", "--exec-id", "test", id}, argv...)...)...)
		}
	}
	t.Fatalf("pod %s has no container %s", pod, container)
	return ""
}

func (w *world) output(t testing.TB, argv ...string) string {
	t.Helper()
	out, err := w.try(t, nil, argv)
	if err != nil {
		t.Fatalf("%q: %v\n%s", argv, err, out)
	}
	return out
}

// try runs a program, and returns the output.
func (w *world) try(t testing.TB, env, argv []string) (string, error) {
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	c := exec.CommandContext(ctx, argv[0], argv[1:]...)
	c.Dir = t.TempDir()
	c.Env = append(append(os.Environ(), "HOME="+c.Dir), env...)
	out, err := c.CombinedOutput()
	return string(out), err
}

// serveRepository serves a repository with one commit beside the node, and returns its URL.
func (w *world) serveRepository(t *testing.T, files map[string]string) string {
	t.Helper()
	base := t.TempDir()
	dir := filepath.Join(base, "shop")
	for name, content := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, arguments := range [][]string{{"init", "-q", "-b", "main"}, {"add", "."},
		{"-c", "user.name=Ana", "-c", "user.email=a@example.net", "commit", "-q", "-m", "first"}} {
		w.output(t, append([]string{"git", "-C", dir}, arguments...)...)
	}
	listener := w.cluster.Listen(t)
	port := listener.Addr().(*net.TCPAddr).Port
	host := listener.Addr().(*net.TCPAddr).IP.String()
	if err := listener.Close(); err != nil { // it is free now
		t.Fatal(err)
	}
	argv := w.cluster.Inside("git", "daemon", "--export-all", "--reuseaddr", "--base-path="+base, "--listen="+host,
		fmt.Sprintf("--port=%d", port))
	c := exec.Command(argv[0], argv[1:]...)
	c.Env = append(os.Environ(), "HOME="+base)
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // git is the parent of what serves
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL)
		_ = c.Wait() // killed
	})
	address := net.JoinHostPort(host, fmt.Sprint(port))
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for {
		connection, err := w.cluster.Dial(t.Context(), "tcp", address)
		if err == nil {
			connection.Close()
			return "git://" + address + "/shop"
		}
		select {
		case <-again.C:
		case <-t.Context().Done():
			t.Fatal(err)
		}
	}
}
