package local

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/waybill-dev/waybill/internal/builder/worker/api"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/file"
	"github.com/waybill-dev/waybill/internal/results"
)

// ServeOptions are the flags of `waybill run` for the worker API.
type ServeOptions struct {
	On                bool
	Listen, TokenFile string
	Linger, StopWait  time.Duration
	given             string // the token that a provisioner has made
}

// AnyLoopbackPort is the address of the worker API if none is named.
const AnyLoopbackPort = "127.0.0.1:0"

// check returns an error for an address that others reach without a token that the caller has chosen for them.
func (f ServeOptions) check() error {
	if !f.On {
		return nil
	}
	host, _, err := net.SplitHostPort(f.Listen)
	if err != nil {
		return fault.New(fault.Invalid, "--listen %s is not an address: %w", f.Listen, err).WithHint("--listen %s", AnyLoopbackPort)
	}
	if ip := net.ParseIP(host); f.TokenFile == "" && f.given == "" && (ip == nil || !ip.IsLoopback()) {
		return fault.New(fault.Invalid, "--listen %s is not a loopback address such as 127.0.0.1", f.Listen).
			WithHint("name a token with --token-file, which other machines need")
	}
	if f.Linger < 0 || f.StopWait < 0 {
		return fault.New(fault.Invalid, "--linger %s, --termination-grace %s: want no less than zero", f.Linger, f.StopWait)
	}
	return nil
}

// The length of a token, in bytes.
const (
	shortestToken = 16
	longestToken  = 4 << 10
)

// unattended reports whether a provisioner has started this process: it quotes the output as the reason of an end.
func (f ServeOptions) unattended() bool { return f.given != "" }

// token reads the token, or makes one.
func (f ServeOptions) token(path func(string) string) (string, error) {
	if f.given != "" {
		return f.given, nil
	}
	if f.TokenFile == "" || !f.On {
		return rand.Text(), nil
	}
	text, err := file.Read(path(f.TokenFile), longestToken+1)
	if err != nil && !errors.Is(err, file.ErrSize) {
		return "", fault.New(fault.Invalid, "read --token-file: %w", err)
	}
	token := strings.TrimSpace(string(text))
	if len(token) < shortestToken || len(token) > longestToken || strings.ContainsAny(token, " \t\r\n") {
		return "", fault.New(fault.Invalid, "--token-file %s: want one token of %d to %d bytes", f.TokenFile, shortestToken, longestToken)
	}
	return token, nil
}

// servedBuild is the API of a build that this process runs. A nil one does nothing.
type servedBuild struct {
	flags  ServeOptions
	api    *api.Server
	err    io.Writer
	stop   context.CancelFunc
	served chan error

	waits      func(time.Duration)
	terminated func(context.Context) bool
}

// serveBuild starts the API of a build, if it is requested, and writes its address and token into the results folder.
func (b *Builder) serveBuild(ctx context.Context, j job, store *results.Store,
	metrics *prometheus.Registry) (*servedBuild, error) {
	flags := j.flags.Serve
	if !flags.On {
		return nil, nil
	}
	answers, err := api.New(api.Config{Plan: j.plan, Store: store, Token: j.token, Log: b.errorLog(), Metrics: metrics})
	if err != nil {
		return nil, err
	}
	s := &servedBuild{flags: flags, api: answers, err: b.Err, served: make(chan error, 1), waits: b.Waits, terminated: b.Terminated}
	listener, err := s.begin(ctx, j.inbox)
	if err != nil {
		return nil, err
	}
	place := results.Worker{Address: "http://" + listener.Addr().String(), PID: os.Getpid()}
	if flags.TokenFile == "" {
		place.Token = j.token
	}
	if err := store.Announce(place); err != nil {
		return nil, errors.Join(err, s.end())
	}
	if !flags.unattended() {
		fmt.Fprintf(b.Err, "results served on %s   token: %s\n", place.Address, flags.tokenPlace(j.place.dir))
	}
	return s, nil
}

// begin serves at the port at which the files were awaited, else at one of its own.
func (s *servedBuild) begin(ctx context.Context, in *inbox) (net.Listener, error) {
	if in != nil {
		in.Pass(s.api)
		s.stop, s.served = in.stop, in.served
		return in.listener, nil
	}
	listener, err := s.flags.open(ctx)
	if err != nil {
		return nil, err
	}
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	s.stop = stop
	go func() { s.served <- s.api.Serve(serving, listener) }()
	return listener, nil
}

// open takes the port.
func (f ServeOptions) open(ctx context.Context) (net.Listener, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", f.Listen)
	if err != nil {
		return nil, fault.New(fault.Unavailable, "serve the build: %w", err).WithHint("choose another address with --listen")
	}
	return listener, nil
}

// tokenPlace returns the path of the file that has the token.
func (f ServeOptions) tokenPlace(dir string) string {
	if f.TokenFile != "" {
		return f.TokenFile
	}
	return filepath.Join(dir, results.WorkerFile)
}

// stay waits after the build's end until a reader has acknowledged everything, or for as long as is allowed; then it ends the API.
// broken is why the build could not be recorded.
func (s *servedBuild) stay(ctx context.Context, broken error) error {
	if s == nil {
		return nil
	}
	if broken != nil {
		s.api.Break(broken)
	}
	if s.acknowledged(ctx) {
		if err := s.api.Store.MarkTaken(); err != nil {
			fmt.Fprintf(s.err, "note that the results were acknowledged: %v\n", err)
		}
	} else {
		left, err := s.api.Left()
		if err != nil {
			left = err.Error()
		}
		fmt.Fprintf(s.err, "results that no reader acknowledged: %s\n", left)
	}
	return s.end()
}

// end ends the API. An inbox, whose API it may be, can be closed afterwards.
func (s *servedBuild) end() error {
	s.stop()
	err := <-s.served
	s.served <- nil
	return err
}

// acknowledged waits. A signal during the build, or SIGTERM after its end, leaves the termination grace; Ctrl-C after the end
// ends the waiting.
func (s *servedBuild) acknowledged(ctx context.Context) bool {
	wait, stopped := s.flags.Linger, ctx.Done()
	if ctx.Err() != nil {
		wait, stopped = min(s.flags.Linger, s.flags.StopWait), nil
	}
	select {
	case <-s.api.Acknowledged():
		return true
	default:
	}
	if !s.flags.unattended() {
		s.waits(wait)
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		select {
		case <-s.api.Acknowledged():
			return true
		case <-timer.C:
			return false
		case err := <-s.served:
			s.served <- err
			return false
		case <-stopped:
			if !s.terminated(ctx) {
				return false
			}
			stopped = nil
			timer.Reset(min(s.flags.Linger, s.flags.StopWait))
		}
	}
}
