package runner

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	shimv1 "github.com/waybill-dev/waybill/api/shim/v1"
	"github.com/waybill-dev/waybill/internal/attempt"
	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/buildcache"
	"github.com/waybill-dev/waybill/internal/command"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/kube"
	"github.com/waybill-dev/waybill/internal/workspace"
)

// Config configures a Runner, beside its cluster. Zero times are the defaults. Zero times are the defaults.
type Config struct {
	ShimImage  string // has this program as waybill in its PATH
	PullPolicy string // policy of all images; "": always, but not for digests and the shim's
	Owner      *Owner // nil: pods belong to no object
	Cache      *buildcache.Shelf
	Accounts   []string // service accounts that steps may name; nil: any. Those of tools are configured
	From       string   // names this user of this computer; pods of it that have ended are removed by the next build. "": none are

	Grace        time.Duration // between SIGTERM and SIGKILL of a step that is ended
	Timeout      time.Duration // bounds the build
	PullDeadline time.Duration // how long an image that cannot be pulled is waited for
	Silence      time.Duration // after so long without the worker a step is ended
	Away         time.Duration // how long the cluster may not answer
}

// Owner is the pod of the worker, with which its steps' pods are removed.
type Owner struct {
	Name, UID string
}

// OwnerFrom reads the owner from the environment of a worker; nil if it has none.
func OwnerFrom(get func(string) string) (*Owner, error) {
	switch enable := get("WHARF_KUBERNETES_OWNER_ENABLE"); enable {
	case "", "false":
		return nil, nil //nolint:nilnil // no owner
	case "true":
	default:
		return nil, fault.New(fault.Invalid, "WHARF_KUBERNETES_OWNER_ENABLE is %q: want true or false", enable)
	}
	owner := &Owner{Name: get("WHARF_KUBERNETES_OWNER_NAME"), UID: get("WHARF_KUBERNETES_OWNER_UID")}
	if owner.Name == "" || owner.UID == "" {
		return nil, fault.New(fault.Invalid,
			"WHARF_KUBERNETES_OWNER_ENABLE is true, so WHARF_KUBERNETES_OWNER_NAME and WHARF_KUBERNETES_OWNER_UID must be set")
	}
	return owner, nil
}

// Runner runs the steps of one build.
type Runner struct {
	Config
	cluster *kube.Cluster
	pods    dynamic.ResourceInterface
	secrets dynamic.ResourceInterface
	seen    *pods
	run     string // a random text that only this run's pods have
	dial    *kube.Dialer

	watching sync.Once
	stop     context.CancelFunc
	stopped  chan struct{}
	removing sync.WaitGroup // removals of pods whose steps have ended

	packing  sync.Mutex
	packed   *os.File // the build's workspace as a snapshot; nil: not yet
	digest   string
	packName string
}

// New returns a runner for one build. Close must be called at the end of the build.
func New(cluster *kube.Cluster, config Config) *Runner {
	set := func(d *time.Duration, fallback time.Duration) {
		if *d <= 0 {
			*d = fallback
		}
	}
	set(&config.Grace, command.DefaultGrace)
	set(&config.Timeout, build.DefaultTimeout)
	set(&config.PullDeadline, defaultPullDeadline)
	set(&config.Silence, shimv1.Silence)
	set(&config.Away, 10*time.Minute)
	r := &Runner{Config: config, cluster: cluster, run: strings.ToLower(rand.Text()[:16]), dial: cluster.Dialer(),
		stopped: make(chan struct{})}
	r.pods = cluster.Pods()
	r.secrets = cluster.Secrets()
	r.seen = newPods(r.pods, cluster.Events(), labelRun+"="+r.run)
	return r
}

// Where returns the namespace and the address of its cluster, for people.
func (r *Runner) Where() string {
	return fmt.Sprintf("namespace %s of %s", r.cluster.Namespace, r.cluster.Host())
}

// watch begins to follow the build's pods.
func (r *Runner) watch(ctx context.Context) {
	r.watching.Do(func() {
		ctx, r.stop = context.WithCancel(context.WithoutCancel(ctx))
		go func() {
			defer close(r.stopped)
			r.removeLeftovers(ctx)
			if err := r.seen.run(ctx); err != nil {
				r.seen.interrupted(err)
			}
		}()
	})
}

// removeLeftovers deletes the pods of builds that were killed. Those that have ended have nothing to read any more;
// the shims of the others end on their own.
func (r *Runner) removeLeftovers(ctx context.Context) {
	if r.From == "" {
		return
	}
	left, err := r.pods.List(ctx, metav1.ListOptions{LabelSelector: labelFrom + "=" + label(r.From) + "," + labelRun + "!=" + r.run})
	if err != nil {
		return // the next build looks again
	}
	for _, one := range left.Items {
		phase, _, _ := unstructured.NestedString(one.Object, "status", "phase") // absent: not ended
		if phase == "Succeeded" || phase == "Failed" {
			_ = r.secrets.Delete(ctx, one.GetName(), metav1.DeleteOptions{}) // else it goes with its owner, the pod
			_ = r.pods.Delete(ctx, one.GetName(), *metav1.NewPreconditionDeleteOptions(string(one.GetUID())))
		}
	}
}

// Close stops watching, and deletes the rest of the build's pods. It returns an error that names pods that stay.
func (r *Runner) Close(ctx context.Context) error {
	if r.stop == nil {
		return nil
	}
	r.removing.Wait()
	r.stop()
	<-r.stopped
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), deleteLimit, fmt.Errorf("pods still exist after %s", deleteLimit))
	defer cancel()
	return r.sweep(ctx)
}

// sweep deletes the build's pods until the cluster has none.
func (r *Runner) sweep(ctx context.Context) error {
	again := time.NewTicker(time.Second)
	defer again.Stop()
	for {
		left, err := r.pods.List(ctx, metav1.ListOptions{LabelSelector: labelRun + "=" + r.run})
		if err == nil && len(left.Items) == 0 {
			return nil
		}
		if err == nil {
			for _, one := range left.Items {
				_ = r.pods.Delete(ctx, one.GetName(), metav1.DeleteOptions{}) // looked at again
			}
			err = fmt.Errorf("%d pods are left", len(left.Items))
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return fmt.Errorf("delete the pods of the build (kubectl delete pod -n %s -l %s=%s): %w", r.cluster.Namespace,
				labelRun, r.run, errors.Join(context.Cause(ctx), err))
		}
	}
}

// Check lists the steps that cannot run on the cluster, all at once. The cluster is asked whether it would accept the
// first step's pod.
func (r *Runner) Check(ctx context.Context, steps []build.PlanStep) fault.Problems {
	var problems fault.Problems
	for _, step := range steps {
		if account := step.Spec.ServiceAccount; r.Accounts != nil && step.Type == "container" && account != "" &&
			!slices.Contains(r.Accounts, account) {
			problems = append(problems, fault.Problem{Position: step.At, Code: "account-refused", Scope: step.Path(),
				Text: fmt.Sprintf("steps may not run as the service account %.100q, only as %s", account, strings.Join(r.Accounts, ", "))})
		}
		if step.Spec.OS == "windows" {
			problems = append(problems, fault.Problem{Position: step.At, Code: "os-unfit", Scope: step.Path(),
				Text: "pods with os: windows are not supported: what runs beside a step needs linux"})
		}
	}
	if len(problems) == 0 && len(steps) > 0 {
		problems.Add(r.tryPod(ctx, steps[0])...)
	}
	problems.Sort()
	return problems
}

// Preview reports the same as Check, and asks the cluster about the pod of every step. It changes nothing there.
func (r *Runner) Preview(ctx context.Context, steps []build.PlanStep) (remarks []string, problems fault.Problems) {
	problems = r.Check(ctx, steps)
	if problems.Err() != nil || len(steps) == 0 {
		return nil, problems
	}
	for _, step := range steps[1:] {
		problems.Add(r.tryPod(ctx, step)...)
	}
	return []string{fmt.Sprintf("the cluster accepts the pods of all %d steps", len(steps))}, problems
}

// tryPod asks the cluster whether it would accept the pod of a step. With a full quota the step would wait. It would for an API server that
// is away, too: a worker's pod bears that, since the cluster has just started it, and its build is not begun again by a person.
func (r *Runner) tryPod(ctx context.Context, step build.PlanStep) fault.Problems {
	m := manifest{Config: r.Config, run: build.Run{Build: "check", Step: step, Attempt: 1},
		name: podName(step, r.run, "check"), namespace: r.cluster.Namespace, runs: r.run}
	_, err := r.pods.Create(ctx, &unstructured.Unstructured{Object: m.pod()}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if err == nil || overQuota(err) || r.Owner != nil && !final(err) && !apierrors.IsUnauthorized(err) {
		return nil
	}
	return fault.Problems{{Position: step.At, Code: "cluster-refuses", Scope: step.Path(),
		Text: fmt.Sprintf("Kubernetes, namespace %s: %v", r.cluster.Namespace, err)}}
}

// overQuota reports whether the cluster refuses a pod because the namespace has too many.
func overQuota(err error) bool {
	return apierrors.IsForbidden(err) && strings.Contains(err.Error(), "exceeded quota")
}

// maxPods bounds the pods that an attempt may use up before its program begins.
const maxPods = 4

// Run makes one attempt at a step. A pod that is lost before the program begins is replaced, which costs no attempt. When ctx ends the
// program gets SIGTERM, and SIGKILL after the grace. When the program has ended, Run does not wait until its pod is gone; Close does.
func (r *Runner) Run(ctx context.Context, run build.Run, sink build.Sink) (exit build.Exit, err error) {
	r.watch(ctx)
	folder := filepath.Join(run.Scratch, strconv.Itoa(run.Step.ID))
	defer func() { err = errors.Join(err, workspace.Remove(folder)) }()
	if err := errors.Join(sink.Phase(build.Initializing), os.MkdirAll(folder, 0o700)); err != nil {
		return build.Exit{}, err
	}
	given, err := r.give(ctx, run, folder, sink)
	if err != nil {
		return build.Exit{}, err
	}
	defer given.close()
	for n := 1; ; n++ {
		name := podName(run.Step, r.run, run.Build, strconv.Itoa(run.Step.ID), strconv.Itoa(run.Attempt), strconv.Itoa(n))
		a := &podAttempt{runner: r, run: run, sink: sink, given: given, folder: folder, watched: map[string]bool{},
			pod: manifest{Config: r.Config, run: run, name: name, namespace: r.cluster.Namespace, runs: r.run}}
		exit, err := a.make(ctx)
		if err != nil && ctx.Err() != nil && a.waits != "" {
			err = &build.WaitError{For: a.waits, Err: err}
		}
		gone, ok := errors.AsType[*lossError](err)
		if !ok || gone.began || n == maxPods || ctx.Err() != nil {
			return exit, err
		}
		if err := sink.Note(fmt.Sprintf("%s; pod %d of %d", gone.text, n+1, maxPods)); err != nil {
			return exit, err
		}
	}
}

// given holds the inputs of a step's pod.
type given struct {
	snapshot *os.File
	own      bool // the snapshot is this attempt's
	digest   string
	files    *attempt.Files
}

func (g *given) close() {
	g.files.Close()
	if g.own {
		_ = g.snapshot.Close() // only read
	}
}

// give makes the step's workspace: the build's snapshot, or one of its own if other steps or earlier builds add files.
func (r *Runner) give(ctx context.Context, run build.Run, folder string, sink build.Sink) (*given, error) {
	files := &attempt.Files{Run: run, Shelf: r.Cache, Sink: sink}
	err := files.Stage(ctx, filepath.Join(folder, "repo"))
	if err != nil {
		return nil, err
	}
	g := &given{own: files.Repo() != run.Tree, files: files}
	if g.own {
		g.snapshot, g.digest, err = pack(ctx, files.Repo(), filepath.Join(folder, "snapshot"))
	} else {
		g.snapshot, g.digest, err = r.shared(ctx, run)
	}
	if err != nil {
		files.Close()
		return nil, err
	}
	return g, nil
}

// shared returns the snapshot of the build's workspace, which is packed once.
func (r *Runner) shared(ctx context.Context, run build.Run) (*os.File, string, error) {
	r.packing.Lock()
	defer r.packing.Unlock()
	if r.packed == nil || r.packName != run.Tree {
		file, digest, err := pack(ctx, run.Tree, filepath.Join(run.Scratch, "workspace.tar.zst"))
		if err != nil {
			return nil, "", err
		}
		r.packed, r.digest, r.packName = file, digest, run.Tree
	}
	return r.packed, r.digest, nil
}

func pack(ctx context.Context, root, path string) (*os.File, string, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o600)
	if err != nil {
		return nil, "", fmt.Errorf("pack the workspace: %w", err)
	}
	packed, err := workspace.PackPart(ctx, file, root, func(string) bool { return true })
	if err != nil {
		return nil, "", errors.Join(fmt.Errorf("pack the workspace: %w", err), file.Close())
	}
	return file, packed.Digest, nil
}
