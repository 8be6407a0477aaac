package runner

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/loop"
)

// read reads the spool to its end, over as many connections as it takes. It returns how the program ended, and
// details beyond its exit status.
func (a *podAttempt) read(ctx context.Context, client *Client) (end *build.SpoolTrailer, reason string, err error) {
	log := NewLog(a.sink, a.run.Mask)
	defer log.Close()
	there, at, wait := time.Now(), int64(0), firstPause
	for rest := false; ; {
		answered, err := a.readOnce(ctx, client, log, !rest)
		switch {
		case log.Trailer() != nil:
			reason, err := a.explain(ctx, log.Trailer())
			return log.Trailer(), reason, err
		case ctx.Err() != nil:
			return nil, "", context.Cause(ctx)
		case err != nil && final(err):
			return nil, "", err
		case rest && err == nil: // the program has ended without one
			return a.withoutTrailer(ctx)
		}
		if log.Offset() > at {
			at, wait = log.Offset(), firstPause
		}
		if answered {
			there = time.Now()
		}
		if time.Since(there) > a.runner.Away {
			return nil, "", fmt.Errorf( //nolint:staticcheck // a reason, as Kubernetes writes them
				"Unknown: the step's output cannot be read, for %s: %w",
				a.runner.Away,
				err,
			)
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

// readOnce reads the content of one connection, and reports whether the pod answered: a step may print nothing for
// long. Following ends when the container has ended, since a killed one leaves a spool without an end.
func (a *podAttempt) readOnce(ctx context.Context, client *Client, log *Log, follow bool) (answered bool, err error) {
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
	if answered = err == nil; answered {
		_, err = log.ReadFrom(spool)
		_ = spool.Close() // only read
	}
	if within.Err() != nil && ctx.Err() == nil && !final(err) {
		return answered, nil
	}
	return answered, err
}

// explain returns why a program was killed; "" if nothing is known. It fails if its pod was ended: observe ends ctx then.
func (a *podAttempt) explain(ctx context.Context, trailer *build.SpoolTrailer) (string, error) {
	const killed = 128 + 9
	if !trailer.Ended && trailer.Code != killed {
		return "", nil
	}
	within, cancel := context.WithTimeout(ctx, reasonWait)
	defer cancel()
	known := false
	if !trailer.Ended {
		known, _ = a.runner.seen.await(within, a.uid, func(p *pod) bool { return p.container(containerStep).Terminated != nil })
	}
	if !known {
		// kubelet reports why it ends a pod, as by an eviction, only after the last of its containers has ended; observe then ends ctx
		<-within.Done()
	}
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	return a.memory(), nil
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
	ctx, cancel := context.WithTimeoutCause(
		ctx,
		reasonWait,
		errors.New("Unknown: the step has ended, and its exit status cannot be read"), //nolint:staticcheck // a reason, as Kubernetes writes them
	)
	defer cancel()
	<-ctx.Done()
	return nil, "", context.Cause(ctx)
}
