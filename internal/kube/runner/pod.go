package runner

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	shimv1 "github.com/waybill-dev/waybill/api/shim/v1"
	"github.com/waybill-dev/waybill/internal/attempt"
	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/loop"
	"github.com/waybill-dev/waybill/internal/workspace"
)

// Times of an attempt.
const (
	firstPause   = 200 * time.Millisecond
	longestPause = 5 * time.Second
	quotaPause   = 5 * time.Second
	alivePause   = 30 * time.Second // between two signs of life
	unseenPause  = 30 * time.Second // for a pod that was made and is not seen
	deleteLimit  = 3 * time.Minute
	forceAfter   = 90 * time.Second // a pod whose node does not answer is removed without it
	memoryWait   = 20 * time.Second // for the reason of a program that was killed
)

// lossError says that a pod was lost.
type lossError struct {
	text  string
	began bool // the step's program may have begun
}

func (e *lossError) Error() string { return e.text }

// podAttempt is one pod of an attempt.
type podAttempt struct {
	runner *Runner
	pod    manifest
	run    build.Run
	sink   build.Sink
	given  *given
	folder string

	uid   string
	token string

	mutex   sync.Mutex
	watched map[string]bool // what was noted of the pod
}

// make runs the step in a pod and deletes the pod.
func (a *podAttempt) make(ctx context.Context) (exit build.Exit, err error) {
	if err := a.create(ctx); err != nil {
		return build.Exit{}, err
	}
	podCtx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	observing := make(chan struct{})
	go func() {
		defer close(observing)
		a.observe(podCtx, cancel)
	}()
	exit, err = a.use(ctx, podCtx, cancel)
	cancel(nil)
	<-observing
	force := forceAfter
	if gone, ok := errors.AsType[*lossError](err); ok && strings.HasPrefix(gone.text, nodeLost) {
		force = longestPause // the cluster has given the node up; its shims end the program
	}
	return exit, errors.Join(err, a.remove(context.WithoutCancel(ctx), force))
}

// use talks to the shims of the pod.
func (a *podAttempt) use(ctx, podCtx context.Context, cancel context.CancelCauseFunc) (build.Exit, error) {
	early := context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) }) // until the program begins
	client, err := a.prepare(podCtx)
	if err != nil {
		early()
		return build.Exit{}, err
	}
	if !early() {
		return build.Exit{}, context.Cause(ctx)
	}
	if err := a.sink.Phase(build.Running); err != nil {
		return build.Exit{}, err
	}
	return a.work(ctx, podCtx, client, cancel)
}

// work follows the step's program to its end, and keeps what it leaves.
func (a *podAttempt) work(ctx, podCtx context.Context, client *Client, cancel context.CancelCauseFunc) (build.Exit, error) {
	var beside sync.WaitGroup
	defer beside.Wait()
	besideCtx, done := context.WithCancel(podCtx)
	defer done()
	beside.Go(func() { a.signal(besideCtx, client) })
	running, ended := context.WithCancel(podCtx)
	defer ended()
	late := context.AfterFunc(ctx, func() { a.end(running, client, cancel) })
	defer late()
	defer a.followServices(podCtx)()

	trailer, reason, err := a.read(podCtx, client)
	ended()
	if err != nil {
		return build.Exit{}, err
	}
	if trailer.Fault != "" {
		return build.Exit{}, faultOf("run the step's program: "+trailer.Fault, trailer.OfStep)
	}
	exit := build.Exit{Code: trailer.Code, Reason: reason}
	if err := a.keep(ctx, podCtx, client, exit); err != nil {
		return exit, err
	}
	_ = client.Release(podCtx) // the pod is deleted in any case
	return exit, nil
}

// create creates the pod, or finds the one that an earlier request has made, and its Secret.
func (a *podAttempt) create(ctx context.Context) error {
	a.token = rand.Text()
	body := &unstructured.Unstructured{Object: a.pod.pod()}
	err := a.persist(ctx, "create the pod", func(ctx context.Context) error {
		made, err := a.runner.pods.Create(ctx, body, metav1.CreateOptions{})
		for overQuota(err) {
			if err := a.noteOnce("Quota: " + err.Error()); err != nil {
				return &fatalError{err}
			}
			if !loop.Pause(ctx, quotaPause) {
				return context.Cause(ctx)
			}
			made, err = a.runner.pods.Create(ctx, body, metav1.CreateOptions{})
		}
		if apierrors.IsAlreadyExists(err) {
			made, err = a.runner.pods.Get(ctx, a.pod.name, metav1.GetOptions{})
			if err == nil && made.GetLabels()[labelRun] != a.pod.runs {
				return &fatalError{fmt.Errorf("a pod of that name is not this build's")}
			}
		}
		if err == nil {
			a.uid = string(made.GetUID())
		}
		return err
	})
	if err != nil {
		return err
	}
	secret := &unstructured.Unstructured{Object: a.pod.secret(a.uid, a.token)}
	err = a.persist(ctx, "create the pod's Secret", func(ctx context.Context) error {
		_, err := a.runner.secrets.Create(ctx, secret, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) { // an earlier request has made it, with the same token
			return nil
		}
		return err
	})
	if err != nil {
		return errors.Join(err, a.remove(context.WithoutCancel(ctx), forceAfter))
	}
	return nil
}

// prepare gives the pod its workspace, and returns once the step's program may have begun.
func (a *podAttempt) prepare(ctx context.Context) (*Client, error) {
	ready := func(p *pod) bool {
		state := p.container(containerInit)
		return state.Running != nil || state.Terminated != nil
	}
	if err := a.await(ctx, ready); err != nil {
		return nil, err
	}
	client := NewClient(a.token, a.connect)
	received := func() bool {
		now := a.runner.seen.look(a.uid)
		return now.pod != nil && now.pod.container(containerInit).Terminated != nil
	}
	err := a.transfer(ctx, "send the workspace", func(ctx context.Context) (int64, error) {
		if received() { // the answer was lost
			return 0, nil
		}
		has, err := client.Upload(ctx, a.given.snapshot)
		if err != nil {
			return has, err
		}
		return has, client.Unpack(ctx, a.given.digest)
	})
	if err != nil {
		return nil, err
	}
	return client, a.await(ctx, (*pod).began)
}

// connect opens a connection to the shim that listens.
func (a *podAttempt) connect(ctx context.Context) (net.Conn, error) {
	ip := ""
	if now := a.runner.seen.look(a.uid); now.pod != nil {
		ip = now.pod.Status.PodIP
	}
	return a.runner.dial.Dial(ctx, a.pod.name, ip, shimv1.Port)
}

// await waits for a state of the pod.
func (a *podAttempt) await(ctx context.Context, done func(*pod) bool) error {
	there, err := a.runner.seen.await(ctx, a.uid, done)
	if err == nil && !there {
		err = &lossError{text: "Deleted: the pod is gone"}
	}
	return err
}

// observe notes what the pod reports, and cancels with the reason when it has to end.
func (a *podAttempt) observe(ctx context.Context, cancel context.CancelCauseFunc) {
	since := map[string]trouble{} // kinds of trouble
	began, troubled := false, false
	for {
		now := a.runner.seen.look(a.uid)
		var again <-chan time.Time
		switch {
		case now.gone:
			cancel(&lossError{"Deleted: the pod is gone", began})
			return
		case now.trouble != nil:
			if !troubled {
				_ = a.noteOnce(fmt.Sprintf("watching pods was interrupted: %v; it resumes by itself", now.trouble)) // the log fails elsewhere too
			}
		}
		troubled = now.trouble != nil
		if now.pod != nil {
			began = began || now.pod.began()
			v := judge(now.pod, a.runner.PullDeadline)
			if v.Outcome == fine {
				v = judgeWarnings(now.pod, now.warnings)
			}
			for _, text := range now.warnings {
				_ = a.note(text) // the log fails elsewhere too
			}
			timer, end := a.act(v, began, since)
			if end != nil {
				cancel(end)
				return
			}
			again = timer
		} else {
			again = time.After(unseenPause)
		}
		select {
		case <-now.changed:
		case <-again:
			if now.pod == nil && a.missing(ctx) {
				cancel(&lossError{"Deleted: the pod is gone", began})
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

// missing reports whether a pod that was never seen is gone: it was deleted while watching was interrupted.
func (a *podAttempt) missing(ctx context.Context) bool {
	found, err := a.runner.pods.Get(ctx, a.pod.name, metav1.GetOptions{})
	return apierrors.IsNotFound(err) || err == nil && string(found.GetUID()) != a.uid
}

// note notes what the pod reports, but for what is missing only for a moment: the pod's own Secret belongs to the pod, and is made
// after it.
func (a *podAttempt) note(text string) error {
	text = a.run.Mask.Text(text)
	if strings.HasPrefix(text, podConfig) && strings.Contains(text, a.pod.name) {
		return nil
	}
	return a.noteOnce(text)
}

// act notes a verdict. It returns why the pod ends, or when it has to be judged again.
func (a *podAttempt) act(v verdict, began bool, since map[string]trouble) (<-chan time.Time, error) {
	if v.Outcome == fine {
		return nil, nil
	}
	v.Text = a.run.Mask.Text(v.Text)
	switch v.Outcome {
	case lost:
		return nil, &lossError{v.Text, began}
	case failed:
		return nil, faultOf(v.Text, v.OfStep)
	}
	if err := a.note(v.Text); err != nil {
		return nil, err
	}
	if v.Patience == 0 {
		return nil, nil
	}
	kind, _, _ := strings.Cut(v.Text, ":")
	seen := since[kind]
	if seen.since.IsZero() {
		seen.since = time.Now()
	}
	seen.ofStep = seen.ofStep || v.OfStep // what follows an error, such as a back-off, does not repeat its text
	since[kind] = seen
	left := v.Patience - time.Since(seen.since)
	if left <= 0 {
		return nil, faultOf(fmt.Sprintf("%s (for %s)", v.Text, v.Patience), seen.ofStep)
	}
	return time.After(left), nil
}

// trouble is a kind of trouble that a pod has.
type trouble struct {
	since  time.Time
	ofStep bool // it is the step's own fault
}

// faultOf returns the error of an attempt that has to end.
func faultOf(text string, ofStep bool) error {
	if ofStep {
		return &build.StepError{Text: text}
	}
	return errors.New(text)
}

// maxNotes bounds what is noted of one pod.
const maxNotes = 50

// noteOnce notes a text that was not noted of this pod before.
func (a *podAttempt) noteOnce(text string) error {
	a.mutex.Lock()
	before := a.watched[text] || len(a.watched) >= maxNotes
	a.watched[text] = true
	a.mutex.Unlock()
	if before {
		return nil
	}
	return a.sink.Note(text)
}

// persist tries until it succeeds, until the error is one that trying again does not change, or until the cluster was away for too long.
func (a *podAttempt) persist(ctx context.Context, what string, try func(context.Context) error) error {
	return a.transfer(ctx, what, func(ctx context.Context) (int64, error) { return 0, try(ctx) })
}

// transfer persists with a try that moves bytes and returns how far it came. A try that came further shows that the cluster is there, and
// the time that a try itself takes does not count.
func (a *podAttempt) transfer(ctx context.Context, what string, try func(context.Context) (int64, error)) error {
	there, furthest, wait, noted := time.Now(), int64(0), firstPause, false
	for {
		began := time.Now()
		at, err := try(ctx)
		if at > furthest {
			there, furthest, wait = time.Now(), at, firstPause
		}
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case final(err):
			return fmt.Errorf("%s: %w", what, err)
		case began.Sub(there) > a.runner.Away:
			return fmt.Errorf("Unknown: %s, for %s: %w", what, a.runner.Away, err) //nolint:staticcheck // a reason, as Kubernetes writes them
		case wait >= longestPause && !noted:
			noted = true
			if err := a.noteOnce(fmt.Sprintf("%s: %v; it is tried again", what, err)); err != nil {
				return err
			}
		}
		if !loop.Pause(ctx, wait) {
			return context.Cause(ctx)
		}
		wait = min(2*wait, longestPause)
	}
}

// final reports whether trying again does not change an error.
func final(err error) bool {
	if _, ok := errors.AsType[*fatalError](err); ok {
		return true
	}
	if _, ok := errors.AsType[*refusal](err); ok {
		return true
	}
	return apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsNotFound(err)
}

// signal says that the worker lives.
func (a *podAttempt) signal(ctx context.Context, client *Client) {
	for loop.Pause(ctx, min(alivePause, a.runner.Silence/4)) {
		_ = client.Alive(ctx) // that the pod does not answer shows elsewhere
	}
}

// end has the program be ended, and gives the pod up if running, which ends with the program, does not end in time.
func (a *podAttempt) end(running context.Context, client *Client, cancel context.CancelCauseFunc) {
	_ = a.persist(running, "end the step", client.Stop) // else the time below
	const answer = 30 * time.Second
	if loop.Pause(running, a.runner.Grace+answer) {
		cancel(fmt.Errorf("the step did not end within %s", a.runner.Grace+answer))
	}
}

// read reads the spool to its end, over as many connections as it takes. It returns how the program ended, and more than its exit
// status says.
func (a *podAttempt) read(ctx context.Context, client *Client) (end *build.SpoolTrailer, reason string, err error) {
	log := NewLog(a.sink, a.run.Mask)
	defer log.Close()
	progress, at, wait := time.Now(), int64(0), firstPause
	for rest := false; ; {
		err := a.readOnce(ctx, client, log, !rest)
		switch {
		case log.Trailer() != nil:
			return log.Trailer(), a.explain(ctx, log.Trailer()), nil
		case ctx.Err() != nil:
			return nil, "", context.Cause(ctx)
		case err != nil && final(err):
			return nil, "", err
		case rest && err == nil: // the program has ended without one
			return a.withoutTrailer(ctx)
		}
		if log.Offset() > at {
			progress, at, wait = time.Now(), log.Offset(), firstPause
		}
		if time.Since(progress) > a.runner.Away {
			return nil, "", fmt.Errorf("Unknown: the step's output cannot be read, for %s: %w", a.runner.Away, err) //nolint:staticcheck // a reason, as Kubernetes writes them
		}
		if rest = a.ended(); rest && err == nil {
			continue
		}
		if !loop.Pause(ctx, wait) {
			return nil, "", context.Cause(ctx)
		}
		wait = min(2*wait, longestPause)
	}
}

// ended reports whether the container of the step has ended.
func (a *podAttempt) ended() bool {
	now := a.runner.seen.look(a.uid)
	return now.pod != nil && now.pod.container(containerStep).Terminated != nil
}

// readOnce reads what one connection gives. Following ends when the container has ended, since a killed one leaves a spool without an end.
func (a *podAttempt) readOnce(ctx context.Context, client *Client, log *Log, follow bool) error {
	within, cancel := context.WithCancel(ctx)
	defer cancel()
	if follow {
		go func() {
			if _, err := a.runner.seen.await(within, a.uid, func(p *pod) bool { return p.container(containerStep).Terminated != nil }); err == nil {
				cancel()
			}
		}()
	}
	spool, err := client.Output(within, log.Offset(), follow)
	if err == nil {
		_, err = log.ReadFrom(spool)
		_ = spool.Close() // only read
	}
	if within.Err() != nil && ctx.Err() == nil && !final(err) {
		return nil
	}
	return err
}

// explain returns why a program was killed; "" if nothing is known.
func (a *podAttempt) explain(ctx context.Context, trailer *build.SpoolTrailer) string {
	const killed = 128 + 9
	if trailer.Code != killed {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, memoryWait)
	defer cancel()
	_, _ = a.runner.seen.await(ctx, a.uid, func(p *pod) bool { return p.container(containerStep).Terminated != nil }) // else nothing is known
	return a.memory()
}

func (a *podAttempt) memory() string {
	if now := a.runner.seen.look(a.uid); now.pod != nil {
		return outOfMemory(now.pod, a.run.Step.Spec.Limits.Memory)
	}
	return ""
}

// withoutTrailer judges a step whose container has ended before the spool did.
func (a *podAttempt) withoutTrailer(ctx context.Context) (*build.SpoolTrailer, string, error) {
	if text := a.memory(); text != "" {
		return &build.SpoolTrailer{Code: 128 + 9}, text, nil
	}
	// Kubelet may report only now that the whole pod was taken away.
	ctx, cancel := context.WithTimeoutCause(ctx, memoryWait, errors.New("Unknown: the step has ended, and its exit status cannot be read")) //nolint:staticcheck // a reason, as Kubernetes writes them
	defer cancel()
	<-ctx.Done()
	return nil, "", context.Cause(ctx)
}

// keep copies the files that are kept out of the pod, and keeps them.
func (a *podAttempt) keep(ctx, podCtx context.Context, client *Client, exit build.Exit) error {
	wanted := a.given.files.Wanted(ctx, exit)
	at := attempt.Copies{Repo: filepath.Join(a.folder, "files"), Caches: filepath.Join(a.folder, "parts"), Named: shimv1.Repo}
	for _, f := range []struct {
		kind, dir string
		names     []string
	}{{filesMatching, at.Repo, wanted.Globs}, {filesOfPart, at.Caches, wanted.Parts}} {
		if len(f.names) == 0 {
			continue
		}
		err := a.transfer(podCtx, "copy the step's files", func(ctx context.Context) (int64, error) {
			if err := workspace.Remove(f.dir); err != nil {
				return 0, &fatalError{err}
			}
			return client.Files(ctx, f.kind, f.names, f.dir)
		})
		if err != nil {
			return err
		}
	}
	return a.given.files.KeepCopies(ctx, exit, at, a.sink)
}

// remove deletes the pod until it is gone, after a time without its node.
func (a *podAttempt) remove(ctx context.Context, force time.Duration) error {
	ctx, cancel := context.WithTimeoutCause(ctx, deleteLimit, fmt.Errorf("it still exists after %s", deleteLimit))
	defer cancel()
	defer func() { _ = a.runner.secrets.Delete(ctx, a.pod.name, metav1.DeleteOptions{}) }() // else it goes with its owner, the pod
	began, uid := time.Now(), types.UID(a.uid)
	grace := int64(1) // the step has ended, or had its grace
	for {
		options := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}, GracePeriodSeconds: &grace}
		err := a.runner.pods.Delete(ctx, a.pod.name, options)
		if apierrors.IsNotFound(err) || apierrors.IsConflict(err) { // a conflict: another pod has the name
			return nil
		}
		within, stop := context.WithTimeout(ctx, longestPause)
		there, _ := a.runner.seen.await(within, a.uid, func(*pod) bool { return false }) // looked at again below
		gone := !there && within.Err() == nil
		stop()
		if gone {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("delete pod %s: %w", a.pod.name, errors.Join(context.Cause(ctx), err))
		}
		if time.Since(began) >= force {
			grace = 0
		}
	}
}
