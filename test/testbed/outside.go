package testbed

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
)

// Run calls f as go test calls a test, for commands that start the systems of tests. It returns when everything that f
// started has ended, with an error if f failed. Once ctx has ended, nothing is written to the log.
func Run(ctx context.Context, log io.Writer, f func(t testing.TB)) error {
	running, cancel := context.WithCancel(ctx)
	o := &outside{ctx: running, log: log, interrupted: func() bool { return ctx.Err() != nil }}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		f(o)
	}()
	<-ended
	cancel()
	o.clean()
	if o.Failed() {
		return errors.New(strings.TrimSpace(o.why))
	}
	return nil
}

// outside is a test without go test. It has the methods that the testbed calls.
type outside struct {
	testing.TB // nil, so that any other method panics

	ctx         context.Context
	log         io.Writer
	interrupted func() bool

	mutex    sync.Mutex
	folder   string
	cleanups []func()
	failed   bool
	why      string // the first reason
}

func (o *outside) Name() string             { return "testbed" }
func (o *outside) Helper()                  {}
func (o *outside) Context() context.Context { return o.ctx }

func (o *outside) Cleanup(f func()) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	o.cleanups = append(o.cleanups, f)
}

// clean calls the cleanups, the last one first, and removes the temporary folders.
func (o *outside) clean() {
	for {
		o.mutex.Lock()
		n := len(o.cleanups)
		if n == 0 {
			o.mutex.Unlock()
			break
		}
		last := o.cleanups[n-1]
		o.cleanups = slices.Delete(o.cleanups, n-1, n)
		o.mutex.Unlock()
		last()
	}
	if o.folder == "" {
		return
	}
	if err := os.RemoveAll(o.folder); err != nil {
		o.Errorf("testbed: remove temporary folders: %v", err)
	}
}

func (o *outside) TempDir() string {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	var err error
	if o.folder == "" {
		o.folder, err = os.MkdirTemp("", "waybill-testbed-")
	}
	folder := o.folder
	if err == nil {
		folder, err = os.MkdirTemp(o.folder, "")
	}
	if err != nil {
		o.fail(fmt.Sprintf("testbed: make a temporary folder: %v", err))
		runtime.Goexit()
	}
	return folder
}

func (o *outside) Failed() bool {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	return o.failed
}

// fail records a failure. The caller holds the mutex.
func (o *outside) fail(why string) {
	if !o.failed {
		o.failed, o.why = true, why
	}
}

func (o *outside) Errorf(format string, arguments ...any) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	o.fail(fmt.Sprintf(format, arguments...))
}

func (o *outside) FailNow() {
	o.Errorf("testbed: it failed")
	runtime.Goexit()
}

func (o *outside) Fatalf(format string, arguments ...any) {
	o.Errorf(format, arguments...)
	runtime.Goexit()
}

func (o *outside) Fatal(arguments ...any) { o.Fatalf("%s", fmt.Sprint(arguments...)) }

func (o *outside) Logf(format string, arguments ...any) {
	if !o.interrupted() {
		fmt.Fprintf(o.log, format+"\n", arguments...)
	}
}
