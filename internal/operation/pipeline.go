package operation

import (
	"context"
	"io"
	"net/http"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/service"
)

// MaxDefinition is the size in bytes above which a waybill.yaml is refused.
const MaxDefinition = 8 << 20

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
	source, err := io.ReadAll(io.LimitReader(ctx.BodyReader(), MaxDefinition+1))
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

// Operations on pipelines.
var (
	ListPipelines = Operation[Nothing, []service.PipelineView]{ID: "list-pipelines", Method: http.MethodGet,
		Path:    "/api/v1/pipelines",
		Summary: "The current state of every pipeline"}
	GetPipeline = Operation[PipelinePath, service.PipelineView]{ID: "get-pipeline", Method: http.MethodGet,
		Path:    "/api/v1/pipelines/{pipeline}",
		Summary: "One pipeline with its hosts, revisions and deployments"}
	ApplyDefinition = Operation[DefinitionInput, service.EditView]{ID: "apply-definition", Method: http.MethodPut,
		Path: "/api/v1/pipelines/{pipeline}", Scope: service.ScopeDefine,
		Summary: "Apply a waybill.yaml"}
	PlanDeployment = Operation[PlanInput, service.PlanView]{ID: "plan", Method: http.MethodPost,
		Path: "/api/v1/pipelines/{pipeline}/plan", Scope: service.ScopeRead,
		Summary: "What a deployment, or an edit, would do; changes nothing"}
	ListVersions = Operation[PipelinePath, []journal.Version]{ID: "list-versions", Method: http.MethodGet,
		Path:    "/api/v1/pipelines/{pipeline}/versions",
		Summary: "Definition versions, oldest first"}
	GetVersion = Operation[VersionPath, journal.Version]{ID: "get-version", Method: http.MethodGet,
		Path:    "/api/v1/pipelines/{pipeline}/versions/{version}",
		Summary: "One definition version"}
)

// DefinitionInputOf returns the input of ApplyDefinition for a proposal. Of the definition it has the Source.
func DefinitionInputOf(p service.Proposal) DefinitionInput {
	in := DefinitionInput{PipelinePath: PipelinePath{Pipeline: p.Definition.Pipeline}, Yes: p.Yes, File: p.File, RawBody: []byte(p.Source)}
	if p.IfVersion != nil {
		in.IfMatch = strconv.Quote(strconv.Itoa(*p.IfVersion))
	}
	return in
}

// PlanInputOf returns the input of PlanDeployment for one more deployment with the proposed definition.
func PlanInputOf(p service.Proposal) PlanInput {
	return PlanInput{PipelinePath: PipelinePath{Pipeline: p.Definition.Pipeline}, File: p.File, Source: []byte(p.Source), Simulate: true}
}

// PlanEdit performs PlanDeployment for the effects of a proposal alone.
func PlanEdit(ctx context.Context, to Caller, p service.Proposal) (service.EditView, error) {
	in := PlanInputOf(p)
	in.Simulate = false
	view, err := PlanDeployment.Call(ctx, to, in)
	if err != nil || view.Edit == nil {
		return service.EditView{}, err
	}
	return *view.Edit, nil
}
