package service

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/waybill-dev/waybill/internal/conductor/handler/step"
	"github.com/waybill-dev/waybill/internal/fault"
)

// ServiceView is the service of a host: what it runs by the log, and what the host reports.
type ServiceView struct {
	Target  string    `json:"target"`          // such as greeter/beta/all/oak
	Name    string    `json:"name"`            // name of the service
	Manager string    `json:"manager"`         // process, or none: Waybill does not start it
	Runs    *Running  `json:"runs,omitempty"`  // the newest release on the host by the log; left out: it knows of none
	Found   *Found    `json:"found,omitempty"` // what the host reports that it has, where the log does not have it
	State   *Services `json:"state,omitempty"` // left out: nothing was deployed there, or Waybill does not start it
	Drift   *Drift    `json:"drift,omitempty"` // left out: the host runs what it should, as far as is known
}

// ServiceStatusView is all that is known of the service of a host.
type ServiceStatusView struct {
	ServiceView
	Host *step.State `json:"host,omitempty"` // what the host reports; left out: nothing was deployed there, or it does not answer

	Verified bool     `json:"verified,omitempty"` // the files of its release were compared with those of its artifact
	Changed  []string `json:"changed,omitempty"`  // those that differ, at most 20
}

// The reasons for which the state of a service is not known where a host has a release by the log.
const (
	notLookedAt = "not looked at"
	outOfReach  = "not within reach of this machine"
	folderGone  = "its folder is not on this machine any more"
)

// Services lists the service of each host of the definition in force, in definition order. It looks at no more than
// mostLooks hosts.
func (s *Service) Services(ctx context.Context, name string) ([]ServiceView, error) {
	all, err := s.pipelineView(ctx, name, 1)
	if err != nil {
		return nil, err
	}
	s.inspectServices(ctx, all.Hosts)
	if err := s.fillDrift(ctx, &all); err != nil {
		return nil, err
	}
	views := make([]ServiceView, len(all.Hosts))
	for i := range all.Hosts {
		views[i] = all.serviceView(i)
	}
	return views, nil
}

// ServiceStatus asks the host of a target for all that it knows of its service. The error is fault.NotFound if the
// definition in force does not have the host.
//
// With verify the host also compares the files of its release with those of the artifact; fault.Unavailable if it cannot.
func (s *Service) ServiceStatus(ctx context.Context, name, target string, verify bool) (ServiceStatusView, error) {
	all, err := s.pipelineView(ctx, name, 1)
	if err != nil {
		return ServiceStatusView{}, err
	}
	at := slices.IndexFunc(all.Hosts, func(v HostView) bool { return v.Target == target })
	if at < 0 {
		return ServiceStatusView{}, fault.New(fault.NotFound, "pipeline %s has no host %q", name, target)
	}
	all.Hosts = all.Hosts[at : at+1]
	host, view := &all.Hosts[0], ServiceStatusView{}
	if s.Inspect != nil {
		seen := s.lookAtService(ctx, host)
		host.see(seen)
		if seen.known && seen.err == nil && seen.state != (step.State{}) {
			view.Host = &seen.state
		}
	}
	if verify {
		if view.Changed, err = s.verifyService(ctx, host); err != nil {
			return ServiceStatusView{}, err
		}
		view.Verified = true
	}
	if err := s.fillDrift(ctx, &all); err != nil {
		return ServiceStatusView{}, err
	}
	view.ServiceView = all.serviceView(0)
	return view, nil
}

// verifyTakes bounds how long a host reads its release.
const verifyTakes = 5 * time.Minute

// verifyService returns the files of a host's release that have changed.
func (s *Service) verifyService(ctx context.Context, host *HostView) ([]string, error) {
	if s.Verify == nil {
		return nil, fault.New(fault.Unavailable, "this process reaches no hosts")
	}
	ctx, cancel := context.WithTimeoutCause(ctx, verifyTakes, fmt.Errorf("not verified within %s", verifyTakes))
	defer cancel()
	if !s.verifying.TryLock() {
		return nil, fault.New(fault.Unavailable, "the files of another host are being verified")
	}
	defer s.verifying.Unlock()
	return s.Verify(ctx, host.place, host.service.Name)
}

// serviceView returns the service of one of the hosts, which was looked at.
func (view *PipelineView) serviceView(at int) ServiceView {
	v := view.Hosts[at].serviceView()
	if i := slices.IndexFunc(view.Drift, func(d Drift) bool { return d.Target == v.Target }); i >= 0 {
		v.Drift = &view.Drift[i]
	}
	return v
}
