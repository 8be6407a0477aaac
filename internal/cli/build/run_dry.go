package build

import (
	"context"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/builder/local"
	"github.com/waybill-dev/waybill/internal/cli/cmdline"
	"github.com/waybill-dev/waybill/internal/cli/show"
)

// previewDocument is the answer to --dry-run=server.
type previewDocument struct {
	*build.Plan
	Runner  string   `json:"runner"`
	Remarks []string `json:"remarks"`
}

// printPreview shows the plan of a build, and with --dry-run=server the answer of its runner.
func printBuildPlan(ctx context.Context, a *cmdline.App, folder string, flags local.Options) error {
	p, err := builder(a).Preview(ctx, folder, flags)
	if err != nil {
		return err
	}
	lines := show.BuildPlan(p.Plan)
	if !p.Asked {
		return a.Printer().Answer(p.Plan, lines...)
	}
	lines = append(lines, "", p.Runner)
	for _, remark := range p.Remarks {
		lines = append(lines, "  "+remark)
	}
	return a.Printer().Answer(previewDocument{p.Plan, p.Runner, show.Items(p.Remarks)}, lines...)
}
