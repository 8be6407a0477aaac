package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"time"

	"github.com/moby/moby/client"

	"github.com/waybill-dev/waybill/internal/loop"
)

// answerWithin bounds the Engine's first answer.
const answerWithin = 2 * time.Second

// Engine is a Docker Engine that has answered.
type Engine struct {
	Version string // such as 28.2.2
	OS      string // linux or windows: what its containers are
	api     *client.Client
}

// Connect asks the Engine that DOCKER_HOST names, else the one of this computer. It waits at most two
// seconds for the answer.
func Connect(ctx context.Context) (*Engine, error) { return connect(ctx, client.FromEnv) }

// ConnectTo does the same with an address such as unix:///var/run/docker.sock.
func ConnectTo(ctx context.Context, host string) (*Engine, error) {
	return connect(ctx, client.WithHost(host))
}

func connect(ctx context.Context, to client.Opt) (*Engine, error) {
	api, err := client.New(to)
	if err != nil {
		return nil, fmt.Errorf("connect to the Docker Engine: %w", err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, answerWithin, fmt.Errorf("no answer within %s", answerWithin))
	defer cancel()
	version, err := api.ServerVersion(ctx, client.ServerVersionOptions{})
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, errors.Join(fmt.Errorf("connect to the Docker Engine: %w", err), api.Close())
	}
	return &Engine{Version: version.Version, OS: version.Os, api: api}, nil
}

// Close closes idle connections.
func (e *Engine) Close() error { return e.api.Close() }

// Pauses and the patience while the Engine does not answer, as when it is restarted.
const (
	firstPause = 100 * time.Millisecond
	lastPause  = 2 * time.Second
	held       = 10 * time.Second // a connection that lasted so long was a good one
	patience   = time.Minute
)

// outage is a time in which calls find the connection to the Engine broken.
type outage struct {
	since time.Time
	pause time.Duration
}

// again reports whether a call that failed is made again, and pauses before that. A call that had held for a while
// reports that the Engine was there.
func (o *outage) again(ctx context.Context, began time.Time, err error) bool {
	now := time.Now()
	if o.since.IsZero() || now.Sub(began) > held {
		*o = outage{now, firstPause}
	}
	if !broken(err) || ctx.Err() != nil || now.Sub(o.since) > patience {
		return false
	}
	pause := o.pause
	o.pause = min(2*o.pause, lastPause)
	return loop.Pause(ctx, pause)
}

// persist repeats a call while the connection to the Engine is broken, for a minute at most. The call
// must come to the same when it is made twice.
func persist[T any](ctx context.Context, call func(context.Context) (T, error)) (T, error) {
	var o outage
	for {
		began := time.Now()
		out, err := call(ctx)
		if err == nil || !o.again(ctx, began, err) {
			return out, err
		}
	}
}

// broken reports whether an error is that of the connection, not an answer of the Engine.
func broken(err error) bool {
	if _, ok := errors.AsType[net.Error](err); ok {
		return true
	}
	return client.IsErrConnectionFailed(err) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}
