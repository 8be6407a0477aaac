package testbed

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/httpstream"
	"k8s.io/apimachinery/pkg/util/httpstream/spdy"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
	"k8s.io/client-go/util/retry"
)

// Kubelet is a node that runs the containers of pods as processes of this computer, with temporary folders in place of volumes. It
// takes every pod of the cluster, is its scheduler too, and answers port-forwards and requests for logs. Images are not used, but for these names:
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
	program string // runs in place of waybill
	folder  string
	server  *httptest.Server

	mutex sync.Mutex
	pods  map[types.UID]*podRun
	dead  bool  // the node was lost
	bytes int64 // port-forwards are cut after so many; 0: never
	count int
	work  sync.WaitGroup
}

// podRun is one pod on the node.
type podRun struct {
	k      *Kubelet
	pod    *corev1.Pod // as it was when it came
	folder string
	ip     string
	ctx    context.Context //nolint:containedctx // its life
	end    context.CancelFunc

	reporting sync.Mutex

	mutex   sync.Mutex
	status  corev1.PodStatus
	frozen  bool // the status is what a test has set
	memory  bool // its step was ended because it used too much memory
	running map[string]*exec.Cmd
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
			binding := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: pod.Name, UID: pod.UID}, Target: corev1.ObjectReference{Kind: "Node", Name: nodeName}}
			_ = k.client.CoreV1().Pods(pod.Namespace).Bind(ctx, binding, metav1.CreateOptions{}) // a second one is refused
		})
	case p == nil && pod.Spec.NodeName == nodeName:
		k.count++
		p = &podRun{k: k, pod: pod, folder: filepath.Join(k.folder, strconv.Itoa(k.count)), ip: fmt.Sprintf("127.77.%d.%d", k.count/200, k.count%200+1), running: map[string]*exec.Cmd{}}
		p.ctx, p.end = context.WithCancel(ctx)
		k.pods[pod.UID] = p
		k.work.Go(p.run)
	}
	if p != nil && pod.DeletionTimestamp != nil && kind != watch.Deleted {
		grace := time.Duration(*pod.DeletionGracePeriodSeconds) * time.Second
		k.work.Go(func() { p.remove(grace) })
	}
}

// collect deletes what a pod owned that is gone.
func (k *Kubelet) collect(ctx context.Context, gone *corev1.Pod) {
	owned := func(o metav1.Object) bool {
		return slices.ContainsFunc(o.GetOwnerReferences(), func(r metav1.OwnerReference) bool { return r.UID == gone.UID })
	}
	pods, err := k.client.CoreV1().Pods(gone.Namespace).List(ctx, metav1.ListOptions{})
	for i := 0; err == nil && i < len(pods.Items); i++ {
		if owned(&pods.Items[i]) {
			_ = k.client.CoreV1().Pods(gone.Namespace).Delete(ctx, pods.Items[i].Name, metav1.DeleteOptions{}) // it may be gone
		}
	}
	secrets, err := k.client.CoreV1().Secrets(gone.Namespace).List(ctx, metav1.ListOptions{})
	for i := 0; err == nil && i < len(secrets.Items); i++ {
		if owned(&secrets.Items[i]) {
			_ = k.client.CoreV1().Secrets(gone.Namespace).Delete(ctx, secrets.Items[i].Name, metav1.DeleteOptions{}) // it may be gone
		}
	}
}

// run lives the life of a pod.
func (p *podRun) run() {
	for _, volume := range p.pod.Spec.Volumes {
		if os.MkdirAll(filepath.Join(p.folder, "mnt", volume.Name), 0o777) != nil {
			return // shown by the processes
		}
	}
	p.set(func(s *corev1.PodStatus) {
		s.Phase, s.PodIP, s.HostIP = corev1.PodPending, p.ip, "127.0.0.1"
		s.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}}
		for _, c := range p.pod.Spec.InitContainers {
			s.InitContainerStatuses = append(s.InitContainerStatuses, waitingStatus(c, "PodInitializing", ""))
		}
		for _, c := range p.pod.Spec.Containers {
			s.ContainerStatuses = append(s.ContainerStatuses, waitingStatus(c, "PodInitializing", ""))
		}
	})
	for _, c := range p.pod.Spec.InitContainers {
		if p.container(c, true) != 0 {
			p.set(func(s *corev1.PodStatus) { s.Phase = corev1.PodFailed })
			return
		}
	}
	p.set(func(s *corev1.PodStatus) { s.Phase = corev1.PodRunning })
	var all sync.WaitGroup
	failed := make([]bool, len(p.pod.Spec.Containers))
	for i, c := range p.pod.Spec.Containers {
		all.Go(func() { failed[i] = p.container(c, false) != 0 })
	}
	all.Wait()
	p.set(func(s *corev1.PodStatus) {
		s.Phase = corev1.PodSucceeded
		if slices.Contains(failed, true) {
			s.Phase = corev1.PodFailed
		}
	})
}

func waitingStatus(c corev1.Container, reason, message string) corev1.ContainerStatus {
	return corev1.ContainerStatus{Name: c.Name, Image: c.Image, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}}
}

// set changes the status and reports it, as often as it takes.
func (p *podRun) set(change func(*corev1.PodStatus)) {
	p.mutex.Lock()
	if !p.frozen {
		change(&p.status)
	}
	p.mutex.Unlock()
	p.reporting.Lock() // an older status must not follow a newer one
	defer p.reporting.Unlock()
	for p.ctx.Err() == nil {
		pods := p.k.client.CoreV1().Pods(p.pod.Namespace)
		err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
			now, err := pods.Get(p.ctx, p.pod.Name, metav1.GetOptions{})
			if err != nil || now.UID != p.pod.UID {
				return err
			}
			p.mutex.Lock()
			now.Status = *p.status.DeepCopy()
			p.mutex.Unlock()
			_, err = pods.UpdateStatus(p.ctx, now, metav1.UpdateOptions{})
			return err
		})
		if err == nil || strings.Contains(err.Error(), "not found") {
			return
		}
		p.pause()
	}
}

// pause waits before trying again; the API server may be away.
func (p *podRun) pause() {
	timer := time.NewTimer(100 * time.Millisecond)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-p.ctx.Done():
	}
}

func (p *podRun) setContainer(name string, state corev1.ContainerState) {
	p.set(func(s *corev1.PodStatus) {
		for _, list := range [][]corev1.ContainerStatus{s.InitContainerStatuses, s.ContainerStatuses} {
			for i := range list {
				if list[i].Name == name {
					list[i].State, list[i].Ready = state, state.Running != nil
				}
			}
		}
	})
}

// container runs one container to its end.
func (p *podRun) container(c corev1.Container, init bool) int {
	switch {
	case strings.HasPrefix(c.Image, "missing"):
		p.setContainer(c.Name, waitingStatus(c, "ErrImagePull", c.Image+": not found").State)
		<-p.ctx.Done()
		return 1
	case strings.HasPrefix(c.Image, "Bad"):
		p.setContainer(c.Name, waitingStatus(c, "InvalidImageName", "couldn't parse image name "+c.Image).State)
		<-p.ctx.Done()
		return 1
	}
	env, err := p.environment(c)
	for ; err != nil; env, err = p.environment(c) {
		p.setContainer(c.Name, waitingStatus(c, "CreateContainerConfigError", err.Error()).State)
		if p.pause(); p.ctx.Err() != nil {
			return 1
		}
	}
	argv := make([]string, len(c.Command))
	for i, a := range c.Command {
		argv[i] = p.local(strings.ReplaceAll(a, "$$(", "$("))
		if port, ok := strings.CutPrefix(a, ":"); ok && strings.Trim(port, "0123456789") == "" {
			argv[i] = net.JoinHostPort(p.ip, port)
		}
	}
	if argv[0] == "waybill" {
		argv[0] = p.k.program
	}
	attributes := &syscall.SysProcAttr{Setpgid: true}
	if slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.MountPath == accountFolder }) {
		argv = append([]string{"sh", "-c", mountAccount, p.local("/mnt/" + accountVolume)}, argv...)
		attributes.Unshareflags = syscall.CLONE_NEWNS // the mount ends with the process
	}
	command := exec.Command(argv[0], argv[1:]...)
	command.Dir, command.Env = p.local(c.WorkingDir), env
	command.SysProcAttr = attributes
	log, err := os.Create(filepath.Join(p.folder, c.Name+".log"))
	if err != nil {
		return 1
	}
	defer log.Close()
	command.Stdout, command.Stderr = log, log
	p.mutex.Lock()
	err = command.Start()
	if err == nil {
		p.running[c.Name] = command
	}
	p.mutex.Unlock()
	if err != nil {
		p.setContainer(c.Name, waitingStatus(c, "RunContainerError", err.Error()).State)
		<-p.ctx.Done()
		return 1
	}
	p.setContainer(c.Name, corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}})
	_ = command.Wait() // the state says it
	_ = syscall.Kill(-command.Process.Pid, syscall.SIGKILL)
	code, reason := command.ProcessState.ExitCode(), "Completed"
	if code < 0 {
		code = 128 + int(command.ProcessState.Sys().(syscall.WaitStatus).Signal())
	}
	if code != 0 {
		reason = "Error"
	}
	p.mutex.Lock()
	delete(p.running, c.Name)
	if p.memory && c.Name == "step" {
		reason = "OOMKilled"
	}
	p.mutex.Unlock()
	p.setContainer(c.Name, corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: int32(code), Reason: reason, FinishedAt: metav1.Now()}})
	return code
}

// local returns a text with the pod's folders for those of its containers.
func (p *podRun) local(text string) string {
	for _, volume := range append(slices.Clone(p.pod.Spec.Volumes), corev1.Volume{Name: accountVolume}) {
		text = strings.ReplaceAll(text, "/mnt/"+volume.Name, filepath.Join(p.folder, "mnt", volume.Name))
	}
	return text
}

// accountFolder is where a container finds the account of its pod.
const accountFolder = "/var/run/secrets/kubernetes.io/serviceaccount"

// accountVolume is the folder of a pod's account among its volumes.
const accountVolume = "identity-of-the-pod"

// mountAccount runs a program that sees the folder $0 as accountFolder.
const mountAccount = `mount -t tmpfs tmpfs /run && mkdir -p /var/run/secrets/kubernetes.io && cp -r "$0" ` + accountFolder + ` && exec "$@"`

// account writes the files of the pod's account, and returns the variables by which its cluster is found.
func (p *podRun) account() ([]string, error) {
	token, err := p.k.client.CoreV1().ServiceAccounts(p.pod.Namespace).CreateToken(p.ctx, p.pod.Spec.ServiceAccountName, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	authority, err := os.ReadFile(p.k.api.CAFile)
	if err != nil {
		return nil, err
	}
	host, port := splitAddress(strings.TrimPrefix(p.k.api.Host, "https://"))
	return []string{"KUBERNETES_SERVICE_HOST=" + host, "KUBERNETES_SERVICE_PORT=" + port}, p.writeFiles(p.local("/mnt/"+accountVolume),
		map[string][]byte{"token": []byte(token.Status.Token), "ca.crt": authority, "namespace": []byte(p.pod.Namespace)})
}

func (p *podRun) environment(c corev1.Container) ([]string, error) {
	env := []string{"PATH=" + os.Getenv("PATH"), "WAYBILL_SHIM_LISTEN=" + net.JoinHostPort(p.ip, "5011"),
		"WAYBILL_SHIM_FOLDER=" + p.local("/mnt/waybill"), "WAYBILL_SHIM_REPO=" + p.local("/mnt/repo")}
	secrets := p.k.client.CoreV1().Secrets(p.pod.Namespace)
	for _, from := range c.EnvFrom {
		secret, err := secrets.Get(p.ctx, from.SecretRef.Name, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		for key, value := range secret.Data {
			env = append(env, key+"="+string(value))
		}
	}
	for _, m := range c.VolumeMounts {
		if m.MountPath == accountFolder {
			more, err := p.account()
			if err != nil {
				return nil, err
			}
			env = append(env, more...)
		}
	}
	for _, e := range c.Env {
		value := p.local(strings.ReplaceAll(e.Value, "$$(", "$("))
		if e.ValueFrom != nil && e.ValueFrom.FieldRef != nil {
			value = map[string]string{"metadata.name": p.pod.Name, "metadata.uid": string(p.pod.UID)}[e.ValueFrom.FieldRef.FieldPath]
		} else if e.ValueFrom != nil {
			ref := e.ValueFrom.SecretKeyRef
			secret, err := secrets.Get(p.ctx, ref.Name, metav1.GetOptions{})
			if err != nil {
				return nil, err
			}
			value = string(secret.Data[ref.Key])
		}
		env = append(env, e.Name+"="+value)
	}
	return env, p.mountSecrets()
}

// mountSecrets writes the files of Secrets that are volumes.
func (p *podRun) mountSecrets() error {
	for _, volume := range p.pod.Spec.Volumes {
		if volume.Secret == nil {
			continue
		}
		secret, err := p.k.client.CoreV1().Secrets(p.pod.Namespace).Get(p.ctx, volume.Secret.SecretName, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, c := range append(slices.Clone(p.pod.Spec.InitContainers), p.pod.Spec.Containers...) {
			for _, mount := range c.VolumeMounts {
				if mount.Name != volume.Name {
					continue
				}
				if err := p.writeFiles(p.local(mount.MountPath), secret.Data); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (p *podRun) writeFiles(dir string, files map[string][]byte) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(p.local(string(content))), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// kill signals all containers.
func (p *podRun) kill(signal syscall.Signal) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	for _, c := range p.running {
		_ = syscall.Kill(-c.Process.Pid, signal) // it may have ended
	}
}

// alive reports whether a container runs.
func (p *podRun) alive() bool {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return len(p.running) > 0
}

// remove ends a pod that was deleted, and confirms it.
func (p *podRun) remove(grace time.Duration) {
	p.kill(syscall.SIGTERM)
	for end := time.Now().Add(grace); p.alive() && time.Now().Before(end) && p.ctx.Err() == nil; {
		p.pause()
	}
	for p.kill(syscall.SIGKILL); p.alive() && p.ctx.Err() == nil; p.kill(syscall.SIGKILL) {
		p.pause()
	}
	now, uid := int64(0), p.pod.UID
	for p.ctx.Err() == nil {
		err := p.k.client.CoreV1().Pods(p.pod.Namespace).Delete(p.ctx, p.pod.Name, metav1.DeleteOptions{GracePeriodSeconds: &now, Preconditions: &metav1.Preconditions{UID: &uid}})
		if err == nil || strings.Contains(err.Error(), "not found") {
			return
		}
		p.pause()
	}
}

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

func (p *podRun) freeze() {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.status.Conditions = append(p.status.Conditions, corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue,
		Reason: "DeletionByTaintManager", Message: "Taint manager: deleting due to NoExecute taint"})
	p.frozen = true
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

// portForward answers the API server: /portForward/NAMESPACE/POD.
func (k *Kubelet) portForward(w http.ResponseWriter, r *http.Request) {
	parts := strings.Split(r.URL.Path, "/")
	if len(parts) == 5 && parts[1] == "containerLogs" {
		k.containerLog(w, r, parts[2], parts[3], parts[4])
		return
	}
	if len(parts) != 4 || parts[1] != "portForward" {
		http.NotFound(w, r)
		return
	}
	ip := ""
	k.mutex.Lock()
	for _, p := range k.pods {
		if p.pod.Namespace == parts[2] && p.pod.Name == parts[3] {
			ip = p.ip
		}
	}
	cut, dead := k.bytes, k.dead
	k.mutex.Unlock()
	if ip == "" || dead {
		http.Error(w, "the pod does not run here", http.StatusNotFound)
		return
	}
	if _, err := httpstream.Handshake(r, w, []string{"portforward.k8s.io"}); err != nil {
		return // answered
	}
	streams := make(chan httpstream.Stream)
	connection := spdy.NewResponseUpgrader().UpgradeResponse(w, r, func(s httpstream.Stream, _ <-chan struct{}) error {
		go func() {
			select {
			case streams <- s:
			case <-time.After(patience):
			}
		}()
		return nil
	})
	if connection == nil {
		return // answered
	}
	defer connection.Close()
	var failure httpstream.Stream
	for {
		select {
		case <-connection.CloseChan():
			return
		case s := <-streams:
			if s.Headers().Get("streamType") == "error" {
				failure = s
				continue
			}
			go func(failure httpstream.Stream) { // a later stream may bring another one
				defer connection.Close()
				forward(s, failure, net.JoinHostPort(ip, s.Headers().Get("port")), cut)
			}(failure)
		}
	}
}

// containerLog answers what a container has printed; with follow, until the container ends.
func (k *Kubelet) containerLog(w http.ResponseWriter, r *http.Request, namespace, pod, container string) {
	var of *podRun
	k.mutex.Lock()
	for _, p := range k.pods {
		if p.pod.Namespace == namespace && p.pod.Name == pod {
			of = p
		}
	}
	k.mutex.Unlock()
	if of == nil {
		http.Error(w, "the pod does not run here", http.StatusNotFound)
		return
	}
	log, err := os.Open(filepath.Join(of.folder, container+".log"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	defer log.Close()
	if last, err := strconv.Atoi(r.URL.Query().Get("tailLines")); err == nil {
		content, _ := io.ReadAll(log) // what there is
		lines := slices.Collect(strings.Lines(string(content)))
		_, _ = io.WriteString(w, strings.Join(lines[max(0, len(lines)-last):], "")) // the client sees the end
		return
	}
	for r.Context().Err() == nil {
		of.mutex.Lock()
		running := of.running[container] != nil
		of.mutex.Unlock()
		if _, err := io.Copy(w, log); err != nil || !running || r.URL.Query().Get("follow") != "true" {
			return
		}
		_ = http.NewResponseController(w).Flush() // the next write fails
		of.pause()
	}
}

// forward copies between a stream and a port. A cut connection ends without warning.
func forward(stream, failure httpstream.Stream, address string, cut int64) {
	var dialer net.Dialer
	connection, err := dialer.DialContext(context.Background(), "tcp", address)
	if err != nil {
		if failure != nil {
			_, _ = io.WriteString(failure, err.Error()) // the client sees the end too
			_ = failure.Close()
		}
		return
	}
	defer connection.Close()
	go func() {
		_, _ = io.Copy(connection, stream) // its end is the other direction's
		_ = connection.(*net.TCPConn).CloseWrite()
	}()
	var from io.Reader = connection
	if cut > 0 {
		from = io.LimitReader(connection, cut)
	}
	_, _ = io.Copy(stream, from)
	_ = stream.Close()
}
