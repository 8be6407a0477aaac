package service

import (
	"cmp"
	"context"
	"strings"

	"github.com/waybill-dev/waybill/internal/fault"
)

// restless is the number of restarts from which a service counts as a trouble.
const restless = 3

// serviceTroubles returns a trouble for each service that is down or keeps restarting, and for each host whose
// release is not the one in the log.
func (s *Service) serviceTroubles(ctx context.Context) ([]Trouble, error) {
	if s.Inspect == nil {
		return nil, nil
	}
	views, bad, err := s.allPipelines(ctx)
	if err != nil {
		return nil, err
	}
	var hosts []HostView
	for i := range views {
		hosts = append(hosts, views[i].Hosts...)
	}
	s.inspectServices(ctx, hosts) // hosts of all pipelines together, so that their bounds are those of the request
	for i := range views {
		count := len(views[i].Hosts)
		views[i].Hosts, hosts = hosts[:count], hosts[count:]
	}
	var all []Trouble
	for _, u := range bad {
		all = append(all, Trouble{Kind: TroubleService, Subject: u.pipeline, Warning: true,
			Text: "the hosts of " + u.pipeline + " are not looked at: " + u.err.Error(),
			Hint: "waybill log " + u.pipeline + " --verify"})
	}
	for i := range views {
		found, err := s.troublesOf(ctx, &views[i])
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, nil
}

// troublesOf returns the troubles of a pipeline's hosts, which were looked at.
func (s *Service) troublesOf(ctx context.Context, view *PipelineView) (all []Trouble, err error) {
	byLog := len(view.Drift)
	if err := s.fillDrift(ctx, view); err != nil {
		return nil, err
	}
	for _, d := range view.Drift[byLog:] {
		all = append(all, Trouble{Kind: TroubleService, Subject: d.Target, Warning: true, Text: d.Target + " " + d.Reason,
			Hint: d.Remedy(view.Name) + " deploys it again"})
	}
	for _, v := range view.Hosts {
		if v.Service == nil || v.Service.State == ServiceStopped || v.Service.State == ServiceUp && v.Service.Restarts < restless {
			continue
		}
		name, host, _ := strings.Cut(v.Target, "/")
		hint := "waybill service logs " + name + " " + host
		switch {
		case v.Service.State == ServiceDown:
			hint = "waybill ship --again starts it; " + hint + " prints its output"
		case v.Service.Error != "": // it cannot be asked for its output either
			hint = cmp.Or(fault.HintOf(v.seen.err), "waybill service status "+name+" "+host+" asks it again")
		}
		all = append(all, Trouble{Kind: TroubleService, Subject: v.Target, Warning: true,
			Text: "the service on " + v.Target + " is " + v.Service.String(), Hint: hint})
	}
	return all, nil
}
