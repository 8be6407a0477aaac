package assembly

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/conductor"
	"github.com/waybill-dev/waybill/internal/conductor/handler/step"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/lifecycle"
	"github.com/waybill-dev/waybill/internal/loop"
	"github.com/waybill-dev/waybill/internal/operation"
	"github.com/waybill-dev/waybill/internal/pipeline"
)

// Stop ends the services of a pipeline's local hosts: those of the definition in force, and those that earlier ones left
// running.
func (s *Session) Stop(ctx context.Context, name string) (Stopped, error) {
	v, err := operation.GetVersion.Call(ctx, s, operation.VersionPath{PipelinePath: operation.PipelinePath{Pipeline: name}})
	if err != nil {
		return Stopped{}, err
	}
	services := step.InstalledBy(&v.Definition)
	left, err := s.service.LeftServices(ctx, name)
	if err != nil {
		return Stopped{}, err
	}
	for _, l := range left {
		if at, known := l.Place(); known {
			services = append(services, step.Installed{Place: at, Service: l.Name, Left: true})
		}
	}
	id, err := s.Ledger.ID(ctx)
	if err != nil {
		return Stopped{}, err
	}
	stops, err := step.Stops(ctx, s.Home.Dir, id.String(), name, services, s.place.User())
	if err != nil {
		return Stopped{}, fmt.Errorf("stop %s: %w", name, err)
	}
	if len(stops) == 0 {
		return Stopped{}, nil
	}
	hosts, err := s.doStops(ctx, id.String(), stops)
	if err != nil {
		return Stopped{}, fmt.Errorf("stop %s: %w", name, err)
	}
	var stopped Stopped
	for _, host := range hosts {
		if _, has := v.Definition.Place(pipeline.Path(name, host)); has {
			stopped.Hosts = append(stopped.Hosts, host)
		} else {
			stopped.Left = append(stopped.Left, host)
		}
	}
	return stopped, nil
}

// Stopped are the hosts whose services were ended, as stage/group/host.
type Stopped struct {
	Hosts []string // hosts of the definition in force
	Left  []string // those that it no longer has
}

// doStops stores the actions and sees to it that they are done. It returns the hosts that were stopped, as stage/group/host.
func (s *Session) doStops(ctx context.Context, ledger string, stops []action.Action) (stopped []string, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, stopPatience, errStopsSlow)
	defer cancel()
	err = s.whileServed(ctx, step.StopHandler, step.Stopper{Home: s.Home.Dir, LedgerID: ledger,
		Log: s.Ledger}, func(ctx context.Context) error {
		stored, err := s.Ledger.Enqueue(ctx, stops...)
		if err != nil {
			return err
		}
		for i := range stops {
			if err := s.awaitAction(ctx, stored[i].ID); err != nil {
				return err
			}
			_, below, _ := strings.Cut(strings.TrimPrefix(stops[i].Name, "stop "), "/")
			stopped = append(stopped, below)
		}
		return nil
	})
	return stopped, err
}

// whileServed calls follow while actions of a handler are done: by the process that holds the log, else here.
func (s *Session) whileServed(ctx context.Context, name string, handler conductor.Handler, follow func(context.Context) error) error {
	var beside []lifecycle.Role
	if s.Kind == Embedded {
		lock, err := lifecycle.Lock(s.Home.Dir)
		if holder, held := errors.AsType[*lifecycle.Held](err); held {
			if err := s.awaitServed(ctx, name, fmt.Sprintf("in the process that holds the log (pid %d)", holder.PID)); err != nil {
				return err
			}
			return follow(ctx)
		}
		if err != nil {
			return err
		}
		defer func() { _ = lock.Unlock() }() // this process ends
		beside = []lifecycle.Role{{Name: "lock", Run: lock.Keep}}
	}
	if err := s.Ledger.TakeOver(ctx); err != nil {
		return err
	}
	c := conductor.New(keeper{s.Ledger.NewWaiter(), s.blobs, s.Live.Now().Ledger.Retention,
		s.Live.Now().Ledger.LogRetention}, conductor.Config{
		Instance: s.instance(), Workers: stopWorkers, Drain: time.Minute, Handlers: map[string]conductor.Handler{name: handler},
	})
	return lifecycle.Run(ctx, append(beside, lifecycle.Role{Name: RoleConductor, Run: c.Run}, lifecycle.Role{Name: "watch", Run: follow})...)
}

// stopPatience bounds the wait for the ends of services. A stop that no conductor took is void after two minutes.
const stopPatience = 3 * time.Minute

// errStopsSlow ends the wait for the ends of services.
var errStopsSlow = fault.New(fault.Unavailable, "the services were not ended within %s", stopPatience).
	WithHint("waybill action list --kind stop")

// stopperPatience bounds the wait for the conductor of a process that has just taken the log.
const stopperPatience = 3 * time.Second

// awaitServed waits until a process serves a handler. where names the processes that could, for the error.
func (s *Session) awaitServed(ctx context.Context, handler, where string) error {
	begin := time.Now()
	for {
		alive, err := s.Ledger.Instances(ctx)
		if err != nil {
			return err
		}
		for _, i := range alive {
			if !i.Draining && slices.Contains(i.Handlers, handler) {
				return nil
			}
		}
		if time.Since(begin) > stopperPatience {
			return fault.New(fault.Unavailable, "no conductor runs %s, so no process can stop or restart services", where).
				WithHint("start a process with the role conductor, then try again")
		}
		if !loop.Pause(ctx, stopperPatience/10) {
			return context.Cause(ctx)
		}
	}
}

// stopWorkers is the number of services that are ended at a time.
const stopWorkers = 8

// awaitAction waits for the end of an action, which must be a good one.
func (s *Session) awaitAction(ctx context.Context, id action.ID) error {
	var last action.Event
	if err := s.FollowAction(ctx, id, -1, func(e action.Event) error { last = e; return nil }, func() error { return nil }); err != nil {
		return err
	}
	if last.Status != action.Successful {
		return fault.New(fault.Failed, "action %s ended %s: %s", id, last.Status, cmp.Or(last.Error, last.Code)).
			WithHint("waybill action show %s", id)
	}
	return nil
}
