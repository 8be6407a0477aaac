//go:build services

package builds_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// BenchmarkStepOverhead measures an empty step of a worker in the cluster beside a bare pod with as many containers;
// see cmd/stepoverhead. The figures are medians.
func BenchmarkStepOverhead(b *testing.B) {
	w := newNode(b)
	measure := filepath.Join(b.TempDir(), "stepoverhead")
	compile := exec.CommandContext(b.Context(), "go", "build", "-o", measure, "../cmd/stepoverhead")
	compile.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := compile.CombinedOutput(); err != nil {
		b.Fatalf("%v\n%s", err, out)
	}
	program, err := os.ReadFile(measure)
	if err != nil {
		b.Fatal(err)
	}
	w.cluster.ImportWorkers(b, "measure", w.program, map[string][]byte{"usr/bin/stepoverhead": program})
	namespace := w.cluster.Namespace(b)
	w.applyRights(b, namespace)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "measure"}, Spec: corev1.PodSpec{
		ServiceAccountName: "waybill-worker", RestartPolicy: corev1.RestartPolicyNever,
		Containers: []corev1.Container{{Name: "measure", Image: "measure", ImagePullPolicy: corev1.PullNever,
			Command:      []string{"stepoverhead", strconv.Itoa(b.N), "golang", "waybill"},
			Env:          []corev1.EnvVar{{Name: "TMPDIR", Value: "/tmp"}},
			VolumeMounts: []corev1.VolumeMount{{Name: "tmp", MountPath: "/tmp"}}}},
		Volumes: []corev1.Volume{{Name: "tmp", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
	}}
	if _, err := w.client.CoreV1().Pods(namespace).Create(b.Context(), pod, metav1.CreateOptions{}); err != nil {
		b.Fatal(err)
	}
	log := w.logOf(b, namespace, "measure")
	var rounds [4][]float64
	for line := range strings.Lines(log) {
		var one [4]float64
		if _, err := fmt.Sscanf(line, "round %g %g %g %g", &one[0], &one[1], &one[2], &one[3]); err != nil {
			b.Fatalf("the pod printed %s", log)
		}
		for i, value := range one {
			rounds[i] = append(rounds[i], value)
		}
	}
	if len(rounds[0]) != b.N {
		b.Fatalf("the pod printed %s", log)
	}
	var medians [4]float64
	for i := range rounds {
		slices.Sort(rounds[i])
		medians[i] = rounds[i][b.N/2]
	}
	b.ReportMetric(0, "ns/op")
	for i, unit := range []string{"ms/step", "ms/step-removed", "ms/bare-pod", "ms/bare-pod-removed"} {
		b.ReportMetric(medians[i], unit)
	}
	b.ReportMetric(medians[0]-medians[2], "ms-overhead")
}

// logOf returns what a pod has printed once it has ended.
func (w *world) logOf(t testing.TB, namespace, name string) string {
	t.Helper()
	pods := w.cluster.Dynamic.Resource(schema.GroupVersionResource{Version: "v1", Resource: "pods"}).Namespace(namespace)
	w.cluster.Await(t, pods, name, func(pod *unstructured.Unstructured) bool {
		phase, _, _ := unstructured.NestedString(pod.Object, "status", "phase") // absent: not begun
		return phase == "Running" || phase == "Succeeded" || phase == "Failed"
	})
	log, err := w.client.CoreV1().Pods(namespace).GetLogs(name, &corev1.PodLogOptions{Follow: true}).DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return string(log)
}
