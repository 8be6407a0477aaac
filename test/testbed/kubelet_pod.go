package testbed

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
)

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
	return corev1.ContainerStatus{Name: c.Name, Image: c.Image,
		State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}}
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
		argv[i] = p.local(strings.ReplaceAll(a, "$$", "$"))
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
	p.setContainer(c.Name,
		corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: int32(code), Reason: reason, FinishedAt: metav1.Now()}})
	return code
}

// local returns a text with the pod's folders for those of its containers.
func (p *podRun) local(text string) string {
	for _, volume := range append(slices.Clone(p.pod.Spec.Volumes), corev1.Volume{Name: accountVolume}) {
		text = strings.ReplaceAll(text, "/mnt/"+volume.Name, filepath.Join(p.folder, "mnt", volume.Name))
	}
	return text
}

// accountFolder is the folder in which a container finds the account of its pod.
const accountFolder = "/var/run/secrets/kubernetes.io/serviceaccount"

// accountVolume is the folder of a pod's account among its volumes.
const accountVolume = "identity-of-the-pod"

// mountAccount runs a program that sees the folder $0 as accountFolder.
const mountAccount = `mount -t tmpfs tmpfs /run && mkdir -p /var/run/secrets/kubernetes.io && cp -r "$0" ` + accountFolder + ` && exec "$@"`

// account writes the files of the pod's account, and returns the variables by which its cluster is found.
func (p *podRun) account() ([]string, error) {
	token, err := p.k.client.CoreV1().ServiceAccounts(p.pod.Namespace).
		CreateToken(p.ctx, p.pod.Spec.ServiceAccountName, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
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
		value := p.local(strings.ReplaceAll(e.Value, "$$", "$"))
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
		err := p.k.client.CoreV1().Pods(p.pod.Namespace).
			Delete(p.ctx, p.pod.Name, metav1.DeleteOptions{GracePeriodSeconds: &now, Preconditions: &metav1.Preconditions{UID: &uid}})
		if err == nil || strings.Contains(err.Error(), "not found") {
			return
		}
		p.pause()
	}
}

func (p *podRun) freeze() {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.status.Conditions = append(p.status.Conditions, corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue,
		Reason: "DeletionByTaintManager", Message: "Taint manager: deleting due to NoExecute taint"})
	p.frozen = true
}
