package testbed

import (
	"maps"
	"slices"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// CutForwards has each port-forward from now on be cut after so many bytes to the client; 0: none.
func (k *Kubelet) CutForwards(bytes int64) {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	k.bytes = bytes
}

// Evict takes a pod away as kubelet does when the node is short of something.
func (k *Kubelet) Evict(t testing.TB, pod string) {
	t.Helper()
	k.take(t, pod, func(s *corev1.PodStatus) {
		s.Phase, s.Reason, s.Message = corev1.PodFailed, "Evicted", "The node was low on resource: ephemeral-storage."
	})
}

// OutOfMemory kills the step of a pod as the kernel does.
func (k *Kubelet) OutOfMemory(t testing.TB, pod string) {
	t.Helper()
	p := k.find(t, pod)
	p.mutex.Lock()
	p.memory = true
	step := p.running["step"]
	p.mutex.Unlock()
	if step == nil {
		t.Fatalf("testbed: the step of pod %s does not run", pod)
	}
	_ = syscall.Kill(-step.Process.Pid, syscall.SIGKILL)
}

// KillContainer kills a container of a pod as the kernel does.
func (k *Kubelet) KillContainer(t testing.TB, pod, container string) {
	t.Helper()
	p := k.find(t, pod)
	p.mutex.Lock()
	defer p.mutex.Unlock()
	running := p.running[container]
	if running == nil {
		t.Fatalf("testbed: the container %s of pod %s does not run", container, pod)
	}
	_ = syscall.Kill(-running.Process.Pid, syscall.SIGKILL)
}

// Lose has the node be gone: its processes end, nothing is reported any more, and the cluster takes its pods away.
func (k *Kubelet) Lose(t testing.TB) {
	t.Helper()
	k.mutex.Lock()
	k.dead = true
	all := slices.Collect(maps.Values(k.pods))
	k.mutex.Unlock()
	for _, p := range all {
		p.freeze()
		p.kill(syscall.SIGKILL)
		p.set(func(*corev1.PodStatus) {})
	}
	for _, p := range all {
		err := k.client.CoreV1().Pods(p.pod.Namespace).Delete(t.Context(), p.pod.Name, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) { // the runner may have been quicker
			t.Errorf("testbed: delete a pod of the lost node: %v", err)
		}
	}
}

// take sets a pod's last status and ends its processes.
func (k *Kubelet) take(t testing.TB, pod string, change func(*corev1.PodStatus)) {
	t.Helper()
	p := k.find(t, pod)
	p.mutex.Lock()
	change(&p.status)
	p.frozen = true
	p.mutex.Unlock()
	p.set(func(*corev1.PodStatus) {})
	p.kill(syscall.SIGKILL)
}

// Folder returns where a path below /mnt of a pod is on this computer.
func (k *Kubelet) Folder(t testing.TB, pod, path string) string {
	t.Helper()
	return k.find(t, pod).local(path)
}

func (k *Kubelet) find(t testing.TB, pod string) *podRun {
	t.Helper()
	k.mutex.Lock()
	defer k.mutex.Unlock()
	for _, p := range k.pods {
		if p.pod.Name == pod {
			return p
		}
	}
	t.Fatalf("testbed: no pod %s on the node", pod)
	return nil
}

// Processes returns how many containers run.
func (k *Kubelet) Processes() (n int) {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	for _, p := range k.pods {
		p.mutex.Lock()
		n += len(p.running)
		p.mutex.Unlock()
	}
	return n
}
