package runner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/waybill-dev/waybill/internal/attempt"
	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/kube"
	"github.com/waybill-dev/waybill/internal/loop"
)

// lastRead bounds the reading of what services printed last.
const lastRead = 10 * time.Second

// followServices writes the output of services into the step's log, until stop is called, which waits for the output
// by then.
func (a *podAttempt) followServices(ctx context.Context) (stop func()) {
	var reading sync.WaitGroup
	following, end := context.WithCancel(ctx)
	for i, service := range a.run.Step.Spec.Services {
		sink := attempt.NewPrefixed(a.sink, service.Name)
		s := &serviceLog{podAttempt: a, container: serviceName(i, service), out: attempt.NewOutput(sink, false, a.run.Mask)}
		reading.Go(func() { s.read(ctx, following, service) })
	}
	return func() {
		end()
		reading.Wait()
	}
}

// serviceLog reads the log of one container.
type serviceLog struct {
	*podAttempt
	container string
	out       *attempt.Output
	taken     int64 // bytes
}

// read follows the log, and reads it once more when following has ended. A log that was cut is read again from its
// start, and the part that was taken is skipped.
func (s *serviceLog) read(ctx, following context.Context, service build.Service) {
	wait := firstPause
	for following.Err() == nil {
		there, err := s.runner.seen.await(following, s.uid, func(p *pod) bool {
			state := p.container(s.container)
			return state.Running != nil || state.Terminated != nil
		})
		if err != nil || !there {
			break
		}
		err = s.copy(following, true)
		if errors.Is(err, kube.ErrLogForbidden) {
			_ = s.noteOnce(fmt.Sprintf("what the service %s prints is left out: %v (pods/log)", service.Name, err)) // the log fails elsewhere too
			return
		}
		if err == nil && s.hasEnded() || !loop.Pause(following, wait) {
			break
		}
		wait = min(2*wait, longestPause)
	}
	ctx, cancel := context.WithTimeout(ctx, lastRead)
	defer cancel()
	_ = s.copy(ctx, false) // the step does not depend on it
	_ = s.out.Close()      // the log fails elsewhere too
}

func (s *serviceLog) hasEnded() bool {
	now := s.runner.seen.look(s.uid)
	return now.pod == nil || now.pod.container(s.container).Terminated != nil
}

// copy hands on the part that was not taken yet.
func (s *serviceLog) copy(ctx context.Context, follow bool) error {
	log, err := s.runner.cluster.Log(ctx, s.pod.name, s.container, follow)
	if err != nil {
		return err
	}
	defer log.Close()
	if _, err := io.CopyN(io.Discard, log, s.taken); err != nil {
		return err
	}
	n, err := io.Copy(s.out, log)
	s.taken += n
	return err
}
