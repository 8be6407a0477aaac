package testbed

import (
	"context"
	"crypto/tls"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
)

// Kubelet is a node that runs the containers of pods as processes of this computer, with temporary folders instead of
// volumes. It takes every pod of the cluster, is its scheduler too, and answers port-forwards and requests for logs.
// Images are not used, but for these names:
//
//	missing…   cannot be pulled
//	Bad…       is not a valid name
//
// Paths below /mnt in commands, variables and Secrets lead to the pod's folders. A pod has an address of its own in 127.0.0.0/8, where its
// shims listen, and a container that is to listen on all addresses at a port. One that mounts the pod's account finds it and the API
// server as in a cluster, which takes root. In place of a controller it deletes what a pod owned that is gone.
type Kubelet struct {
	client  kubernetes.Interface
	api     *rest.Config
	program string // runs instead of waybill
	folder  string
	server  *httptest.Server

	mutex sync.Mutex
	pods  map[types.UID]*podRun
	dead  bool  // the node was lost
	bytes int64 // port-forwards are cut after so many; 0: never
	count int
	work  sync.WaitGroup
}

// Kubelet starts a node for the test, whose images have the program as waybill.
func (c *Cluster) Kubelet(t testing.TB, program string) *Kubelet {
	t.Helper()
	client, err := kubernetes.NewForConfig(c.Config)
	if err != nil {
		t.Fatalf("testbed: kubelet: %v", err)
	}
	k := &Kubelet{client: client, api: c.Config, program: program, folder: t.TempDir(), pods: map[types.UID]*podRun{}}
	k.server = httptest.NewUnstartedServer(http.HandlerFunc(k.portForward))
	k.server.TLS = &tls.Config{NextProtos: []string{"http/1.1"}} //nolint:gosec // of a test
	k.server.StartTLS()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	t.Cleanup(func() {
		cancel()
		k.mutex.Lock()
		all := slices.Collect(maps.Values(k.pods))
		k.mutex.Unlock()
		for _, p := range all {
			p.kill(syscall.SIGKILL)
		}
		k.work.Wait()
		k.server.CloseClientConnections()
		k.server.Close()
	})
	k.register(t)
	k.work.Go(func() { k.watch(ctx) })
	return k
}

const nodeName = "testbed"

func (k *Kubelet) register(t testing.TB) {
	t.Helper()
	_, port := splitAddress(k.server.Listener.Addr().String())
	number, err := strconv.ParseInt(port, 10, 32)
	if err != nil {
		t.Fatalf("testbed: kubelet: %v", err)
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName, Labels: map[string]string{"kubernetes.io/os": "linux"}}}
	node.Status = corev1.NodeStatus{
		Addresses:       []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "127.0.0.1"}},
		DaemonEndpoints: corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: int32(number)}},
	}
	made, err := k.client.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{})
	if err == nil {
		made.Status = node.Status
		_, err = k.client.CoreV1().Nodes().UpdateStatus(t.Context(), made, metav1.UpdateOptions{})
	}
	if err != nil {
		t.Fatalf("testbed: register the node: %v", err)
	}
}

// watch follows all pods.
func (k *Kubelet) watch(ctx context.Context) {
	pods := k.client.CoreV1().Pods("")
	source := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return pods.List(ctx, o) },
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return pods.Watch(ctx, o)
		},
	}
	for ctx.Err() == nil { // the API server may be killed
		_, _ = watchtools.UntilWithSync(ctx, source, &corev1.Pod{}, nil, func(event watch.Event) (bool, error) {
			if pod, ok := event.Object.(*corev1.Pod); ok {
				k.handle(ctx, event.Type, pod)
			}
			return false, nil
		})
	}
}

func (k *Kubelet) handle(ctx context.Context, kind watch.EventType, pod *corev1.Pod) {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	p := k.pods[pod.UID]
	switch {
	case k.dead:
	case kind == watch.Deleted:
		if p != nil {
			p.end()
			delete(k.pods, pod.UID)
		}
		k.work.Go(func() { k.collect(ctx, pod) })
	case p == nil && pod.Spec.NodeName == "" && pod.DeletionTimestamp == nil:
		k.work.Go(func() {
			binding := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: pod.Name, UID: pod.UID},
				Target: corev1.ObjectReference{Kind: "Node", Name: nodeName}}
			_ = k.client.CoreV1().Pods(pod.Namespace).Bind(ctx, binding, metav1.CreateOptions{}) // a second one is refused
		})
	case p == nil && pod.Spec.NodeName == nodeName:
		k.count++
		p = &podRun{k: k, pod: pod, folder: filepath.Join(k.folder, strconv.Itoa(k.count)),
			ip: fmt.Sprintf("127.77.%d.%d", k.count/200, k.count%200+1), running: map[string]*exec.Cmd{}}
		p.ctx, p.end = context.WithCancel(ctx)
		k.pods[pod.UID] = p
		k.work.Go(p.run)
	}
	if p != nil && pod.DeletionTimestamp != nil && kind != watch.Deleted {
		grace := time.Duration(*pod.DeletionGracePeriodSeconds) * time.Second
		k.work.Go(func() { p.remove(grace) })
	}
}
