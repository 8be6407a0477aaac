package service

import (
	"context"
	"fmt"
	"strings"

	"github.com/waybill-dev/waybill/internal/conductor/handler/step"
	"github.com/waybill-dev/waybill/internal/fault"
)

// mostOfLog is the number of bytes that are read of the end of a service's log.
const mostOfLog = 1 << 20

// ServiceLogQuery names a service, and the part of its output that is wanted.
type ServiceLogQuery struct {
	Pipeline string
	Target   string // a host, such as greeter/beta/all/oak
	Follow   bool   // only whole lines: a line that is not complete yet is left for the next query
	After    string // Next of an earlier view; "": the newest output
	Most     int64  // bytes; 0: mostOfLog, which is also the bound. A server always answers with mostOfLog
}

// ServiceLogView is a part of the output of the service on a host.
type ServiceLogView struct {
	Target  string `json:"target"`  // such as greeter/beta/all/oak
	Service string `json:"service"` // its name
	Cut     bool   `json:"cut"`     // the beginning of the output is left out
	Text    string `json:"text"`    // includes control characters; bytes that are not UTF-8 are replaced
	Next    string `json:"next"`    // the place after the text, from which it can be continued
	More    bool   `json:"more"`    // there was more after the text already
}

// ServiceLog returns the last output of the service on a host, or what came after an earlier view. The error is
// fault.NotFound if the definition in force does not have the host, fault.Refused if Waybill does not keep the output
// of the service, and fault.Unavailable if the host is out of reach or never started a service.
func (s *Service) ServiceLog(ctx context.Context, q ServiceLogQuery) (ServiceLogView, error) {
	version, err := s.Version(ctx, q.Pipeline, 0)
	if err != nil {
		return ServiceLogView{}, err
	}
	d := &version.Definition
	at, ok := d.Place(q.Target)
	if !ok {
		return ServiceLogView{}, fault.New(fault.NotFound, "pipeline %s has no host %q", q.Pipeline, q.Target)
	}
	view := ServiceLogView{Target: q.Target}
	service := d.ServiceOf(at.Stage, at.Group, at.Host)
	view.Service = service.Name
	if !service.Supervised() {
		return view, fault.New(fault.Refused, "no service runs on %s: its manager is %s", q.Target, service.Manager)
	}
	if service.Unit != "" {
		return view, fault.New(fault.Refused, "the output of the service on %s is in the journal of its host", q.Target).
			WithHint("on the host: journalctl --unit=%s", service.Unit)
	}
	part := step.LogQuery{Most: mostOfLog, Whole: q.Follow}
	if q.Most > 0 {
		part.Most = min(q.Most, mostOfLog)
	}
	if q.After != "" {
		if part.After, err = step.ParseLogPlace(q.After); err != nil {
			return view, fmt.Errorf("after: %w", err)
		}
	}
	elsewhere := fault.New(fault.Unavailable,
		"the output of the service on %s is not within reach of this machine, or does not exist yet", q.Target).
		WithHint("with several processes ask the one whose home has the host: --server URL")
	if s.ReadLog == nil {
		return view, elsewhere
	}
	log, known, err := s.ReadLog(ctx, at, &service, part)
	if err == nil && !known {
		err = elsewhere
	}
	view.Text, view.Cut, view.Next, view.More = strings.ToValidUTF8(string(log.Text), "\ufffd"), log.Cut, log.Next.String(), log.More
	return view, err
}
