//go:build services

package builds_test

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/waybill-dev/waybill/test/testbed"
	"github.com/waybill-dev/waybill/test/testbed/agreement"
)

// newNode makes a cluster with a real node, which has the images that the tests name.
func newNode(t testing.TB) *world {
	t.Helper()
	w := &world{cluster: testbed.Node(t), flags: []string{"--image-pull-policy", "IfNotPresent"}}
	w.prepare(t)
	w.cluster.ImportWorkers(t, "waybill", w.program, nil)
	w.cluster.ImportBusybox(t, "golang", "")
	w.cluster.ImportBusybox(t, "unprivileged", "ana")
	return w
}

func TestBuildsOnANode(t *testing.T) {
	w := newNode(t)
	t.Run("together", func(t *testing.T) { // they mostly wait
		for name, test := range map[string]func(*testing.T, *world){
			"same results": testSameResultsOnANode, "six steps": testSixSteps, "canceled": testCanceled, "rights": testRights,
			"images": testImages, "out of memory": testMemory,
			"evicted by kubelet": testEvictedByKubelet, "evicted by a client": testEvictedByClient,
			"in the cluster": testInTheCluster, "user of the image": testUser, "quota": testQuota,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				test(t, w)
			})
		}
	})
	t.Run("secrets", func(t *testing.T) { testSecrets(t, w) }) // these two set variables of this process
	t.Run("secrets of the cluster", func(t *testing.T) { testClusterSecrets(t, w) })
	t.Run("API server killed", func(t *testing.T) { testServerKilled(t, w) })
	t.Run("node restarted", func(t *testing.T) { testNodeRestarted(t, w) })
	t.Run("node lost", func(t *testing.T) { testNodeKilled(t, w) }) // the last one: the node does not come back
}

// testSameResultsOnANode as those of the other runners.
func testSameResultsOnANode(t *testing.T, w *world) {
	r := w.start(t, agreement.Files("golang"), "--environment", "kubernetes")
	r.end(0)
	agreement.Check(t, r.results, true)
	agreement.CheckRaw(t, w.program, r.results)
}

// testImages of a registry: one is pulled, others do not exist or have a bad name.
func testImages(t *testing.T, w *world) {
	image := w.cluster.Registry(t, "", "")
	r := w.start(t, oneStep(image, "echo pulled", ""))
	r.end(0)
	if got := r.log("1"); got != "pulled\n" {
		t.Errorf("the log is %q", got)
	}
	for image, want := range map[string]string{strings.Replace(image, "/app", "/absent", 1): "not found",
		"Bad/image": "invalid reference format: repository name must be lowercase"} {
		r := w.start(t, oneStep(image, "true", "    retry: {attempts: 2, on: [infrastructure]}\n"), "--pull-deadline", "1s")
		r.end(1)
		if got, reason := r.statuses("1"); !slices.Equal(got, []string{"Scheduling", "Initializing", "Failed"}) ||
			!strings.HasPrefix(reason, "ImagePull: ") || !strings.Contains(reason, want) {
			t.Errorf("%s: %q, %q", image, got, reason)
		}
	}
}

// testUser: an image whose programs run as a user without rights has a workspace that it may change.
func testUser(t *testing.T, w *world) {
	r := w.start(t, oneStep("unprivileged", "id -u; rm .wharf-ci.yml; echo mine > made; cat made", "    artifacts: [made]\n"))
	r.end(0)
	if got := r.log("1"); got != "1000\nmine\n" || !slices.Equal(r.artifacts("1"), []string{"file made"}) {
		t.Errorf("the log is %q, the artifacts are %q", got, r.artifacts("1"))
	}
}

// testQuota: of two steps side by side one waits until the namespace has room for its Secret. A LimitRange gives the
// pods the limits that the quota wants.
func testQuota(t *testing.T, w *world) {
	namespace := w.cluster.Namespace(t)
	w.apply(t, namespace, "apiVersion: v1\nkind: LimitRange\nmetadata: {name: test}\n"+
		"spec: {limits: [{type: Container, default: {memory: 256Mi}}]}\n---\n"+
		"apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: test}\nspec: {hard: {secrets: 1, limits.memory: 2Gi}}\n")
	quotas := w.cluster.Dynamic.Resource(corev1.SchemeGroupVersion.WithResource("resourcequotas")).Namespace(namespace)
	w.cluster.Await(t, quotas, "test", func(quota *unstructured.Unstructured) bool {
		_, counted, _ := unstructured.NestedMap(quota.Object, "status", "hard") // absent: not in force
		return counted
	})
	script, let := w.waiting(t)
	r := w.startAs(t, w.cluster.Kubeconfig, namespace, map[string]string{".wharf-ci.yml": "stage:\n  one: {container: " +
		"{image: golang, cmds: ['" + script +
		"']}}\n  two: {container: {image: golang, cmds: ['" + script + "']}}\n"})
	waits := map[string]string{"one": "2", "two": "1"}[r.awaitPod(runs).Labels["wharf.iver.com/step"]]
	r.awaitLog(waits, "Quota: secrets ")
	let()
	r.end(0)
	if got := r.log(waits); !strings.HasSuffix(got, "begun\nended\n") {
		t.Errorf("the log of the step that waited is %q", got)
	}
}

// testMemory: the kernel ends a program that uses more than its container may.
func testMemory(t *testing.T, w *world) {
	r := w.start(t, oneStep("golang", "echo begun; exec tail -c 1000000000 /dev/zero", "    resources: {limits: {memory: 32Mi}}\n"))
	r.end(1)
	if got := r.log("1"); !strings.HasPrefix(got, "begun\n") {
		t.Errorf("the log is %q", got)
	}
	if got, reason := r.statuses("1"); !slices.Equal(got, []string{"Scheduling", "Initializing", "Running", "Failed"}) ||
		!strings.HasPrefix(reason, "exit status 137: OOMKilled") {
		t.Errorf("%q, %q", got, reason)
	}
}

// testEvictedByKubelet: a container has written more than it may.
func testEvictedByKubelet(t *testing.T, w *world) {
	r := w.start(t,
		oneStep("golang", "echo begun; sleep 5; dd if=/dev/zero of=/tmp/large bs=1M count=8 2> /dev/null; sleep 1000",
			"    resources: {limits: {ephemeral-storage: 1Mi}}\n"))
	r.end(1)
	if got := r.log("1"); !strings.HasPrefix(got, "begun\n") {
		t.Errorf("the log is %q", got)
	}
	if got, reason := r.statuses("1"); !slices.Equal(got, []string{"Scheduling", "Initializing", "Running", "Failed"}) ||
		!strings.HasPrefix(reason, "Evicted: ") {
		t.Errorf("%q, %q", got, reason)
	}
}

// testEvictedByClient, as when a node is drained: the step is repeated.
func testEvictedByClient(t *testing.T, w *world) {
	r := w.start(t, oneStep("golang", "echo attempt $WAYBILL_ATTEMPT; test $WAYBILL_ATTEMPT = 2 || exec sleep 1000",
		"    retry: {attempts: 2, on: [infrastructure], backoff: 1ms}\n"))
	pod := r.awaitPod(runs)
	r.awaitLog("1", "attempt 1\n")
	eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: pod.Name, Namespace: pod.Namespace}}
	if err := w.client.CoreV1().Pods(r.namespace).EvictV1(t.Context(), eviction); err != nil {
		t.Fatal(err)
	}
	r.end(0)
	if got := r.log("1"); !strings.HasPrefix(got, "attempt 1\n") || !strings.HasSuffix(got, "attempt 2\n") ||
		!strings.Contains(got, "Evicted: ") {
		t.Errorf("the log is %q", got)
	}
}

// testNodeRestarted: what ran on the node has ended, and the node is back before the cluster gives it up.
func testNodeRestarted(t *testing.T, w *world) {
	script, _ := w.waiting(t)
	r := w.start(t, oneStep("golang", script, ""))
	r.awaitPod(runs)
	r.awaitLog("1", "begun\n")
	w.cluster.KillNode(t)
	w.cluster.StartNode(t)
	r.fails("Unknown: the container results ended: ")
	if got := r.log("1"); got != "begun\n" {
		t.Errorf("the log is %q", got)
	}
}

// testNodeKilled: the node is gone with all that ran on it, and an operator says so to the cluster.
func testNodeKilled(t *testing.T, w *world) {
	script, _ := w.waiting(t)
	r := w.start(t, oneStep("golang", script, ""))
	pod := r.awaitPod(runs)
	r.awaitLog("1", "begun\n")
	w.cluster.KillNode(t)
	nodes := w.client.CoreV1().Nodes()
	node, err := nodes.Get(t.Context(), pod.Spec.NodeName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	node.Spec.Taints = append(node.Spec.Taints,
		corev1.Taint{Key: corev1.TaintNodeOutOfService, Value: "nodeshutdown", Effect: corev1.TaintEffectNoExecute})
	if _, err := nodes.Update(t.Context(), node, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	r.fails("NodeLost: ")
	if got := r.log("1"); got != "begun\n" {
		t.Errorf("the log is %q", got)
	}
}
