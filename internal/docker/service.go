package docker

import (
	"context"
	"fmt"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/waybill-dev/waybill/internal/attempt"
	"github.com/waybill-dev/waybill/internal/build"
)

// service is a program that runs beside a step, from before the step begins until it has ended.
type service struct {
	build.Service
	id      string
	end     *ending // nil: it has not started
	printed *attempt.Prefixed
	stop    context.CancelFunc
	done    chan struct{} // closed when its output has been handed on
}

// startServices makes a network for the step and its services, starts them, and waits until they are ready.
func (s *step) startServices(ctx context.Context) error {
	wanted := s.run.Step.Spec.Services
	if len(wanted) == 0 {
		return nil
	}
	s.network = s.name("network")
	_, err := persist(ctx, func(ctx context.Context) (client.NetworkCreateResult, error) {
		return s.engine.api.NetworkCreate(ctx, s.network, client.NetworkCreateOptions{Driver: "bridge", Labels: s.labels()})
	})
	if err != nil {
		return fmt.Errorf("make the network of %s: %w", s.run.Step.Path(), err)
	}
	for i, one := range wanted {
		if err := s.startService(ctx, i, one); err != nil {
			return err
		}
	}
	for _, svc := range s.services {
		if err := s.awaitReady(ctx, svc); err != nil {
			return err
		}
	}
	return nil
}

func (s *step) startService(ctx context.Context, i int, one build.Service) error {
	if _, err := s.image(ctx, one.Image, s.sink); err != nil {
		return err
	}
	config := &container.Config{Image: one.Image, Env: one.Environ, Labels: s.labels()}
	if len(one.Argv) > 0 {
		config.Entrypoint, config.Cmd = one.Argv[:1], one.Argv[1:]
	}
	host := &container.HostConfig{LogConfig: wholeLog()}
	svc := &service{Service: one, printed: attempt.NewPrefixed(s.sink, one.Name), done: make(chan struct{})}
	var err error
	svc.id, err = s.create(ctx, client.ContainerCreateOptions{Name: s.name(fmt.Sprintf("service-%d", i)), Config: config, HostConfig: host,
		NetworkingConfig: s.joined(host, one.Name)})
	if err != nil {
		return err
	}
	s.services = append(s.services, svc)
	watch, stop := context.WithCancel(context.WithoutCancel(ctx))
	svc.stop = stop
	out := newOutputs(s.engine.api, svc.id, svc.printed, s.run.Mask)
	attached, err := out.attach(watch)
	if err != nil {
		return fmt.Errorf("attach to service %s: %w", one.Name, err)
	}
	if err := start(ctx, s.engine.api, svc.id); err != nil {
		attached.Close()
		return startError("service "+one.Name, err)
	}
	svc.end = awaitEnd(watch, s.engine.api, svc.id)
	go func() {
		defer close(svc.done)
		_ = out.follow(watch, attached, svc.end.exited) // the step's own output shows whether its log can be written
	}()
	return nil
}

// finish ends a service and waits until the output has been handed on, or until ctx ends. It reports whether the
// service had ended on its own.
func (svc *service) finish(ctx context.Context, api *client.Client) (early bool) {
	defer svc.stop()
	if svc.end == nil {
		return false
	}
	early = endedWithin(ctx, svc.end.exited, 0)
	if !early {
		_, _ = persist(ctx, func(ctx context.Context) (client.ContainerKillResult, error) { // else it is removed by force
			return api.ContainerKill(ctx, svc.id, client.ContainerKillOptions{Signal: "SIGKILL"})
		})
	}
	stop := context.AfterFunc(ctx, svc.stop)
	defer stop()
	<-svc.done
	return early
}

// readyPause is the time between two looks at the ports of a service.
const readyPause = 100 * time.Millisecond

// awaitReady waits until a service listens at all its ports.
func (s *step) awaitReady(ctx context.Context, svc *service) error {
	if svc.Ready == 0 || len(svc.Ports) == 0 {
		return nil
	}
	began := time.Now()
	limited, cancel := context.WithTimeout(ctx, svc.Ready)
	defer cancel()
	for missing := svc.Ports[0]; ; {
		closed, err := s.closedPort(limited, svc)
		if err == nil && closed == 0 {
			return s.sink.Note(fmt.Sprintf("service %s is ready after %s", svc.Name, time.Since(began).Round(100*time.Millisecond)))
		}
		if err == nil {
			missing = closed
		}
		if endedWithin(limited, svc.end.exited, readyPause) {
			<-svc.done
			return &build.StepError{Text: fmt.Sprintf("service %s ended with exit status %d before it was ready%s", svc.Name,
				svc.end.code, svc.printed.Tail())}
		}
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case limited.Err() != nil:
			return &build.StepError{Text: fmt.Sprintf("service %s did not listen at port %d within %s%s", svc.Name, missing,
				svc.Ready, svc.printed.Tail())}
		case err != nil && !broken(err) && !errdefs.IsConflict(err): // conflict: it has just ended
			return fmt.Errorf("look at the ports of service %s: %w", svc.Name, err)
		}
	}
}
