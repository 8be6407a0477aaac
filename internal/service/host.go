package service

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/conductor/handler/step"
	"github.com/waybill-dev/waybill/internal/pipeline"
)

// HostView is a host of the definition in force and the release that it runs.
type HostView struct {
	Target  string    `json:"target"`
	Runs    *Running  `json:"runs,omitempty"`    // the newest release on the host by the log; left out: it knows of none
	Found   *Found    `json:"found,omitempty"`   // what the host reports that it has, where the log does not have it
	Service *Services `json:"service,omitempty"` // left out: nothing was deployed there, or Waybill does not start it

	place   pipeline.Place
	service pipeline.Service      // the host's service by the definition
	release string                // name of the release of Runs on the host; "": not known
	stopped bool                  // waybill pipeline stop ended the service, and nothing has started it since
	alone   bool                  // the log is a file of this home, and so are the folders of its local hosts
	taken   *pipeline.TakenDetail // another log has deployed to the host, and this one not since
	skipped bool                  // the service was not looked at: the request had looked at mostLooks already
	changed int64                 // the last entry that changed what the host runs; 0: none
	seen    sight                 // what the host answered
}

// Running is the release on a host.
type Running struct {
	Deployment int64     `json:"deployment"`
	Revision   int64     `json:"revision"`
	Label      string    `json:"label"`
	At         time.Time `json:"at"`               // time at which the host switched to it
	Doubt      string    `json:"doubt,omitempty"`  // DoubtUntested or DoubtFailed; left out: it passed its test, or has none
	Status     string    `json:"status,omitempty"` // status of its deployment
	Target     string    `json:"target,omitempty"` // the name that the host had then; left out: that of today
}

// String returns a text such as "88d0e17 (#2), deployed as greeter/prod/all/oak".
func (r *Running) String() string {
	text := fmt.Sprintf("%s (#%d)", r.Label, r.Deployment)
	if r.Target != "" {
		text += ", deployed as " + r.BelowPipeline()
	}
	return text
}

// BelowPipeline returns Target without the pipeline's name.
func (r *Running) BelowPipeline() string {
	_, below, _ := strings.Cut(r.Target, "/")
	return below
}

// Found is a release that a host reports and the log does not know there.
type Found struct {
	Release    string `json:"release"`              // its name on the host
	Deployment string `json:"deployment,omitempty"` // the last one there, such as greeter#9; left out: not known
	Instead    string `json:"instead,omitempty"`    // what the host runs by the log, such as 88d0e17 (#2); left out: nothing
}

// String returns a text such as "3f2c9a1-2c26b46b68ff (greeter#9 of another log)", or "3f2c9a1-2c26b46b68ff, not 88d0e17 (#2)".
func (f *Found) String() string {
	if f.Instead != "" {
		return f.Release + ", not " + f.Instead
	}
	if f.Deployment == "" {
		return f.Release + " (of another log)"
	}
	return fmt.Sprintf("%s (%s of another log)", f.Release, f.Deployment)
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

	Since    time.Time `json:"since,omitzero"`    // last start of the service, by the host's clock; left out: it is not up
	Observed time.Time `json:"observed,omitzero"` // time at which the host was queried; left out: for this view
}

// The states of a service.
const (
	ServiceUp         = "up"
	ServiceRestarting = "restarting" // its supervisor waits before it starts it again
	ServiceDown       = "down"       // neither runs nor is being restarted, as after a restart of its machine
	ServiceStopped    = "stopped"    // down, by waybill pipeline stop
	ServiceUnknown    = "unknown"    // Error says why
)

// ServiceStates returns all states of a service.
func ServiceStates() []string {
	return []string{ServiceUp, ServiceRestarting, ServiceDown, ServiceStopped, ServiceUnknown}
}

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

// hostViews returns the hosts of a definition with the release that each runs by the log.
func (s *Service) hostViews(ctx context.Context, f *fold, d *pipeline.Definition) []HostView {
	views := []HostView{}
	for at := range d.EachHost() {
		views = append(views, s.hostView(ctx, f, d, at))
	}
	return views
}

// hostView returns a host of a definition with the release that it runs by the log. A host is known by its resource: whatever
// was deployed to it under another name runs there, and targets that share a resource run the same release.
func (s *Service) hostView(ctx context.Context, f *fold, d *pipeline.Definition, at pipeline.Place) HostView {
	r := d.ResourceOf(at.Stage, at.Group, at.Host)
	mark, last := f.marks.hosts[r], f.marks.hosts[r]
	if through := f.marks.through[r]; !hasStep(at.Stage, pipeline.HostDeployed) && through.seq > mark.changed {
		last = through // nothing is switched: the release is there once the host has finished
	}
	view := HostView{Target: at.Target, place: at, service: d.ServiceOf(at.Stage, at.Group, at.Host), stopped: mark.stopped,
		changed: max(mark.changed, last.changed), taken: last.taken, alone: s.ledger.Embedded()}
	if last.deployment != 0 {
		view.Runs, view.release = s.runningOn(ctx, f, last, at), last.release
	}
	return view
}

// runningOn returns the release that a host runs, and whether it can be trusted.
func (s *Service) runningOn(ctx context.Context, f *fold, mark hostMark, host pipeline.Place) *Running {
	state := s.stateOf(ctx, f, mark.deployment)
	r := &Running{Deployment: mark.deployment, Revision: state.Revision, Label: s.revisionLabel(ctx, f, state.Revision),
		At: mark.at, Status: string(state.Status)}
	if mark.target != host.Target {
		r.Target = mark.target
	}
	switch tests := hasStep(host.Stage, pipeline.HostTested); {
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

// state returns the state of the service of a host that was looked at: unknown if this log deployed something there
// and the host did not answer.
func (v *HostView) state() *Services {
	switch {
	case !v.service.Supervised() || !v.isUsed(): // its only state is that the host does not answer
	case v.skipped:
		return &Services{State: ServiceUnknown, Error: notLookedAt}
	case v.Service == nil && v.alone && !v.place.Host.Remote():
		return &Services{State: ServiceUnknown, Error: folderGone}
	case v.Service == nil:
		return &Services{State: ServiceUnknown, Error: outOfReach}
	}
	return v.Service
}

// isLookedAt reports whether the host is asked about its service: Waybill supervises it, or only the host knows its release.
// A local host is asked although the log has deployed nothing to it: that costs little, and another log may have. An ssh host
// is not, since it need not be there yet.
func (v *HostView) isLookedAt() bool {
	if v.place.Host.Remote() {
		return v.isUsed()
	}
	return v.service.Supervised()
}

// isUsed reports whether this log, or the one that the host followed before, deployed something to the host.
func (v *HostView) isUsed() bool { return v.Runs != nil || v.taken != nil }

// lookKey names the host and the service for looks and observations.
func (v *HostView) lookKey() string {
	return v.place.Host.URL + "\x00" + v.place.Host.Root + "\x00" + v.service.Name
}

// Unknown reports that the host, or its service, has not answered.
func (v *HostView) Unknown() bool { return v.Service != nil && v.Service.State == ServiceUnknown }

// see fills in what the host answered, and the state of its service.
func (v *HostView) see(seen sight) {
	v.seen = seen
	v.Found = v.foundBy(seen)
	if seen.err == nil && !v.service.Supervised() {
		v.Service = nil // the host program starts nothing, so its answer has no service
		return
	}
	v.Service = serviceOf(seen)
	if !v.isUsed() && seen.state == (step.State{}) && seen.err == nil {
		v.Service = nil // nothing was ever deployed there
	}
	if v.Service != nil && v.Service.State == ServiceDown && v.stopped {
		v.Service = &Services{State: ServiceStopped, Release: v.Service.Release}
	}
	if v.Service != nil {
		v.Service.Observed = seen.at
	}
}

// foundBy returns the release that a host reports, or nil if the log agrees.
func (v *HostView) foundBy(seen sight) *Found {
	if seen.err != nil || seen.state.Release == "" {
		return nil
	}
	if v.Runs != nil {
		if v.release == "" || v.release == seen.state.Release {
			return nil
		}
		return &Found{Release: seen.state.Release, Deployment: seen.state.Deployment, Instead: v.Runs.String()}
	}
	if v.taken != nil { // the host names the person who took it over
		return &Found{Release: seen.state.Release, Deployment: v.taken.Deployment}
	}
	return &Found{Release: seen.state.Release, Deployment: seen.state.Deployment}
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

// serviceView returns the service of a host that was looked at, without its drift.
func (v *HostView) serviceView() ServiceView {
	return ServiceView{Target: v.Target, Name: v.service.Name, Manager: v.service.Manager, Runs: v.Runs, Found: v.Found, State: v.state()}
}
