// Package shim is what runs inside a step's pod: init receives the workspace, exec runs the step's program and writes
// the output into a spool, serve gives the spool and files to the worker.
//
// The three share a folder. Nothing in it is trusted by serve, since the step's program can write
// there: serve opens everything through an os.Root, and the worker checks what it reads.
//
//	waybill    this program, for the container of the step
//	snapshot   the workspace as far as it has arrived
//	output     the spool
//	ended      is there once the spool has its last record
//	alive      its time is that of the worker's last request
//	stop       is there once the program is to be ended
package shim

import (
	"cmp"
	"context"
	"crypto/subtle"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	shimv1 "github.com/waybill-dev/waybill/api/shim/v1"
	"github.com/waybill-dev/waybill/internal/listener"
)

// Names in the shared folder.
const (
	fileSnapshot = "snapshot"
	fileOutput   = "output"
	fileEnded    = "ended"
	fileAlive    = "alive"
	fileStop     = "stop"
)

// pollPause is the interval at which exec and serve poll the other's files.
const pollPause = 50 * time.Millisecond

// Config is the configuration of the shims, from the environment.
type Config struct {
	Listen string // address
	Token  string // what requests carry; "" refuses all
	Folder string // shared
	Repo   string // the workspace

	Silence time.Duration // after so long without a request of the worker, what it left ends
}

// FromEnvironment reads the configuration.
func FromEnvironment(get func(string) string) Config {
	return Config{
		Listen: cmp.Or(get(shimv1.EnvListen), fmt.Sprintf(":%d", shimv1.Port)),
		Token:  get(shimv1.EnvToken),
		Folder: cmp.Or(get(shimv1.EnvFolder), shimv1.Folder),
		Repo:   cmp.Or(get(shimv1.EnvRepo), shimv1.Repo),

		Silence: duration(get(shimv1.EnvSilence), shimv1.Silence),
	}
}

// duration returns a value that is more than zero, or the fallback.
func duration(value string, fallback time.Duration) time.Duration {
	d, err := time.ParseDuration(value)
	if err != nil || d <= 0 {
		return fallback
	}
	return d
}

// authorized answers requests without the token with 401, without their bodies, and calls heard for those with it and
// for each part of their bodies. The comparison takes the same time for all.
func (c Config) authorized(next http.Handler, heard func()) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		given, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		if c.Token == "" || subtle.ConstantTimeCompare([]byte(given), []byte(c.Token)) != 1 {
			listener.GiveUp(w)
			http.Error(w, "the token is missing or wrong", http.StatusUnauthorized)
			return
		}
		heard()
		r.Body = heardBody{r.Body, heard}
		next.ServeHTTP(w, r)
	})
}

// heardBody calls heard for every read.
type heardBody struct {
	io.ReadCloser
	heard func()
}

func (b heardBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.heard()
	return n, err
}

// untilSilence returns a context that ends when heard is not called for the time that is allowed, or when stop is.
func (c Config) untilSilence(ctx context.Context) (_ context.Context, heard, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	timer := time.AfterFunc(c.Silence, func() { cancel(fmt.Errorf("the worker has been silent for %s", c.Silence)) })
	heard = func() { timer.Reset(c.Silence) }
	stop = func() {
		timer.Stop()
		cancel(nil)
	}
	return ctx, heard, stop
}

func answer(w http.ResponseWriter, status int, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(value) // the worker repeats the request
}

// touch writes an empty file, or sets its time.
func touch(root *os.Root, name string) error {
	f, err := root.OpenFile(name, os.O_CREATE|os.O_WRONLY, 0o666)
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	now := time.Now()
	return root.Chtimes(name, now, now)
}
