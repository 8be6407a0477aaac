package provisioner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	provisionerv1 "github.com/waybill-dev/waybill/api/provisioner/v1"
	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/kube"
	"github.com/waybill-dev/waybill/internal/kube/runner"
	"github.com/waybill-dev/waybill/internal/loop"
	"github.com/waybill-dev/waybill/internal/obs"
)

// KubernetesConfig configures workers in pods. Every field must be set, unless its comment makes it optional.
type KubernetesConfig struct {
	Cluster        *kube.Cluster
	Image          string            // has this program and git in its PATH
	PullPolicy     string            // pull policy of the workers' images and their steps'; "": Kubernetes' own
	ServiceAccount string            // account of the workers, with the rights to run steps; "": waybill-worker
	Accounts       []string          // accounts that steps may name beside default; may be nil
	Credentials    map[string]string // paths of files of git-credential-store, by name; may be nil
	Grace          time.Duration     // how long a worker may take to end; 0: 10 min
	Linger         time.Duration     // how long a worker stays after its build's end; 0: 24 h
	Snapshots      *Snapshots
	Telemetry      Telemetry // may be nil
	Log            *slog.Logger
}

// Kubernetes is the back end whose workers are pods of one namespace. It keeps nothing: the pods are all there is.
type Kubernetes struct {
	KubernetesConfig
	started chan struct{} // wakes Run when a pod was made
}

var _ Backend = (*Kubernetes)(nil)

// askLimit bounds a request to the cluster.
const askLimit = 30 * time.Second

// NewKubernetes returns the back end. It does not call the cluster.
func NewKubernetes(c KubernetesConfig) *Kubernetes {
	c.ServiceAccount = cmp.Or(c.ServiceAccount, "waybill-worker")
	c.Grace, c.Linger = cmp.Or(c.Grace, defaultGrace), cmp.Or(c.Linger, defaultLinger)
	return &Kubernetes{c, make(chan struct{}, 1)}
}

// asking bounds a request to the cluster.
func asking(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, askLimit, fmt.Errorf("the cluster has not answered within %s", askLimit))
}

// Create starts a worker, or finds the one that was started. The pod waits for its Secrets, which are made after it: they belong to it.
// Dying in between leaves a pod that does nothing; the next request makes them.
func (k *Kubernetes) Create(ctx context.Context, launch Launch) (provisionerv1.Worker, bool, error) {
	ctx, cancel := asking(ctx)
	defer cancel()
	m, err := k.manifest(ctx, launch)
	if err != nil {
		return provisionerv1.Worker{}, false, err
	}
	pod, err := k.Cluster.Pods().Create(ctx, &unstructured.Unstructured{Object: m.pod()}, metav1.CreateOptions{})
	created := err == nil
	if apierrors.IsAlreadyExists(err) {
		pod, m, err = k.adopt(ctx, m)
	}
	if err != nil {
		return provisionerv1.Worker{}, false, refused(ctx, fmt.Sprintf("start the worker of build %d", launch.BuildID), err)
	}
	for name, content := range m.secrets() {
		if err := k.putSecret(ctx, m.secret(name, string(pod.GetUID()), content)); err != nil {
			return provisionerv1.Worker{}, false, refused(ctx, fmt.Sprintf("give build %d's worker its Secret %s", launch.BuildID, name), err)
		}
	}
	loop.Poke(k.started)
	if created {
		k.Log.Info("worker started", obs.KeyBuildID, launch.BuildID, obs.KeyWorkerID, pod.GetName())
	}
	w, err := workerOf(pod)
	return w, created, err
}

// adopt returns the pod that an earlier request has made, if it was the same request, and its parts: a builder key
// may have come since.
func (k *Kubernetes) adopt(ctx context.Context, m workerManifest) (*unstructured.Unstructured, workerManifest, error) {
	pod, err := k.Cluster.Pods().Get(ctx, m.name, metav1.GetOptions{})
	if err != nil {
		return nil, m, err
	}
	switch labels := pod.GetLabels(); {
	case labels[labelManagedBy] != managedBy || labels[labelComponent] != component || labels[labelInstance] != m.Instance ||
		labels[labelBuild] != strconv.FormatInt(m.BuildID, 10):
		return nil, m, fault.New(fault.Conflict, "the pod %s is not a worker of build %d", m.name, m.BuildID)
	case pod.GetAnnotations()[annotationDigest] != m.Digest:
		return nil, m, errOtherRequest(m.Launch)
	case pod.GetDeletionTimestamp() != nil:
		return nil, m, errDeleted(m.Launch)
	}
	number, _ := strconv.Atoi(pod.GetAnnotations()[annotationKey]) // no key has the number 0
	launch, err := m.under(number)
	if err == nil && number != m.Key {
		m, err = k.manifest(ctx, launch)
	}
	return pod, m, err
}

// putSecret makes a Secret of a pod. One of an earlier pod of the same name is replaced.
func (k *Kubernetes) putSecret(ctx context.Context, secret *unstructured.Unstructured) error {
	_, err := k.Cluster.Secrets().Create(ctx, secret, metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	old, err := k.Cluster.Secrets().Get(ctx, secret.GetName(), metav1.GetOptions{})
	if err != nil {
		return err
	}
	if owners := old.GetOwnerReferences(); len(owners) == 1 && owners[0].UID == secret.GetOwnerReferences()[0].UID {
		return nil
	}
	if old.GetLabels()[labelManagedBy] != managedBy {
		return fault.New(fault.Conflict, "the Secret %s is not Waybill's", secret.GetName())
	}
	if err := k.Cluster.Secrets().Delete(ctx, old.GetName(),
		*metav1.NewPreconditionDeleteOptions(string(old.GetUID()))); err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	_, err = k.Cluster.Secrets().Create(ctx, secret, metav1.CreateOptions{})
	return err
}

// refused returns an error of the cluster with the caller's remedy. An error that may pass on its own is
// fault.Unavailable.
func refused(ctx context.Context, doing string, err error) error {
	_, coded := errors.AsType[*fault.Error](err)
	switch {
	case coded:
		return err
	case apierrors.IsForbidden(err) && strings.Contains(err.Error(), "exceeded quota"):
		return fault.New(fault.Unavailable, "%s: the namespace has no room: %w", doing, err)
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		return fault.New(fault.Unavailable, "%s: %w", doing, err).
			WithHint("the provisioner's account lacks rights: kubectl apply -n NAMESPACE -f config/builder/rbac.yaml")
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err), apierrors.IsRequestEntityTooLargeError(err):
		return fault.New(fault.Invalid, "%s: %w", doing, err)
	case context.Cause(ctx) != nil:
		return fault.New(fault.Unavailable, "%s: %w", doing, context.Cause(ctx))
	}
	return fault.New(fault.Unavailable, "%s: %w", doing, err)
}

// List returns the workers of the namespace that were not removed.
func (k *Kubernetes) List(ctx context.Context) ([]provisionerv1.Worker, error) {
	ctx, cancel := asking(ctx)
	defer cancel()
	var workers []provisionerv1.Worker
	err := k.each(ctx, func(pod *unstructured.Unstructured) error {
		w, err := workerOf(pod)
		if err == nil {
			workers = append(workers, w)
		}
		return err
	})
	return workers, err
}

// each visits the pods of all workers.
func (k *Kubernetes) each(ctx context.Context, visit func(pod *unstructured.Unstructured) error) error {
	ours := labelManagedBy + "=" + managedBy + "," + labelComponent + "=" + component
	for pod, err := range kube.List(ctx, k.Cluster.Pods(), metav1.ListOptions{LabelSelector: ours}) {
		if err != nil {
			return refused(ctx, "list the workers", err)
		}
		if _, err := buildOf(pod); err != nil { // not made by a provisioner
			k.Log.Warn("pod ignored", obs.KeyWorkerID, pod.GetName(), obs.Error(err))
			continue
		}
		if err := visit(pod); err != nil {
			return err
		}
	}
	return nil
}

// buildOf returns the build of a worker's pod.
func buildOf(pod *unstructured.Unstructured) (int64, error) {
	id, err := strconv.ParseInt(pod.GetLabels()[labelBuild], 10, 64)
	if err != nil || id < 1 {
		return 0, fault.New(fault.Unavailable, "the pod %s has the labels of a worker, but %s is not the number of a build",
			pod.GetName(), labelBuild)
	}
	return id, nil
}

// workerOf describes a worker as its pod reports it. One that is being deleted runs until it has ended.
func workerOf(pod *unstructured.Unstructured) (provisionerv1.Worker, error) {
	labels, notes := pod.GetLabels(), pod.GetAnnotations()
	report, err := runner.ReportOf(pod, WorkerContainer)
	if err != nil {
		return provisionerv1.Worker{}, fault.Wrap(fault.Unavailable, err)
	}
	w := provisionerv1.Worker{WorkerID: pod.GetName(), Name: pod.GetName(), UID: string(pod.GetUID()),
		Project: notes[annotationProject], Instance: labels[labelInstance],
		Status: string(build.WorkerPending), Reason: build.Printable(report.Trouble, nil),
		CreatedAt: pod.GetCreationTimestamp().UTC(), StartedAt: report.StartedAt}
	if w.BuildID, err = buildOf(pod); err != nil {
		return w, err
	}
	if at, err := time.Parse(time.RFC3339, notes[annotationCreated]); err == nil {
		w.CreatedAt = at
	}
	w.Key, _ = strconv.Atoi(notes[annotationKey]) // 0: no reader has such a key
	if at, grace := pod.GetDeletionTimestamp(), pod.GetDeletionGracePeriodSeconds(); at != nil && grace != nil {
		w.DeletedAt = at.Add(-time.Duration(*grace) * time.Second) // the object has when the grace ends
	}
	switch {
	case report.Ended:
		w.Status = string(build.WorkerEnded)
	case report.NodeLost:
		w.Status = string(build.WorkerUnknown)
	case report.Running && (report.Ready || pod.GetDeletionTimestamp() != nil):
		w.Status, w.Reason = string(build.WorkerRunning), ""
	}
	if report.IP != "" || report.Ended { // its log can be read
		w.Address = kube.PodAddress{Namespace: pod.GetNamespace(), Pod: pod.GetName(), Port: workerPort,
			UID: string(pod.GetUID()), IP: report.IP}.String()
	}
	return w, nil
}

// Delete asks a worker to end: it has the grace for its results to be taken. By force, and on a node that is lost, the pod is removed at
// once.
func (k *Kubernetes) Delete(ctx context.Context, workerID string, force bool) error {
	if !strings.HasPrefix(workerID, namePrefix) {
		return nil
	}
	ctx, cancel := asking(ctx)
	defer cancel()
	doing := "end the worker " + workerID
	pod, err := k.Cluster.Pods().Get(ctx, workerID, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return refused(ctx, doing, err)
	}
	if labels := pod.GetLabels(); labels[labelManagedBy] != managedBy || labels[labelComponent] != component {
		return fault.New(fault.Conflict, "the pod %s is not a worker", workerID)
	}
	w, err := workerOf(pod)
	if err != nil {
		return err
	}
	options := metav1.NewPreconditionDeleteOptions(string(pod.GetUID()))
	if now := int64(0); force || w.Status == string(build.WorkerUnknown) {
		options.GracePeriodSeconds = &now
	}
	// another pod: this one is gone
	if err := k.Cluster.Pods().Delete(ctx, workerID, *options); err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return refused(ctx, doing, err)
	}
	k.Log.Info("worker deleted", obs.KeyBuildID, w.BuildID, obs.KeyWorkerID, workerID)
	return nil
}
