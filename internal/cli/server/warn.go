package server

import (
	"context"
	"slices"

	"github.com/waybill-dev/waybill/internal/assembly"
	"github.com/waybill-dev/waybill/internal/cli/show"
	"github.com/waybill-dev/waybill/internal/config"
	"github.com/waybill-dev/waybill/internal/operation"
)

// warnUnguarded warns when a stage waits for the approval of people although builds, which can read the tokens of
// their account, run under that of this process. A log that cannot be read is reported by the commands that need it.
func warnUnguarded(ctx context.Context, log operation.Caller, here buildsHere, out show.Printer) {
	if here == (buildsHere{}) {
		return
	}
	all, err := operation.ListPipelines.Call(ctx, log, operation.Nothing{})
	if err != nil {
		return
	}
	guarded, builds := "", here.Every
	for i := range all {
		v, err := operation.GetVersion.Call(ctx, log, operation.VersionPath{PipelinePath: operation.PipelinePath{Pipeline: all[i].Name}})
		if err != nil {
			continue // it has no definition yet
		}
		for k := range v.Definition.Stages {
			stage := &v.Definition.Stages[k]
			builds = builds || stage.Build != nil && !stage.Build.External
			if stage.Approval != nil && guarded == "" {
				guarded = all[i].Name + "/" + stage.Name
			}
		}
		if builds && guarded != "" {
			out.Warn("waybill: %s waits for approval, but builds run under the account of this process and can read its token: "+
				"who may ship can approve in any name; docs/operate.md, \"Tokens\", says how to keep them apart", guarded)
			return
		}
	}
}

// buildsHere names the builds that run under the account of a process.
type buildsHere struct {
	Stages bool // those of deployments, which a conductor starts itself where no provisioner is named
	Every  bool // also those that people and schedules start: a provisioner's workers are processes of its account
}

// buildsOf returns which builds run under the account of a process with these roles.
func buildsOf(roles []string, p config.Provisioner) buildsHere {
	return buildsHere{Stages: slices.Contains(roles, assembly.RoleConductor) && p.URL == "",
		Every: slices.Contains(roles, assembly.RoleProvisioner) && p.Docker == nil && p.Kubernetes == nil}
}
