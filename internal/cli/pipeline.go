package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/server"
)

func (a *app) pipelineCommand() *cobra.Command {
	return group("pipeline", "Read, check and apply pipelines",
		"A pipeline is what a waybill.yaml describes. Every version that was applied is kept.",
		a.pipelineListCommand(), a.pipelineShowCommand(), a.pipelineApplyCommand(),
		a.pipelineValidateCommand(), a.pipelineVersionsCommand(), a.pipelineStopCommand())
}

func (a *app) pipelineListCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "List pipelines",
		Example: examples("waybill pipeline list", "waybill pipeline list -o json | jq -r '.[].name'"),
		Args:    arguments(0, 0),
		RunE: func(c *cobra.Command, _ []string) error {
			return a.withSession(c, a.listPipelines)
		},
	}
}

func (a *app) listPipelines(ctx context.Context, s *session) error {
	all, err := s.Pipelines(ctx)
	if err != nil {
		return err
	}
	if a.json() {
		return a.printJSON(list(all))
	}
	if len(all) == 0 {
		fmt.Fprintln(a.err, "no pipelines")
		return nil
	}
	var t table
	t.add("PIPELINE", "DEFINITION", "STAGES", "ACTIVE", "LAST")
	for _, p := range all {
		t.add(p.Name, fmt.Sprint(p.Version), dash(stageNames(p)), fmt.Sprint(len(p.Active)), lastText(p))
	}
	return t.write(a.out)
}

func stageNames(p server.PipelineView) string {
	var names []string
	for _, stage := range p.Stages {
		names = append(names, stage.Name)
	}
	return strings.Join(names, ",")
}

func lastText(p server.PipelineView) string {
	if p.Last == nil {
		return "-"
	}
	return fmt.Sprintf("%s %s %s", refOf(*p.Last), p.Last.Label, p.Last.Status)
}
