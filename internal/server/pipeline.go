package server

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/operation"
	"github.com/waybill-dev/waybill/internal/service"
)

// pipelineAnswer is the HTTP answer with a pipeline; the ETag is the definition version, for If-Match.
type pipelineAnswer struct {
	ETag string `header:"ETag"`
	Body service.PipelineView
}

func answerPipeline(view service.PipelineView) *pipelineAnswer {
	return &pipelineAnswer{ETag: strconv.Quote(strconv.Itoa(view.Version)), Body: view}
}

func (a *api) registerPipelines() {
	handle(a, operation.ListPipelines,
		func(ctx context.Context, _ *operation.Nothing) ([]service.PipelineView, error) {
			return a.service.Pipelines(ctx)
		})
	handleAs(a, operation.GetPipeline, func(ctx context.Context, in *operation.PipelinePath) (service.PipelineView, error) {
		return a.service.Pipeline(ctx, in.Pipeline)
	}, answerPipeline)
	handle(a, operation.ListVersions,
		func(ctx context.Context, in *operation.PipelinePath) ([]journal.Version, error) {
			return a.service.Versions(ctx, in.Pipeline)
		})
	handle(a, operation.GetVersion,
		func(ctx context.Context, in *operation.VersionPath) (journal.Version, error) {
			return a.service.Version(ctx, in.Pipeline, in.Version)
		})
	handleAs(a, operation.ApplyDefinition, a.applyDefinition, inBody[service.EditView],
		func(o *huma.Operation) { o.MaxBodyBytes = operation.MaxDefinition })
	handleAs(a, operation.PlanDeployment, a.plan, inBody[service.PlanView], func(o *huma.Operation) {
		o.RequestBody = &huma.RequestBody{Content: map[string]*huma.MediaType{operation.YAMLType: {Schema: &huma.Schema{Type: huma.TypeString}}}}
	})
}

func (a *api) applyDefinition(ctx context.Context, in *operation.DefinitionInput) (service.EditView, error) {
	release, err := a.definitions.Acquire(ctx)
	if err != nil {
		return service.EditView{}, err
	}
	defer release()
	proposal, err := readNamedProposal(in.Pipeline, in.File, in.RawBody)
	if err != nil {
		return service.EditView{}, inSource(err, in.RawBody)
	}
	if proposal.IfVersion, err = ifVersion(in.IfMatch); err != nil {
		return service.EditView{}, err
	}
	proposal.Yes, proposal.By = in.Yes, service.IdentityOf(ctx).Name
	view, err := a.service.Apply(ctx, proposal)
	return view, inSource(err, in.RawBody)
}

func (a *api) plan(ctx context.Context, in *operation.PlanInput) (service.PlanView, error) {
	q := service.PlanQuery{Pipeline: in.Pipeline, Revision: in.Revision, From: in.From, Fail: in.Fail}
	if len(in.Source) == 0 {
		return a.service.Plan(ctx, q)
	}
	release, err := a.definitions.Acquire(ctx)
	if err != nil {
		return service.PlanView{}, err
	}
	defer release()
	proposal, err := readNamedProposal(in.Pipeline, in.File, in.Source)
	if err != nil {
		return service.PlanView{}, inSource(err, in.Source)
	}
	if in.Simulate {
		q.Proposal = &proposal
		view, err := a.service.Plan(ctx, q)
		return view, inSource(err, in.Source)
	}
	edit, err := a.service.PlanEdit(ctx, proposal)
	return service.PlanView{Pipeline: in.Pipeline, Edit: &edit}, inSource(err, in.Source)
}

const (
	mostDefinitions    = 2 // read at a time; the largest file needs about 100 MB of memory
	definitionPatience = 10 * time.Second
)

// readNamedProposal returns a definition that a client sent for a pipeline.
func readNamedProposal(name, file string, source []byte) (service.Proposal, error) {
	if file == "" {
		file = "waybill.yaml"
	}
	proposal, err := service.ReadProposal(file, source)
	if err != nil {
		return proposal, err
	}
	if proposal.Definition.Pipeline != name {
		return proposal, fault.New(fault.Invalid, "the file defines the pipeline %q, the address names %q",
			proposal.Definition.Pipeline, name)
	}
	return proposal, nil
}

// ifVersion parses an If-Match header: a version, with or without quotes.
func ifVersion(header string) (*int, error) {
	if header == "" || header == "*" {
		return nil, nil
	}
	version, err := strconv.Atoi(strings.Trim(header, `"`))
	if err != nil {
		return nil, fault.New(fault.Invalid, "If-Match: want a definition version, found %s", header)
	}
	return &version, nil
}
