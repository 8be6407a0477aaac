package server

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/journal"
)

// maxDefinition is the size in bytes above which a waybill.yaml is refused.
const maxDefinition = 8 << 20

// PipelinePath is the part of a path that names a pipeline.
type PipelinePath struct {
	Pipeline string `path:"pipeline" doc:"name of the pipeline"`
}

// DefinitionInput is a waybill.yaml, as YAML or JSON.
type DefinitionInput struct {
	PipelinePath
	Yes     bool   `query:"yes" doc:"apply even if active deployments skip or lose work"`
	File    string `query:"file" doc:"name of the file, for positions in problems"`
	IfMatch string `header:"If-Match" doc:"the definition version that must be in force, 0 for none; left out or *: any"`
	RawBody []byte `contentType:"application/yaml"`
}

// PlanInput is an optional waybill.yaml.
type PlanInput struct {
	PipelinePath
	File     string   `query:"file" doc:"name of the file, for positions in problems"`
	Simulate bool     `query:"simulate" default:"true" doc:"false: only the effects of the edit, no steps"`
	Revision string   `query:"revision" doc:"label of a registered revision; left out: one that is yet to be registered"`
	From     string   `query:"from" doc:"when the deployment begins: a time, or how long from now, such as 2h; left out: now"`
	Fail     []string `query:"fail,explode" maxItems:"100" doc:"what is assumed to fail: TARGET or TARGET:STEP; may be repeated"`
	Source   []byte   `contentType:"application/yaml"` // empty: no definition is proposed
}

// Resolve reads the body. huma calls it before the handler.
func (in *PlanInput) Resolve(ctx huma.Context) []error {
	source, err := io.ReadAll(io.LimitReader(ctx.BodyReader(), maxDefinition+1))
	in.Source = source
	if err != nil {
		return []error{err}
	}
	return nil
}

// VersionPath holds the parameters of GetVersion.
type VersionPath struct {
	PipelinePath
	Version int `path:"version" minimum:"0" doc:"definition version; 0: the one in force"`
}

// pipelineAnswer is the HTTP answer with a pipeline; the ETag is the definition version, for If-Match.
type pipelineAnswer struct {
	ETag string `header:"ETag"`
	Body PipelineView
}

func answerPipeline(view PipelineView) *pipelineAnswer {
	return &pipelineAnswer{ETag: strconv.Quote(strconv.Itoa(view.Version)), Body: view}
}

// Operations on pipelines.
var (
	ListPipelines = Operation[Nothing, []PipelineView]{ID: "list-pipelines", Method: http.MethodGet,
		Path:    "/api/v1/pipelines",
		Summary: "The current state of every pipeline"}
	GetPipeline = Operation[PipelinePath, PipelineView]{ID: "get-pipeline", Method: http.MethodGet,
		Path:    "/api/v1/pipelines/{pipeline}",
		Summary: "One pipeline with its hosts, revisions and deployments"}
	ApplyDefinition = Operation[DefinitionInput, EditView]{ID: "apply-definition", Method: http.MethodPut,
		Path: "/api/v1/pipelines/{pipeline}", Scope: ScopeDefine,
		Summary: "Apply a waybill.yaml"}
	PlanDeployment = Operation[PlanInput, PlanView]{ID: "plan", Method: http.MethodPost,
		Path: "/api/v1/pipelines/{pipeline}/plan", Scope: ScopeRead,
		Summary: "What a deployment, or an edit, would do; changes nothing"}
	ListVersions = Operation[PipelinePath, []journal.Version]{ID: "list-versions", Method: http.MethodGet,
		Path:    "/api/v1/pipelines/{pipeline}/versions",
		Summary: "Definition versions, oldest first"}
	GetVersion = Operation[VersionPath, journal.Version]{ID: "get-version", Method: http.MethodGet,
		Path:    "/api/v1/pipelines/{pipeline}/versions/{version}",
		Summary: "One definition version"}
)

func (a *api) registerPipelines() {
	handle(a, ListPipelines,
		func(ctx context.Context, _ *Nothing) ([]PipelineView, error) { return a.service.Pipelines(ctx) })
	handleAs(a, GetPipeline, func(ctx context.Context, in *PipelinePath) (PipelineView, error) {
		return a.service.Pipeline(ctx, in.Pipeline)
	}, answerPipeline)
	handle(a, ListVersions,
		func(ctx context.Context, in *PipelinePath) ([]journal.Version, error) {
			return a.service.Versions(ctx, in.Pipeline)
		})
	handle(a, GetVersion,
		func(ctx context.Context, in *VersionPath) (journal.Version, error) {
			return a.service.Version(ctx, in.Pipeline, in.Version)
		})
	handleAs(a, ApplyDefinition, a.applyDefinition, inBody[EditView], func(o *huma.Operation) { o.MaxBodyBytes = maxDefinition })
	handleAs(a, PlanDeployment, a.plan, inBody[PlanView], func(o *huma.Operation) {
		o.RequestBody = &huma.RequestBody{Content: map[string]*huma.MediaType{yamlType: {Schema: &huma.Schema{Type: huma.TypeString}}}}
	})
}

func (a *api) applyDefinition(ctx context.Context, in *DefinitionInput) (EditView, error) {
	release, err := a.definitions.Acquire(ctx)
	if err != nil {
		return EditView{}, err
	}
	defer release()
	proposal, err := readNamedProposal(in.Pipeline, in.File, in.RawBody)
	if err != nil {
		return EditView{}, inSource(err, in.RawBody)
	}
	if proposal.IfVersion, err = ifVersion(in.IfMatch); err != nil {
		return EditView{}, err
	}
	proposal.Yes, proposal.By = in.Yes, IdentityOf(ctx).Name
	view, err := a.service.Apply(ctx, proposal)
	return view, inSource(err, in.RawBody)
}

func (a *api) plan(ctx context.Context, in *PlanInput) (PlanView, error) {
	q := PlanQuery{Pipeline: in.Pipeline, Revision: in.Revision, From: in.From, Fail: in.Fail}
	if len(in.Source) == 0 {
		return a.service.Plan(ctx, q)
	}
	release, err := a.definitions.Acquire(ctx)
	if err != nil {
		return PlanView{}, err
	}
	defer release()
	proposal, err := readNamedProposal(in.Pipeline, in.File, in.Source)
	if err != nil {
		return PlanView{}, inSource(err, in.Source)
	}
	if in.Simulate {
		q.Proposal = &proposal
		view, err := a.service.Plan(ctx, q)
		return view, inSource(err, in.Source)
	}
	edit, err := a.service.PlanEdit(ctx, proposal)
	return PlanView{Pipeline: in.Pipeline, Edit: &edit}, inSource(err, in.Source)
}

const (
	mostDefinitions    = 2 // read at a time; the largest file needs about 100 MB of memory
	definitionPatience = 10 * time.Second
)

// readNamedProposal returns a definition that a client sent for a pipeline.
func readNamedProposal(name, file string, source []byte) (Proposal, error) {
	if file == "" {
		file = "waybill.yaml"
	}
	proposal, err := ReadProposal(file, source)
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
