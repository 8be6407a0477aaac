package runner

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/loop"
)

// Times of an attempt.
const (
	firstPause   = 200 * time.Millisecond
	longestPause = 5 * time.Second
	quotaPause   = time.Second      // pods of earlier steps are being removed
	alivePause   = 30 * time.Second // between two signs of life
	unseenPause  = 30 * time.Second // wait for a pod that was made and is not seen
	deleteLimit  = 3 * time.Minute
	forceAfter   = 90 * time.Second // a pod whose node does not answer is removed without it
	reasonWait   = 20 * time.Second // wait for the reason of a program that was killed, or of a pod that was ended
)

// lossError reports that a pod was lost.
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
	waits string // what the pod waits for now, for people; "": nothing. Written by create, then by observe

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
	if err == nil {
		a.runner.removing.Go(func() { _ = a.remove(context.WithoutCancel(ctx), force) }) // Close reports a pod that stays
		return exit, nil
	}
	return exit, errors.Join(err, a.remove(context.WithoutCancel(ctx), force))
}

// use talks to the shims of the pod.
func (a *podAttempt) use(ctx, podCtx context.Context, cancel context.CancelCauseFunc) (build.Exit, error) {
	early := context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) }) // only until the program begins
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

// work follows the step's program to its end, and keeps its results.
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
	exit, err := a.keep(ctx, podCtx, client, build.Exit{Code: trailer.Code, Reason: reason})
	if err != nil {
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
		made, err := a.createWithinQuota(ctx, a.runner.pods, body)
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
		_, err := a.createWithinQuota(ctx, a.runner.secrets, secret)
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

// createWithinQuota creates an object, and waits while a quota of the namespace refuses it.
func (a *podAttempt) createWithinQuota(ctx context.Context, in dynamic.ResourceInterface,
	object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	for {
		made, err := in.Create(ctx, object, metav1.CreateOptions{})
		if !overQuota(err) {
			a.waits = ""
			return made, err
		}
		a.waits = "Quota: " + err.Error()
		if err := a.noteOnce(a.waits); err != nil {
			return nil, &fatalError{err}
		}
		if !loop.Pause(ctx, quotaPause) {
			return nil, context.Cause(ctx)
		}
	}
}

// await waits for a state of the pod.
func (a *podAttempt) await(ctx context.Context, done func(*pod) bool) error {
	there, err := a.runner.seen.await(ctx, a.uid, done)
	if err == nil && !there {
		err = &lossError{text: "Deleted: the pod is gone"}
	}
	return err
}

// signal reports that the worker lives.
func (a *podAttempt) signal(ctx context.Context, client *Client) {
	for loop.Pause(ctx, min(alivePause, a.runner.Silence/4)) {
		_ = client.Alive(ctx) // other calls show that the pod does not answer
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
