package server

import (
	"context"
	"net/url"
	"strings"

	"github.com/waybill-dev/waybill/internal/fault"
)

// mostOfLog is the number of bytes that are read of the end of a service's log.
const mostOfLog = 1 << 20

// ServiceLogView is the end of the output of the service on a host.
type ServiceLogView struct {
	Target  string `json:"target"`  // such as greeter/beta/all/oak
	Service string `json:"service"` // its name
	Cut     bool   `json:"cut"`     // the beginning of the output is left out
	Text    string `json:"text"`    // includes control characters; bytes that are not UTF-8 are replaced
}

// ServiceLog returns the last output of the service on a host. The error is fault.NotFound if the definition in
// force does not have the host, and fault.Unavailable if the host is out of reach or never started a service.
func (s *Service) ServiceLog(ctx context.Context, name, target string) (ServiceLogView, error) {
	version, err := s.Version(ctx, name, 0)
	if err != nil {
		return ServiceLogView{}, err
	}
	d := &version.Definition
	at, ok := d.Place(target)
	if !ok {
		return ServiceLogView{}, fault.New(fault.NotFound, "pipeline %s has no host %q", name, target)
	}
	view := ServiceLogView{Target: target}
	service := d.ServiceOf(at.Stage, at.Group, at.Host)
	view.Service = service.Name
	if service.Manager != managerProcess {
		return view, fault.New(fault.Refused, "no service runs on %s: its manager is %s", target, service.Manager)
	}
	elsewhere := fault.New(fault.Unavailable, "the output of the service on %s is not within reach of this machine, or does not exist yet", target).
		WithHint("with several processes ask the one whose home has the host: --server URL")
	if s.ReadLog == nil {
		return view, elsewhere
	}
	log, known, err := s.ReadLog(ctx, at, service.Name, mostOfLog)
	if err == nil && !known {
		err = elsewhere
	}
	view.Text, view.Cut = strings.ToValidUTF8(string(log.Text), "\ufffd"), log.Cut
	return view, err
}

// ServiceLog calls Service.ServiceLog on the server.
func (c *Client) ServiceLog(ctx context.Context, name, target string) (view ServiceLogView, err error) {
	return view, c.getJSON(ctx, apiPath("pipelines", name, "service-log"), url.Values{"target": {target}}, &view)
}

// serviceLog needs a token even on this machine: the output of a service may be confidential, and it is not redacted.
func (a *api) serviceLog(ctx context.Context, in *serviceInput) (ServiceLogView, error) {
	if _, err := Require(ctx, ScopeRead); err != nil {
		return ServiceLogView{}, err
	}
	return a.service.ServiceLog(ctx, in.Pipeline, in.Target)
}
