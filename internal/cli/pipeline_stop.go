package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/cli/show"
	"github.com/waybill-dev/waybill/internal/conductor"
	"github.com/waybill-dev/waybill/internal/conductor/handler/step"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/lifecycle"
)

func (a *app) pipelineStopCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "stop [PIPELINE]",
		Short: "End a pipeline's services on local:// hosts",
		Long: `Ends the services that run on the local:// hosts of a pipeline, on this machine. Each stop is
an action and an entry of the log. What was deployed stays deployed: a later deployment of the
host starts its service again. Without a name: this folder's pipeline.`,
		Example:           examples("waybill pipeline stop", "waybill pipeline stop greeter"),
		Args:              arguments(0, 1, "PIPELINE"),
		ValidArgsFunction: a.completePipelines,
		RunE: func(c *cobra.Command, arguments []string) error {
			return a.withSession(c, func(ctx context.Context, s *session) error {
				name, err := a.pipelineName(arguments)
				if err != nil {
					return err
				}
				return a.stopPipeline(ctx, s, name)
			})
		},
	}
}

// stopPipeline ends services of the definition in force.
func (a *app) stopPipeline(ctx context.Context, s *session, name string) error {
	if s.kind == remote {
		return fault.New(fault.Invalid, "services on local hosts are ended on their own machine").
			WithHint("waybill pipeline stop %s --home … there", name)
	}
	v, err := s.Version(ctx, name, 0)
	if err != nil {
		return err
	}
	stops, err := step.Stops(ctx, s.home.dir, &v.Definition, a.user())
	if err != nil {
		return fmt.Errorf("stop %s: %w", name, err)
	}
	var stopped []string
	if len(stops) > 0 {
		if stopped, err = s.doStops(ctx, stops); err != nil {
			return fmt.Errorf("stop %s: %w", name, err)
		}
	}
	switch {
	case a.json():
		return a.printer().Document(show.Items(stopped))
	case len(stopped) == 0:
		fmt.Fprintf(a.out, "%s: no service runs on a local host\n", name)
	default:
		fmt.Fprintf(a.out, "%s: stopped on %s\n", name, strings.Join(stopped, ", "))
	}
	return nil
}

// doStops stores the actions and sees to it that they are done: by the process that holds the log, else here. It returns
// the hosts that were stopped, as stage/group/host.
func (s *session) doStops(ctx context.Context, stops []action.Action) (stopped []string, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, stopPatience, errStopsSlow)
	defer cancel()
	follow := func(ctx context.Context) error {
		stored, err := s.ledger.Enqueue(ctx, stops...)
		if err != nil {
			return err
		}
		for i := range stops {
			if err := s.awaitStop(ctx, stored[i].ID); err != nil {
				return err
			}
			_, below, _ := strings.Cut(strings.TrimPrefix(stops[i].Name, "stop "), "/")
			stopped = append(stopped, below)
		}
		return nil
	}
	if s.kind == embedded {
		lock, err := lifecycle.Lock(s.home.dir)
		if holder, held := errors.AsType[*lifecycle.Held](err); held {
			if err := s.awaitStopper(ctx, holder); err != nil {
				return nil, err
			}
			err = follow(ctx)
			return stopped, err
		}
		if err != nil {
			return nil, err
		}
		defer func() { _ = lock.Unlock() }() // this process ends
	}
	err = s.runStops(ctx, follow)
	return stopped, err
}

// runStops runs a conductor that only ends services, until follow returns.
func (s *session) runStops(ctx context.Context, follow func(context.Context) error) error {
	if err := s.ledger.TakeOver(ctx); err != nil {
		return err
	}
	c := conductor.New(keeper{s.ledger.Waiter(), s.blobs, s.live.Now().Ledger.Retention}, conductor.Config{
		Instance: s.instance(), Workers: stopWorkers, Drain: time.Minute,
		Handlers: map[string]conductor.Handler{step.StopHandler: step.Stopper{Home: s.home.dir, Log: s.ledger}},
	})
	return lifecycle.Run(ctx, lifecycle.Role{Name: roleConductor, Run: c.Run}, lifecycle.Role{Name: "watch", Run: follow})
}

// stopPatience bounds the wait for the ends of services. A stop that no conductor took is void after two minutes.
const stopPatience = 3 * time.Minute

// errStopsSlow ends the wait for the ends of services.
var errStopsSlow = fault.New(fault.Unavailable, "the services were not ended within %s", stopPatience).
	WithHint("waybill action list --kind stop")

// stopperPatience is how long a process that has just taken the log has until its conductor must be there.
const stopperPatience = 3 * time.Second

// awaitStopper waits until the process that holds the log can end services; one without a conductor never can.
func (s *session) awaitStopper(ctx context.Context, holder *lifecycle.Held) error {
	begin := time.Now()
	for {
		alive, err := s.ledger.Instances(ctx)
		if err != nil {
			return err
		}
		for _, i := range alive {
			if !i.Draining && slices.Contains(i.Handlers, step.StopHandler) {
				return nil
			}
		}
		if time.Since(begin) > stopperPatience {
			return fault.New(fault.Unavailable, "no conductor runs in the process that holds the log (pid %d), so no process can end services", holder.PID).
				WithHint("start that process with the role conductor, or end it, and stop the pipeline again")
		}
		pause(ctx, stopperPatience/10)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
}

// stopWorkers is how many services are ended at a time.
const stopWorkers = 8

// awaitStop waits for the end of an action, which must be a good one.
func (s *session) awaitStop(ctx context.Context, id action.ID) error {
	var last action.Event
	if err := s.FollowAction(ctx, id, -1, func(e action.Event) error { last = e; return nil }, func() error { return nil }); err != nil {
		return err
	}
	if last.Status != action.Successful {
		return fault.New(fault.Failed, "action %s ended %s: %s", id, last.Status, show.FirstOf(last.Error, last.Code)).WithHint("waybill action show %s", id)
	}
	return nil
}
