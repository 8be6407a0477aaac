package service

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/assembly"
	"github.com/waybill-dev/waybill/internal/cli/cmdline"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/operation"
	"github.com/waybill-dev/waybill/internal/pipeline"
)

// serviceHost is a host as a command line names it.
type serviceHost struct {
	Pipeline string
	Host     string // stage/group/host
}

func (h serviceHost) target() string { return cmdline.FullTarget(h.Pipeline, h.Host) }

// withServiceHost calls run with the host of the arguments [PIPELINE] HOST.
func withServiceHost(a *cmdline.App, c *cobra.Command, given []string, run func(context.Context, *assembly.Session,
	serviceHost) error) error {
	return a.WithSession(c, func(ctx context.Context, s *assembly.Session) error {
		name, err := a.PipelineName(given[:len(given)-1])
		if err != nil {
			return err
		}
		return run(ctx, s, serviceHost{name, given[len(given)-1]})
	})
}

// withLikely adds the host that the person may have meant to the error of a command that has not found it.
func (h serviceHost) withLikely(ctx context.Context, log operation.Caller, command string, err error) error {
	if !fault.Is(err, fault.NotFound) {
		return err
	}
	v, failed := operation.GetVersion.Call(ctx, log, operation.VersionPath{PipelinePath: operation.PipelinePath{Pipeline: h.Pipeline}})
	if failed != nil {
		return err
	}
	likely := likelyHost(&v.Definition, h.target())
	if likely == "" {
		return err
	}
	return fault.Wrap(fault.NotFound, err).WithHint("waybill service %s %s %s", command, h.Pipeline,
		strings.TrimPrefix(likely, h.Pipeline+"/"))
}

// likelyHost returns the host that a person meant by a target: one below it, one whose path ends with it, or the nearest
// spelling; "" when there is none of them.
func likelyHost(d *pipeline.Definition, target string) string {
	var hosts []string
	for place := range d.EachHost() {
		if strings.HasPrefix(place.Target, target+"/") || strings.HasSuffix(place.Target, strings.TrimPrefix(target, d.Pipeline)) {
			return place.Target
		}
		hosts = append(hosts, place.Target)
	}
	return fault.Nearest(target, hosts)
}
