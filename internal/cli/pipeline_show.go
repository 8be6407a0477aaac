package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/server"
)

func (a *app) pipelineShowCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "show [PIPELINE]",
		Short: "Show which revision is at each stage and inside it, and which hosts differ",
		Long: `Shows, per stage, the revision that has finished it and those that are on their way through
it; then the hosts that run what was not tested, whose service (on this machine) was restarted or is
down, and that do not run what their stage has. Without a name: this folder's pipeline.`,
		Example:           examples("waybill pipeline show greeter", "waybill pipeline show greeter -o json | jq .drift"),
		Args:              arguments(0, 1, "PIPELINE"),
		ValidArgsFunction: a.completePipelines,
		RunE: func(c *cobra.Command, arguments []string) error {
			return a.withSession(c, func(ctx context.Context, s *session) error {
				name, err := a.pipelineName(arguments)
				if err != nil {
					return err
				}
				p, err := s.Pipeline(ctx, name)
				if err != nil {
					return err
				}
				if a.json() {
					return a.printJSON(p)
				}
				return a.showPipeline(p)
			})
		},
	}
}

// pipelineName is the one that was named, else that of this folder's waybill.yaml.
func (a *app) pipelineName(arguments []string) (string, error) {
	if len(arguments) > 0 {
		return arguments[0], nil
	}
	p, err := a.project(nil)
	return p.definition.Pipeline, err
}

func (a *app) showPipeline(p server.PipelineView) error {
	s := a.style(a.out)
	fmt.Fprintf(a.out, "%s  definition %d\n", s.bold(p.Name), p.Version)
	var t table
	for _, stage := range p.Stages {
		t.add("  "+stage.Name, standingText(stage), insideText(stage))
	}
	if err := t.write(a.out); err != nil {
		return err
	}
	for _, d := range p.Active {
		ref := server.Ref{Pipeline: p.Name, Number: d.Deployment}
		text := fmt.Sprintf("active: %s, %d of %d done", ref, d.Done, d.Total)
		if d.Until != "" {
			text += ", until " + d.Until
		}
		if d.Held != "" {
			text += ", held " + d.Held
		}
		fmt.Fprintln(a.out, text)
	}
	for _, h := range p.Hosts {
		name := strings.TrimPrefix(h.Target, p.Name+"/")
		if h.Runs != nil && h.Runs.Doubt != "" {
			fmt.Fprintf(a.out, "%s %s runs %s of #%d\n", s.warn(h.Runs.Doubt+":"), name, h.Runs.Label, h.Runs.Deployment)
		}
		if h.Service != nil && (h.Service.State != "up" || h.Service.Restarts > 0) {
			fmt.Fprintf(a.out, "%s %s is %s\n", s.warn("service:"), name, h.Service)
		}
	}
	if slices.ContainsFunc(p.Hosts, func(h server.HostView) bool { return h.Service != nil && h.Service.State == server.ServiceDown }) {
		fmt.Fprintln(a.out, "waybill ship --again starts the services that are down")
	}
	for _, d := range p.Drift {
		fmt.Fprintf(a.out, "%s %s %s\n", s.warn("drift:"), strings.TrimPrefix(d.Target, p.Name+"/"), d.Reason)
	}
	if p.Last != nil && p.Last.Status == pipeline.StatusFailed {
		fmt.Fprintf(a.out, "%s %s: waybill deployment show %s\n", s.bad("failed:"), refOf(*p.Last), refOf(*p.Last))
	}
	return nil
}

// standingText is the revision that has finished a stage: 88d0e17 (#2).
func standingText(stage server.StageView) string {
	if stage.Current == nil {
		return "-"
	}
	return fmt.Sprintf("%s (#%d)", stage.Current.Label, stage.Current.Deployment)
}

// insideText is what is on its way through a stage: <- 88d0e17 (#2), 2 of 4 hosts.
func insideText(stage server.StageView) string {
	var parts []string
	for _, in := range stage.Inside {
		text := fmt.Sprintf("<- %s (#%d)", in.Label, in.Deployment)
		if in.Hosts > 0 {
			text += fmt.Sprintf(", %d of %s", in.HostsDone, count(in.Hosts, "host"))
		}
		if in.Status != pipeline.StatusActive {
			text += ", " + string(in.Status)
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, "  ")
}
