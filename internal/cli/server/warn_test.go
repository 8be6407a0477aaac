package server

import (
	"context"
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/internal/admission"
	"github.com/waybill-dev/waybill/internal/assembly"
	"github.com/waybill-dev/waybill/internal/cli/clitest"
	"github.com/waybill-dev/waybill/internal/config"
	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/operation"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/service"
)

// inForce has one definition for each name.
type inForce map[string]pipeline.Definition

func (f inForce) Call(ctx context.Context, d operation.Description, in, out any) error {
	c := operation.Calls{}
	operation.Serve(c, operation.ListPipelines, func(context.Context, *operation.Nothing) (all []service.PipelineView, err error) {
		for name := range f {
			all = append(all, service.PipelineView{Name: name})
		}
		return all, nil
	})
	operation.Serve(c, operation.GetVersion, func(_ context.Context, in *operation.VersionPath) (journal.Version, error) {
		return journal.Version{Definition: f[in.Pipeline]}, nil
	})
	return c.Call(ctx, d, in, out)
}

func TestApprovalsBesideBuildsOfTheSameAccountAreWarnedOf(t *testing.T) {
	t.Parallel()
	built := pipeline.Stage{Name: "build", Build: &pipeline.Build{}}
	elsewhere := pipeline.Stage{Name: "build", Build: &pipeline.Build{External: true}}
	guarded := pipeline.Stage{Name: "prod", Approval: &admission.Approval{Count: 1}}
	for name, c := range map[string]struct {
		log  inForce
		here buildsHere
		want bool
	}{
		"both": {inForce{"shop": {Stages: []pipeline.Stage{built, guarded}}}, buildsHere{Stages: true}, true},
		"of two pipelines": {inForce{"shop": {Stages: []pipeline.Stage{guarded}},
			"blog": {Stages: []pipeline.Stage{built}}}, buildsHere{Stages: true}, true},
		"workers elsewhere":  {inForce{"shop": {Stages: []pipeline.Stage{built, guarded}}}, buildsHere{}, false},
		"builds elsewhere":   {inForce{"shop": {Stages: []pipeline.Stage{elsewhere, guarded}}}, buildsHere{Stages: true}, false},
		"builds of people":   {inForce{"shop": {Stages: []pipeline.Stage{elsewhere, guarded}}}, buildsHere{Every: true}, true},
		"nothing to approve": {inForce{"shop": {Stages: []pipeline.Stage{built, {Name: "prod"}}}}, buildsHere{Stages: true, Every: true}, false},
	} {
		o := clitest.NewOutput(clitest.AsText)
		warnUnguarded(t.Context(), c.log, c.here, o.Printer)
		if got := strings.Contains(o.Warned.String(),
			"shop/prod waits for approval, but builds run under the account of this process"); got != c.want {
			t.Errorf("%s: it says %q", name, o.Warned.String())
		}
	}
}

// TestBuildsOfTheAccountOfAProcess: a conductor starts those of deployments itself unless a provisioner is named, and a provisioner
// has workers that are processes unless it is to use containers or pods.
func TestBuildsOfTheAccountOfAProcess(t *testing.T) {
	t.Parallel()
	named := config.Provisioner{URL: "http://127.0.0.1:5009"}
	contained, pods := config.Provisioner{Docker: &config.WorkerDocker{}}, config.Provisioner{Kubernetes: &config.Kubernetes{}}
	for name, c := range map[string]struct {
		roles []string
		p     config.Provisioner
		want  buildsHere
	}{
		"up":                        {upRoles(), config.Provisioner{}, buildsHere{Stages: true}},
		"up beside a provisioner":   {upRoles(), named, buildsHere{}},
		"every role":                {allRoles(), named, buildsHere{Every: true}},
		"api":                       {[]string{assembly.RoleAPI}, config.Provisioner{}, buildsHere{}},
		"provisioner":               {[]string{assembly.RoleProvisioner}, config.Provisioner{}, buildsHere{Every: true}},
		"provisioner of containers": {[]string{assembly.RoleProvisioner}, contained, buildsHere{}},
		"provisioner of pods":       {[]string{assembly.RoleProvisioner}, pods, buildsHere{}},
	} {
		if got := buildsOf(c.roles, c.p); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}
