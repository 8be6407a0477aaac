package server

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/waybill-dev/waybill/internal/conductor/handler/step"
	"github.com/waybill-dev/waybill/internal/pipeline"
)

// HostView is a host of the definition in force and the release that it runs.
type HostView struct {
	Target  string    `json:"target"`
	Runs    *Running  `json:"runs,omitempty"`    // the newest release on the host; left out: none
	Service *Services `json:"service,omitempty"` // only on this machine, and only if Waybill supervises it

	place   pipeline.Place
	service pipeline.Service // the host's service by the definition
	release string           // name of the release of Runs on the host; "": not known
	stopped bool             // waybill pipeline stop ended the service, and nothing has started it since
	skipped bool             // the service was not looked at: the request had looked at mostLooks already
}

// Running is the release on a host.
type Running struct {
	Deployment int64     `json:"deployment"`
	Revision   int64     `json:"revision"`
	Label      string    `json:"label"`
	At         time.Time `json:"at"`               // when the host switched to it
	Doubt      string    `json:"doubt,omitempty"`  // DoubtUntested or DoubtFailed; left out: it passed its test, or has none
	Status     string    `json:"status,omitempty"` // of its deployment
}

// The reasons not to trust a running release.
const (
	DoubtUntested = "untested"
	DoubtFailed   = "test failed"
)

// Services is the state of the supervised service of a host.
type Services struct {
	State    string `json:"state"`           // up | restarting | down | stopped (by waybill pipeline stop)
	Release  string `json:"release"`         // the release that it runs, or ran last
	Restarts int    `json:"restarts"`        // by its supervisor, since the release was started
	Exit     string `json:"exit,omitempty"`  // its last exit status
	Error    string `json:"error,omitempty"` // why the state is not known

	Since time.Time `json:"since,omitzero"` // when the service was started last, by the host's clock; left out: it is not up
}

// The states of a service.
const (
	ServiceUp         = "up"
	ServiceRestarting = "restarting" // its supervisor waits before it starts it again
	ServiceDown       = "down"       // neither runs nor is being restarted, as after a restart of its machine
	ServiceStopped    = "stopped"    // down, by waybill pipeline stop
	ServiceUnknown    = "unknown"    // Error says why
)

// String returns a text such as "up, 3 restarts, last exit status 1".
func (s Services) String() string {
	text := s.State
	switch {
	case s.Error != "":
		return "unknown: " + s.Error
	case s.Restarts == 0:
		return text
	case s.Restarts == 1:
		text += ", 1 restart"
	default:
		text += fmt.Sprintf(", %d restarts", s.Restarts)
	}
	if s.Exit != "" {
		text += ", last exit status " + s.Exit
	}
	return text
}

// hostViews returns the hosts of a definition with the release that each runs by the log. Targets that share a resource run
// the same release.
func (s *Service) hostViews(ctx context.Context, f *fold, d *pipeline.Definition) []HostView {
	last := map[pipeline.Resource]hostMark{}
	for at := range d.EachHost() {
		marks := f.marks.hosts
		if !hasStep(at.Stage, pipeline.HostDeployed) { // nothing is switched: the release is there once the host has finished
			marks = f.marks.through
		}
		if mark, known := marks[at.Target]; known {
			if r := d.ResourceOf(at.Stage, at.Group, at.Host); mark.seq > last[r].seq {
				last[r] = mark
			}
		}
	}
	views := []HostView{}
	for at := range d.EachHost() {
		view := HostView{Target: at.Target, place: at, service: d.ServiceOf(at.Stage, at.Group, at.Host), stopped: f.marks.hosts[at.Target].stopped}
		if mark, known := last[d.ResourceOf(at.Stage, at.Group, at.Host)]; known {
			view.Runs, view.release = s.runningOn(ctx, f, mark, at.Stage), mark.release
		}
		views = append(views, view)
	}
	return views
}

// runningOn returns the release that a host of a stage runs, and whether it can be trusted.
func (s *Service) runningOn(ctx context.Context, f *fold, mark hostMark, stage *pipeline.Stage) *Running {
	state, _ := f.engine.Deployment(mark.deployment)
	r := &Running{Deployment: mark.deployment, Revision: state.Revision, Label: s.revisionLabel(ctx, f, state.Revision), At: mark.at, Status: string(state.Status)}
	switch tests := hasStep(stage, pipeline.HostTested); {
	case mark.failed:
		r.Doubt = DoubtFailed
	case tests && !mark.tested:
		r.Doubt = DoubtUntested
	}
	return r
}

func hasStep(stage *pipeline.Stage, event string) bool {
	for _, s := range stage.Chain {
		if s.Event == event {
			return true
		}
	}
	return false
}

// Bounds of looking at services, since each look runs a program.
const (
	mostLooks   = 100             // of one request
	looksAtOnce = 8               // of all requests together
	lookLasts   = 3 * time.Second // other requests reuse a look for this long
	lookTakes   = 5 * time.Second // time limit of one look
)

var (
	errUnseen     = fmt.Errorf("not seen within %s", lookTakes)
	errLookFailed = errors.New("the look at it failed")
)

// managerProcess is the manager of services that Waybill supervises.
const managerProcess = "process"

// looks holds the recent looks at services and those under way, by host and service.
type looks struct {
	mu    sync.Mutex
	all   map[string]*look
	slots chan struct{} // one for each program that runs
}

// look is one look at a service. done is closed once seen is set.
type look struct {
	done chan struct{}
	seen sight
}

// sight is what a host answered about a service.
type sight struct {
	state step.State
	known bool      // false: nothing was ever deployed there, or the host is out of this process's reach
	err   error     // why there is no answer
	at    time.Time // when it was answered
}

// inspectServices fills in the state of the services that Waybill supervises, of at most mostLooks hosts.
func (s *Service) inspectServices(ctx context.Context, views []HostView) {
	if s.Inspect == nil {
		return
	}
	ctx, cancel := context.WithTimeoutCause(ctx, lookTakes, errUnseen)
	defer cancel()
	var wait sync.WaitGroup
	left := mostLooks
	for i := range views {
		view := &views[i]
		if view.Runs == nil || view.service.Manager != managerProcess {
			continue
		}
		if left == 0 {
			view.skipped = true
			continue
		}
		left--
		wait.Go(func() { view.see(s.lookAtService(ctx, view.place, view.service.Name)) })
	}
	wait.Wait()
}

// see fills in the state of the host's service.
func (v *HostView) see(seen sight) {
	v.Service = serviceOf(seen)
	if v.Service != nil && v.Service.State == ServiceDown && v.stopped {
		v.Service = &Services{State: ServiceStopped, Release: v.Service.Release}
	}
}

// lookAtService returns what a host says of a service, from a recent look or from a new one. Requests that ask at the same
// time share one look. A look that takes too long is reported as an error of the sight.
func (s *Service) lookAtService(ctx context.Context, at pipeline.Place, service string) sight {
	l, mine := s.looks.joinLook(at.Host.URL + "\x00" + at.Host.Root + "\x00" + service)
	if mine {
		// Other requests may wait for this look, so the end of this request does not cut it short.
		whole, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), lookTakes, errUnseen)
		defer cancel()
		l.seen = sight{err: errLookFailed} // stays if inspectService panics
		defer func() {
			l.seen.at = time.Now()
			close(l.done)
		}()
		l.seen = s.inspectService(whole, at, service)
		return l.seen
	}
	select {
	case <-l.done:
		return l.seen
	case <-ctx.Done():
		return sight{err: context.Cause(ctx)}
	}
}

// joinLook returns a recent look at a service, or one under way. mine reports that the caller must make the look.
func (k *looks) joinLook(key string) (l *look, mine bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	maps.DeleteFunc(k.all, func(_ string, l *look) bool {
		select {
		case <-l.done:
			return time.Since(l.seen.at) >= lookLasts
		default:
			return false
		}
	})
	if l = k.all[key]; l != nil {
		return l, false
	}
	l = &look{done: make(chan struct{})}
	k.all[key] = l
	return l, true
}

// inspectService runs the program that looks at a service.
func (s *Service) inspectService(ctx context.Context, at pipeline.Place, service string) (seen sight) {
	select {
	case s.looks.slots <- struct{}{}:
		defer func() { <-s.looks.slots }()
	case <-ctx.Done():
		return sight{err: context.Cause(ctx)}
	}
	seen.state, seen.known, seen.err = s.Inspect(ctx, at, service)
	return seen
}

// serviceOf returns the state of a service as its host reports it; nil if the host knows nothing of it.
func serviceOf(seen sight) *Services {
	state := seen.state
	switch {
	case seen.err != nil:
		return &Services{State: ServiceUnknown, Error: seen.err.Error()}
	case !seen.known:
		return nil
	case state.Service == 0 && state.Supervisor == 0:
		return &Services{State: ServiceDown, Release: state.Release, Restarts: state.Restarts, Exit: state.Exit}
	case state.Service == 0:
		return &Services{State: ServiceRestarting, Release: state.Running, Restarts: state.Restarts, Exit: state.Exit}
	}
	return &Services{State: ServiceUp, Release: state.Running, Restarts: state.Restarts, Exit: state.Exit, Since: state.Started}
}

// restless is the number of restarts from which a service counts as a trouble.
const restless = 3

// serviceTroubles returns a trouble for each service on this machine that is down or keeps restarting.
func (s *Service) serviceTroubles(ctx context.Context) ([]Trouble, error) {
	if s.Inspect == nil {
		return nil, nil
	}
	heads, err := s.ledger.Heads(ctx)
	if err != nil {
		return nil, err
	}
	var views []HostView
	for _, head := range heads {
		if err := s.withFold(ctx, head.Pipeline, func(f *fold) error {
			if _, plan := f.engine.Current(); plan != nil {
				views = append(views, s.hostViews(ctx, f, plan.Definition())...)
			}
			return nil
		}); err != nil {
			return nil, err
		}
	}
	s.inspectServices(ctx, views)
	var all []Trouble
	for _, v := range views {
		if v.Service == nil || v.Service.State == ServiceStopped || v.Service.State == ServiceUp && v.Service.Restarts < restless {
			continue
		}
		name, host, _ := strings.Cut(v.Target, "/")
		hint := "waybill service logs " + name + " " + host
		if v.Service.State == ServiceDown {
			hint = "waybill ship --again starts it; " + hint + " prints its output"
		}
		all = append(all, Trouble{Kind: TroubleService, Subject: v.Target, Warning: true, Text: "the service on " + v.Target + " is " + v.Service.String(), Hint: hint})
	}
	return all, nil
}
