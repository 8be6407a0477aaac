package server

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/waybill-dev/waybill/internal/conductor/handler/step"
	"github.com/waybill-dev/waybill/internal/schedule"
)

// HostView is a host of the definition in force, with what it runs.
type HostView struct {
	Target  string    `json:"target"`
	Runs    *Running  `json:"runs,omitempty"`    // the release that was switched to last; left out: none
	Service *Services `json:"service,omitempty"` // of a host on this machine whose service Waybill supervises
}

// Running is the release on a host.
type Running struct {
	Deployment int64     `json:"deployment"`
	Revision   int64     `json:"revision"`
	Label      string    `json:"label"`
	At         time.Time `json:"at"`               // when it was switched to
	Doubt      string    `json:"doubt,omitempty"`  // DoubtUntested or DoubtFailed; left out: it has passed its test, or has none
	Status     string    `json:"status,omitempty"` // of its deployment
}

// Why a release that runs is not one to trust.
const (
	DoubtUntested = "untested"
	DoubtFailed   = "test failed"
)

// Services is how the supervised service of a host does.
type Services struct {
	State    string `json:"state"`           // up | restarting | down | stopped: by waybill pipeline stop
	Release  string `json:"release"`         // that it runs, or ran last
	Restarts int    `json:"restarts"`        // by its supervisor, since the release was started
	Exit     string `json:"exit,omitempty"`  // its last exit status
	Error    string `json:"error,omitempty"` // why the state is not known
}

// String is such as "up, 3 restarts, last exit status 1".
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

// hostMark is what the log says of the release on a host.
type hostMark struct {
	seq        int64 // of the row that switched it
	deployment int64
	at         time.Time
	tested     bool
	failed     bool
	stopped    bool
}

// host follows what hosts run.
func (m *marks) host(row schedule.Entry) {
	if row.Event == schedule.HostFinished {
		m.through[row.Target] = hostMark{seq: row.Seq, deployment: row.Deployment, at: row.At, tested: true}
	}
	mark := m.hosts[row.Target]
	detail := detailOf(row)
	switch {
	case row.Event == schedule.ServiceStopped:
		mark.stopped = true
	case row.Event == schedule.HostDeployed:
		mark = hostMark{seq: row.Seq, deployment: row.Deployment, at: row.At}
	case mark.deployment != row.Deployment:
		return
	case row.Event == schedule.HostTested:
		mark.tested, mark.failed = true, false
	case row.Event == schedule.StepFailed && detail.Event == schedule.HostTested:
		mark.failed = true
	case row.Event == schedule.StepClaimed && detail.Event == schedule.HostTested:
		mark.failed = false
	default:
		return
	}
	m.hosts[row.Target] = mark
}

// hosts lists the hosts of a definition with what the log says that they run. Targets that share a resource run the same.
func (s *Service) hosts(ctx context.Context, f *fold, d *schedule.Definition) []HostView {
	last := map[schedule.Resource]hostMark{}
	eachHost(d, func(target string, stage *schedule.Stage, group *schedule.Group, host *schedule.Host) {
		marks := f.marks.hosts
		if !hasStep(stage, schedule.HostDeployed) { // nothing is switched: the release is there once the host has finished
			marks = f.marks.through
		}
		if mark, known := marks[target]; known {
			if r := d.ResourceOf(stage, group, host); mark.seq > last[r].seq {
				last[r] = mark
			}
		}
	})
	views := []HostView{}
	eachHost(d, func(target string, stage *schedule.Stage, group *schedule.Group, host *schedule.Host) {
		view := HostView{Target: target}
		if mark, known := last[d.ResourceOf(stage, group, host)]; known {
			view.Runs = s.running(ctx, f, mark, stage)
		}
		views = append(views, view)
	})
	return views
}

func (s *Service) running(ctx context.Context, f *fold, mark hostMark, stage *schedule.Stage) *Running {
	state, _ := f.engine.Deployment(mark.deployment)
	r := &Running{Deployment: mark.deployment, Revision: state.Revision, Label: s.label(ctx, f, state.Revision), At: mark.at, Status: string(state.Status)}
	switch tests := hasStep(stage, schedule.HostTested); {
	case mark.failed:
		r.Doubt = DoubtFailed
	case tests && !mark.tested:
		r.Doubt = DoubtUntested
	}
	return r
}

func hasStep(stage *schedule.Stage, event string) bool {
	for _, s := range stage.Chain {
		if s.Event == event {
			return true
		}
	}
	return false
}

func eachHost(d *schedule.Definition, see func(target string, stage *schedule.Stage, group *schedule.Group, host *schedule.Host)) {
	for i := range d.Stages {
		stage := &d.Stages[i]
		for j := range stage.Groups {
			group := &stage.Groups[j]
			for k := range group.Hosts {
				see(schedule.Path(d.Pipeline, stage.Name, group.Name, group.Hosts[k].Name), stage, group, &group.Hosts[k])
			}
		}
	}
}

// Looking at a service runs a program, so a question looks at so many, so many at a time, and what was seen counts for
// a moment.
const (
	maxLooks  = 100
	looks     = 8
	lookLasts = 3 * time.Second
	lookTakes = 5 * time.Second
)

// looked is what was seen of services, by host and service.
type looked struct {
	mu   sync.Mutex
	seen map[string]look
}

type look struct {
	at    time.Time
	found *Services
}

// inspect fills in how the services of hosts on this machine do.
func (s *Service) inspect(ctx context.Context, d *schedule.Definition, views []HostView, stopped map[string]bool) {
	if s.Inspect == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, lookTakes)
	defer cancel()
	var wait sync.WaitGroup
	slots, n, left := make(chan struct{}, looks), 0, maxLooks
	eachHost(d, func(target string, stage *schedule.Stage, group *schedule.Group, host *schedule.Host) {
		view := &views[n]
		n++
		service := d.ServiceOf(stage, group, host)
		if left == 0 || view.Runs == nil || service.Manager != "process" {
			return
		}
		left--
		wait.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			view.Service = s.look(ctx, *host, service.Name)
			if view.Service != nil && view.Service.State == "down" && stopped[target] {
				view.Service = &Services{State: "stopped", Release: view.Service.Release}
			}
		})
	})
	wait.Wait()
}

func (s *Service) look(ctx context.Context, host schedule.Host, service string) *Services {
	key := host.URL + "\x00" + host.Root + "\x00" + service
	s.looked.mu.Lock()
	last := s.looked.seen[key]
	s.looked.mu.Unlock()
	if time.Since(last.at) < lookLasts {
		return last.found
	}
	state, known, err := s.Inspect(ctx, host, service)
	found := serviceOf(state)
	switch {
	case err != nil:
		found = &Services{State: "unknown", Error: err.Error()}
	case !known:
		found = nil
	}
	s.looked.mu.Lock()
	defer s.looked.mu.Unlock()
	if s.looked.seen == nil {
		s.looked.seen = map[string]look{}
	}
	s.looked.seen[key] = look{time.Now(), found}
	return found
}

// serviceOf says what a host's state means.
func serviceOf(state step.State) *Services {
	s := &Services{State: "up", Release: state.Running, Restarts: state.Restarts, Exit: state.Exit}
	switch {
	case state.Service == 0 && state.Supervisor == 0:
		s.State, s.Release = "down", state.Release
	case state.Service == 0:
		s.State = "restarting"
	}
	return s
}

// restless is the number of restarts from which a service is reported.
const restless = 3

// services are the services on this machine that are down or restart again and again.
func (s *Service) services(ctx context.Context) ([]Trouble, error) {
	if s.Inspect == nil {
		return nil, nil
	}
	heads, err := s.ledger.Heads(ctx)
	if err != nil {
		return nil, err
	}
	var all []Trouble
	for _, head := range heads {
		var views []HostView
		var d *schedule.Definition
		stopped := map[string]bool{}
		if err := s.folded(ctx, head.Pipeline, func(f *fold) error {
			if _, plan := f.engine.Current(); plan != nil {
				d = plan.Definition()
				views = s.hosts(ctx, f, d)
				stopped = f.marks.stopped()
			}
			return nil
		}); err != nil {
			return nil, err
		}
		if d == nil {
			continue
		}
		s.inspect(ctx, d, views, stopped)
		for _, v := range views {
			if v.Service == nil || v.Service.State == "stopped" || v.Service.State == "up" && v.Service.Restarts < restless {
				continue
			}
			all = append(all, Trouble{Kind: TroubleService, Subject: v.Target, Warning: true, Text: "the service on " + v.Target + " is " + v.Service.String(),
				Hint: "waybill service log " + head.Pipeline + " " + strings.TrimPrefix(v.Target, head.Pipeline+"/")})
		}
	}
	return all, nil
}

// stopped lists the hosts whose services were ended by waybill pipeline stop and not started since.
func (m *marks) stopped() map[string]bool {
	list := map[string]bool{}
	for target, mark := range m.hosts {
		list[target] = mark.stopped
	}
	return list
}
