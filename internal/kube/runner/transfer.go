package runner

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	shimv1 "github.com/waybill-dev/waybill/api/shim/v1"
	"github.com/waybill-dev/waybill/internal/attempt"
	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/loop"
	"github.com/waybill-dev/waybill/internal/workspace"
)

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

// final reports whether trying again does not change an error. An account that is not known may be renewed, or what knows it be away: Check
// has found it at the build's start.
func final(err error) bool {
	if _, ok := errors.AsType[*fatalError](err); ok {
		return true
	}
	if _, ok := errors.AsType[*refusal](err); ok {
		return true
	}
	return apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsNotFound(err)
}

// keep copies the files that are kept out of the pod, and keeps them.
func (a *podAttempt) keep(ctx, podCtx context.Context, client *Client, exit build.Exit) (build.Exit, error) {
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
			return exit, err
		}
	}
	return a.given.files.KeepCopies(ctx, exit, at)
}
