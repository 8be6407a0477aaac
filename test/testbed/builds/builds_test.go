//go:build services

// Package builds_test runs builds on a real Kubernetes API server. Its node is a real one, or the testbed's own, which
// has the faults that a real one does not have when a test asks.
package builds_test

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/waybill-dev/waybill/test/testbed/agreement"
)

// sixSteps has parallel stages, a step that fails and is repeated, artifacts, a service and test results.
const sixSteps = `
test:
  unit:
    test-results: {junit: ["out/*.xml"]}
    artifacts: [out/report.txt]
    container: {image: "golang", cmds: [set -e, mkdir out, cp junit.xml out/unit.xml, echo fine > out/report.txt, echo unit $WAYBILL_ATTEMPT]}
  vet:
    container: {image: "golang", cmds: [echo vet, echo warning >&2]}
  flaky:
    retry: {attempts: 2, backoff: 1ms}
    container: {image: "golang", cmds: ['echo attempt $WAYBILL_ATTEMPT; test $WAYBILL_ATTEMPT = 2']}
package:
  report:
    needs: [unit]
    artifacts: [{path: "dist/**", name: dist.tgz, archive: true}]
    container: {image: "golang", cmds: [set -e, cat out/report.txt, mkdir dist, cp out/report.txt dist/a, touch dist/b]}
  large:
    container: {image: "golang", cmds: ['i=0; while [ $i -lt 20000 ]; do echo "line $i of the log"; i=$((i+1)); done']}
deploy:
  use:
    needs: [report]
    container: {image: "golang", cmds: [ls dist]}
`

const junit = `<testsuite name="shop" tests="2"><testcase classname="shop" name="A"/><testcase classname="shop" name="B"><failure message="bad"/></testcase></testsuite>`

func TestBuildsOnKubernetes(t *testing.T) {
	w := newWorld(t)
	for name, test := range map[string]func(*testing.T, *world){
		"six steps": testSixSteps, "same results": testSameResults, "missing image": testMissingImage,
		"evicted before it begins": testEvictedBefore, "evicted": testEvicted,
		"evicted and repeated": testRepeated, "out of memory": testOutOfMemory, "port-forward cut": testForwardCut, "canceled": testCanceled,
		"canceled early": testCanceledEarly, "secrets": testSecrets, "secrets of the cluster": testClusterSecrets,
		"rights": testRights, "warning": testWarning, "leftovers": testLeftovers, "slow removal": testSlowRemoval,
	} {
		t.Run(name, func(t *testing.T) { test(t, w) })
	}
	t.Run("API server killed", func(t *testing.T) { testServerKilled(t, w) })
	t.Run("node lost", func(t *testing.T) { testNodeLost(t, w) }) // the last one: the node does not come back
	if n := w.kubelet.Processes(); n > 0 {
		t.Errorf("%d containers still run", n)
	}
}

func testSixSteps(t *testing.T, w *world) {
	r := w.start(t, map[string]string{".wharf-ci.yml": sixSteps, "junit.xml": junit})
	r.wantSixSteps()
}

// testSameResults as those of the other runners.
func testSameResults(t *testing.T, w *world) {
	var listen net.ListenConfig
	listener, err := listen.Listen(t.Context(), "tcp", "127.0.0.1:0") // the node's containers share this computer's ports
	if err != nil {
		t.Fatal(err)
	}
	port := listener.Addr().(*net.TCPAddr).Port
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	r := w.start(t, agreement.Files("golang"), "--environment", "kubernetes", "-i", fmt.Sprintf("port=%d", port))
	r.end(0)
	agreement.Check(t, r.results, true)
	agreement.CheckRaw(t, w.program, r.results)
}

// wantSixSteps checks all that sixSteps leaves.
func (r *run) wantSixSteps() {
	r.t.Helper()
	r.end(0)
	for step, want := range map[string]string{
		"1": "unit 1\n", "2": "vet\n", "3": "attempt 1\nexit status 1; attempt 2 of 2 begins in 1ms\nattempt 2\n",
		"4": "fine\n", "5": longLog(), "6": "a\nb\n",
	} {
		if got := r.log(step); got != want && (step != "2" || got != "warning\nvet\n" && got != "vet\nwarning\n") {
			r.t.Errorf("the log of step %s has %d bytes, want %d: %.200s", step, len(got), len(want), got)
		}
	}
	if got, reason := r.statuses("3"); !slices.Equal(got,
		[]string{"Scheduling", "Initializing", "Running", "Backoff", "Scheduling", "Initializing", "Running", "Completed"}) {
		r.t.Errorf("the repeated step was %q, %s", got, reason)
	}
	var artifacts []string
	for _, step := range []string{"1", "4"} {
		artifacts = append(artifacts, r.artifacts(step)...)
	}
	if want := []string{"junit out/unit.xml", "file out/report.txt", "archive dist.tgz"}; !sameTexts(artifacts, want) {
		r.t.Errorf("artifacts %q, want %q", artifacts, want)
	}
	if !strings.Contains(r.out.String(), "1 of 2 tests failed (out/unit.xml): shop B") {
		r.t.Error("the test results are missing")
	}
}

func sameTexts(a, b []string) bool {
	slices.Sort(a)
	slices.Sort(b)
	return slices.Equal(a, b)
}

func longLog() string {
	var b strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&b, "line %d of the log\n", i)
	}
	return b.String()
}

// oneStep returns a file with one step.
func oneStep(image, script, keys string) map[string]string {
	return map[string]string{".wharf-ci.yml": "stage:\n  step:\n" + keys + "    container: {image: " + image + ", cmds: ['" + script + "']}\n"}
}

func testMissingImage(t *testing.T, w *world) {
	for image, want := range map[string]string{
		"missing/image": "ImagePull: missing/image: not found (for 1s)",
		"Bad/image":     "ImagePull: couldn't parse image name Bad/image",
	} {
		r := w.start(t, oneStep(image, "true", ""), "--pull-deadline", "1s")
		r.end(1)
		if got, reason := r.statuses("1"); !slices.Equal(got, []string{"Scheduling", "Initializing", "Failed"}) || reason != want {
			t.Errorf("%s: %q, %q", image, got, reason)
		}
	}
}

// testWarning: what only an event says of a pod is in the log of its step.
func testWarning(t *testing.T, w *world) {
	r := w.start(t, oneStep("missing/image", "true", ""), "--pull-deadline", "1h")
	pod := r.awaitPod(func(pod *corev1.Pod) bool { return pod.Status.Phase == corev1.PodPending })
	event := &corev1.Event{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-", Namespace: r.namespace}, Type: corev1.EventTypeWarning,
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: r.namespace, Name: pod.Name, UID: pod.UID},
		Reason:         "FailedCreatePodSandBox", Message: "no address left"}
	if _, err := w.client.CoreV1().Events(r.namespace).Create(t.Context(), event, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	r.awaitLog("1", "FailedCreatePodSandBox: no address left\n")
	r.interrupt()
	r.end(130)
}

// testSlowRemoval: a step does not wait until the pod of an earlier one is gone, and the build does.
func testSlowRemoval(t *testing.T, w *world) {
	script, let := w.waiting(t)
	second, letSecond := w.waiting(t)
	r := w.start(t, map[string]string{".wharf-ci.yml": "one:\n  first: {container: {image: golang, cmds: ['" + script +
		"']}}\ntwo:\n  second: {container: {image: golang, cmds: ['" + second + "']}}\n"})
	pods := w.client.CoreV1().Pods(r.namespace)
	hold := func(pod, finalizers string) {
		t.Helper()
		patch := `{"metadata": {"finalizers": ` + finalizers + `}}`
		if _, err := pods.Patch(t.Context(), pod, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	first := r.awaitPod(runs)
	hold(first.Name, `["waybill.dev/test"]`)
	let()
	r.awaitPod(func(pod *corev1.Pod) bool { return pod.Name != first.Name && runs(pod) })
	if _, err := pods.Get(t.Context(), first.Name, metav1.GetOptions{}); err != nil {
		t.Errorf("the first pod: %v", err)
	}
	letSecond()
	r.awaitLog("2", "ended\n")
	hold(first.Name, "null")
	r.end(0)
}

// testLeftovers: a build whose process was killed leaves a pod, which the next build removes once it has ended.
func testLeftovers(t *testing.T, w *world) {
	namespace := w.cluster.Namespace(t)
	script, _ := w.waiting(t)
	r := w.startAs(t, w.cluster.Kubeconfig, namespace, oneStep("golang", script, ""))
	pod := r.awaitPod(runs)
	r.awaitLog("1", "begun\n")
	if err := r.command.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-r.ended
	w.kubelet.Evict(t, pod.Name) // it ends, as its shims do after some minutes
	next := w.startAs(t, w.cluster.Kubeconfig, namespace, oneStep("golang", "true", ""))
	next.end(0)
}

// testEvictedBefore: a pod that is lost before its program begins is replaced, three times.
func testEvictedBefore(t *testing.T, w *world) {
	r := w.start(t, oneStep("missing/image", "true", ""))
	seen := map[types.UID]bool{}
	for range 4 {
		pod := r.awaitPod(func(pod *corev1.Pod) bool {
			return !seen[pod.UID] && len(pod.Status.ContainerStatuses) > 0 && pod.Status.ContainerStatuses[0].State.Waiting != nil &&
				pod.Status.ContainerStatuses[0].State.Waiting.Reason == "ErrImagePull"
		})
		seen[pod.UID] = true
		w.kubelet.Evict(t, pod.Name)
	}
	r.end(1)
	if got, reason := r.statuses("1"); !slices.Equal(got, []string{"Scheduling", "Initializing", "Failed"}) ||
		!strings.HasPrefix(reason, "Evicted: ") {
		t.Errorf("%q, %q", got, reason)
	}
	if got := r.log("1"); strings.Count(got, "Evicted: The node was low on resource: ephemeral-storage.; pod ") != 3 {
		t.Errorf("the log is %q", got)
	}
}

func testEvicted(t *testing.T, w *world) {
	script, _ := w.waiting(t)
	r := w.start(t, oneStep("golang", script, ""))
	pod := r.awaitPod(runs)
	r.awaitLog("1", "begun\n")
	w.kubelet.Evict(t, pod.Name)
	r.fails("Evicted: ")
	if got := r.log("1"); got != "begun\n" {
		t.Errorf("the log is %q", got)
	}
}

func testRepeated(t *testing.T, w *world) {
	r := w.start(t, oneStep("golang", "echo attempt $WAYBILL_ATTEMPT; test $WAYBILL_ATTEMPT = 2 || exec sleep 1000",
		"    retry: {attempts: 2, on: [infrastructure], backoff: 1ms}\n"))
	pod := r.awaitPod(runs)
	r.awaitLog("1", "attempt 1\n")
	w.kubelet.Evict(t, pod.Name)
	r.end(0)
	if got := r.log("1"); !strings.HasPrefix(got, "attempt 1\n") || !strings.HasSuffix(got, "attempt 2\n") ||
		!strings.Contains(got, "Evicted: ") {
		t.Errorf("the log is %q", got)
	}
}

func testOutOfMemory(t *testing.T, w *world) {
	script, _ := w.waiting(t)
	r := w.start(t, oneStep("golang", script, ""))
	pod := r.awaitPod(runs)
	r.awaitLog("1", "begun\n")
	w.kubelet.OutOfMemory(t, pod.Name)
	r.end(1)
	if got := r.log("1"); !strings.HasPrefix(got, "begun\n") {
		t.Errorf("the log is %q", got)
	}
	if got, reason := r.statuses("1"); !slices.Equal(got, []string{"Scheduling", "Initializing", "Running", "Failed"}) ||
		reason != "exit status 137: OOMKilled, the node was out of memory; give the step resources with a request for memory" {
		t.Errorf("%q, %q", got, reason)
	}
}

// testForwardCut: every connection is cut after a part of the log, and the log is whole.
func testForwardCut(t *testing.T, w *world) {
	w.kubelet.CutForwards(70_000)
	defer w.kubelet.CutForwards(0)
	r := w.start(t, oneStep("golang", `i=0; while [ $i -lt 20000 ]; do echo "line $i of the log"; i=$((i+1)); done`, ""))
	r.end(0)
	if got := r.log("1"); got != longLog() {
		t.Errorf("the log has %d bytes, want %d", len(got), len(longLog()))
	}
}

func testCanceled(t *testing.T, w *world) {
	r := w.start(t, oneStep("golang", `trap "echo asked; exit 9" TERM; echo begun; while :; do sleep 0.1; done`, ""))
	r.awaitLog("1", "begun\n")
	r.interrupt()
	r.end(130)
	if got := r.log("1"); !strings.HasPrefix(got, "begun\n") || !strings.Contains(got, "asked\n") {
		t.Errorf("the log is %q", got)
	}
	if got, _ := r.statuses("1"); got[len(got)-1] != "Canceled" {
		t.Errorf("the step was %q", got)
	}
}

func testCanceledEarly(t *testing.T, w *world) {
	r := w.start(t, oneStep("missing/image", "true", ""))
	r.awaitLog("1", "ImagePull: missing/image: not found\n")
	r.interrupt()
	r.end(130)
	if got, _ := r.statuses("1"); !slices.Equal(got, []string{"Scheduling", "Initializing", "Canceled"}) {
		t.Errorf("the step was %q", got)
	}
}

// testSecrets: a secret and a password reach the step, and neither the pod nor the log.
func testSecrets(t *testing.T, w *world) {
	t.Setenv("WAYBILL_SECRET_TOKEN", "hunter22-token")
	script, let := w.waiting(t)
	files := oneStep("golang", "echo $TOKEN ${key}; echo $TOKEN | cut -c1-8; "+script, "    secrets: [TOKEN]\n")
	files[".wharf-ci.yml"] = "inputs: [{name: key, type: password}]\n" + files[".wharf-ci.yml"]
	r := w.start(t, files, "-i", "key=hunter22-key")
	pod := r.awaitPod(runs)
	r.awaitLog("1", "begun\n")
	let()
	r.end(0)
	if got := r.log("1"); got != "*** ***\nhunter22\nbegun\nended\n" {
		t.Errorf("the log is %q", got)
	}
	if text := pod.String(); strings.Contains(text, "hunter22-") {
		t.Errorf("the pod has a secret: %s", text)
	}
}

// testClusterSecrets: Secrets that are objects of the cluster come from it alone, and are masked.
func testClusterSecrets(t *testing.T, w *world) {
	t.Setenv("WAYBILL_SECRET_TOKEN", "of-this-computer")
	namespace := w.cluster.Namespace(t)
	for name, data := range map[string]map[string]string{
		"wharf-local-project-7-secrets": {"TOKEN": "hunter22-token"}, "wharf-local-project-7-secretname-npm": {"NPM_KEY": "hunter22-npm"},
	} {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, StringData: data}
		if _, err := w.client.CoreV1().Secrets(namespace).Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	files := oneStep("golang", "echo $TOKEN $NPM_KEY; echo $TOKEN $NPM_KEY | tr h H", "    secrets: [TOKEN]\n")
	files[".wharf-ci.yml"] = strings.ReplaceAll(files[".wharf-ci.yml"], "image: golang", "image: golang, secretName: npm")
	r := w.startAs(t, w.cluster.Kubeconfig, namespace, files, "--project-id", "7")
	r.end(0)
	if got := r.log("1"); got != "*** ***\nHunter22-token Hunter22-npm\n" {
		t.Errorf("the log is %q", got)
	}
}

// testRights runs everything as an account with exactly the rights of the manifest for users.
func testRights(t *testing.T, w *world) {
	namespace := w.cluster.Namespace(t)
	r := w.startAs(t, w.account(t, namespace, "waybill-user"), namespace, map[string]string{".wharf-ci.yml": sixSteps, "junit.xml": junit})
	r.wantSixSteps()
	dry := w.startAs(t, w.account(t, namespace, "waybill-user"), namespace, map[string]string{".wharf-ci.yml": sixSteps}, "--dry-run=server")
	dry.end(0)
	if got := dry.out.String(); !strings.Contains(got, "the cluster accepts the pods of all 6 steps") {
		t.Errorf("a dry run printed %s", got)
	}
	none := w.startAs(t, w.account(t, namespace, "waybill-aggregator"), namespace, oneStep("golang", "true", ""))
	<-none.ended
	if got := none.out.String(); !strings.Contains(got, "cannot create resource \"pods\"") || none.command.ProcessState.ExitCode() != 2 {
		t.Errorf("without rights: exit status %d, %s", none.command.ProcessState.ExitCode(), got)
	}
}

// testServerKilled: the step continues while the API server is away, and its log is whole.
func testServerKilled(t *testing.T, w *world) {
	script, let := w.waiting(t)
	r := w.start(t, oneStep("golang", script, "    artifacts: [made]\n"))
	r.awaitLog("1", "begun\n")
	w.cluster.Kill(t)
	let()
	w.cluster.Start(t)
	r.end(0)
	if got := r.log("1"); !strings.HasPrefix(got, "begun\n") || !strings.Contains(got, "ended\n") {
		t.Errorf("the log is %q", got)
	}
}

func testNodeLost(t *testing.T, w *world) {
	script, _ := w.waiting(t)
	r := w.start(t, oneStep("golang", script, ""))
	r.awaitPod(runs)
	r.awaitLog("1", "begun\n")
	w.kubelet.Lose(t)
	r.fails("NodeLost: ")
	if got := r.log("1"); got != "begun\n" {
		t.Errorf("the log is %q", got)
	}
}
