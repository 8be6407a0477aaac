package clitest

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/assembly"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/operation"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/service"
)

// Log answers the operations on deployments, pipelines and revisions from its fields, and records the calls that matter to a
// test. An operation that it does not have panics or fails: the command was not to use it.
type Log struct {
	assembly.Streams
	assembly.Processes

	Err   error            // error of every operation that has no error of its own
	Errs  map[string]error // by operation
	Calls []string

	Recent    []journal.Deployment // newest first
	Views     map[string]service.DeploymentView
	Read      func(context.Context, service.Ref) (service.DeploymentView, error) // reads a deployment; nil: from Views
	Open      []pipeline.StepState
	Written   []pipeline.Entry
	Pipelines []service.PipelineView
	Version   journal.Version
	Versions  []journal.Version
	Revisions []pipeline.RegisteredRevision // newest first
	Snapshot  service.SnapshotView
	Edit      service.EditView
	Planned   service.PlanView
	Artifact  pipeline.RevisionArtifact // stored artifact; without a digest: the uploaded one
	Files     string                    // stored files
}

// Record records an operation with its arguments, and returns its error.
func (f *Log) Record(name string, arguments ...any) error {
	words := []string{name}
	for _, each := range arguments {
		words = append(words, fmt.Sprint(each))
	}
	f.Calls = append(f.Calls, strings.TrimSpace(strings.Join(words, " ")))
	if err := f.Errs[name]; err != nil {
		return err
	}
	return f.Err
}

// Call performs an operation with its method.
func (f *Log) Call(ctx context.Context, d operation.Description, in, out any) error {
	return f.Served().Call(ctx, d, in, out)
}

// Served returns the operations that are served by methods.
func (f *Log) Served() operation.Calls {
	c := operation.Calls{}
	operation.Serve(c, operation.ListPipelines, f.listPipelines)
	operation.Serve(c, operation.GetPipeline, f.getPipeline)
	operation.Serve(c, operation.GetVersion, f.getVersion)
	operation.Serve(c, operation.ListVersions, f.listVersions)
	operation.Serve(c, operation.ListRevisions, f.listRevisions)
	operation.Serve(c, operation.GetRevision, f.getRevision)
	operation.Serve(c, operation.GetSnapshot, f.getSnapshot)
	operation.Serve(c, operation.ListDeployments, f.listDeployments)
	operation.Serve(c, operation.GetDeployment, f.getDeployment)
	operation.Serve(c, operation.ExplainDeployment, f.explainDeployment)
	operation.Serve(c, operation.CreateDeployment, f.createDeployment)
	for _, kind := range []string{"retry", "skip", "hold", "resume", "until", "alarm", "cancel"} {
		operation.Serve(c, operation.CommandDeployment(kind), f.commandDeployment(kind))
	}
	operation.Serve(c, operation.ReadLog, f.readLog)
	operation.Serve(c, operation.RegisterRevision, f.registerRevision)
	operation.Serve(c, operation.PutSnapshot, f.putSnapshot)
	operation.Serve(c, operation.PutArtifact, f.putArtifact)
	operation.Serve(c, operation.PlanDeployment, f.planDeployment)
	operation.Serve(c, operation.ApplyDefinition, f.applyDefinition)
	return c
}

// WantCalls compares the recorded calls.
func (f *Log) WantCalls(t *testing.T, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, f.Calls); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

// listDeployments selects by pipeline, revision and status, as the log does.
func (f *Log) listDeployments(_ context.Context, q *operation.DeploymentsInput) ([]journal.Deployment, error) {
	if err := f.Record("Deployments", q.Pipeline, q.Revision, q.Status, q.Limit); err != nil {
		return nil, err
	}
	var found []journal.Deployment
	for _, d := range f.Recent {
		if (q.Pipeline == "" || d.Pipeline == q.Pipeline) && (q.Revision == 0 || d.Revision == q.Revision) &&
			(q.Status == "" || string(d.Status) == q.Status) {
			found = append(found, d)
		}
	}
	if q.Limit > 0 && len(found) > q.Limit {
		found = found[:q.Limit]
	}
	return found, nil
}

func (f *Log) Deployment(_ context.Context, ref service.Ref) (service.DeploymentView, error) {
	v, ok := f.Views[ref.String()]
	if err := f.Record("Deployment", ref); err != nil || ok {
		return v, err
	}
	return v, fault.New(fault.NotFound, "deployment %s not found", ref)
}

// getDeployment finds a deployment by its name or its id.
func (f *Log) getDeployment(ctx context.Context, in *operation.DeploymentPath) (service.DeploymentView, error) {
	if ref, err := service.ParseRef(in.ID); err == nil {
		if f.Read != nil {
			return f.Read(ctx, ref)
		}
		return f.Deployment(ctx, ref)
	}
	if err := f.Record("Deployment", in.ID); err != nil {
		return service.DeploymentView{}, err
	}
	for _, d := range f.Recent {
		if d.ID.String() == in.ID {
			return service.DeploymentView{Deployment: d}, nil
		}
	}
	return service.DeploymentView{}, fault.New(fault.NotFound, "deployment %s not found", in.ID)
}

func (f *Log) createDeployment(_ context.Context, in *operation.DeployInput) (answer operation.CommandAnswer, err error) {
	answer.Deployment = journal.Deployment{Pipeline: in.Pipeline, Number: 9, Label: in.Body.Revision, Status: pipeline.StatusActive}
	return answer, f.Record("Deploy", in.Pipeline, in.Body.Revision, in.Body.Until)
}

func (f *Log) commandDeployment(kind string) func(context.Context, *operation.CommandInput) (operation.CommandAnswer, error) {
	return func(_ context.Context, in *operation.CommandInput) (operation.CommandAnswer, error) {
		return operation.CommandAnswer{}, f.Record("Command", in.ID, kind, in.Body.Target)
	}
}

func (f *Log) explainDeployment(_ context.Context, in *operation.WhyInput) ([]pipeline.StepState, error) {
	return f.Open, f.Record("Why", in.ID, in.Target)
}

func (f *Log) readLog(_ context.Context, q *operation.LogInput) ([]pipeline.Entry, error) {
	var found []pipeline.Entry
	for _, e := range f.Written {
		if e.Seq > q.After {
			found = append(found, e)
		}
	}
	return found, f.Record("Entries", q.Pipeline, q.Deployment, q.After)
}

func (f *Log) Follow(ctx context.Context, q journal.EntryQuery, each func(pipeline.Entry) error) error {
	for _, e := range f.Written {
		if e.Seq > q.After {
			if err := each(e); err != nil {
				return err
			}
		}
	}
	<-ctx.Done()
	return context.Cause(ctx)
}

func (f *Log) listPipelines(context.Context, *operation.Nothing) ([]service.PipelineView, error) {
	return f.Pipelines, f.Record("Pipelines")
}

func (f *Log) getPipeline(_ context.Context, in *operation.PipelinePath) (service.PipelineView, error) {
	name := in.Pipeline
	if err := f.Record("Pipeline", name); err != nil {
		return service.PipelineView{}, err
	}
	i := slices.IndexFunc(f.Pipelines, func(p service.PipelineView) bool { return p.Name == name })
	if i < 0 {
		return service.PipelineView{}, fault.New(fault.NotFound, "pipeline %q not found", name)
	}
	return f.Pipelines[i], nil
}

func (f *Log) getVersion(_ context.Context, in *operation.VersionPath) (journal.Version, error) {
	return f.Version, f.Record("Version", in.Pipeline, in.Version)
}

func (f *Log) listVersions(_ context.Context, in *operation.PipelinePath) ([]journal.Version, error) {
	return f.Versions, f.Record("Versions", in.Pipeline)
}

func (f *Log) listRevisions(_ context.Context, in *operation.RevisionsInput) ([]pipeline.RegisteredRevision, error) {
	name, limit := in.Pipeline, in.Limit
	found := f.Revisions
	if limit > 0 && len(found) > limit {
		found = found[:limit]
	}
	return found, f.Record("Revisions", name, limit)
}

func (f *Log) getRevision(_ context.Context, in *operation.LabelPath) (pipeline.RegisteredRevision, error) {
	name, label := in.Pipeline, in.Label
	if err := f.Record("Revision", name, label); err != nil {
		return pipeline.RegisteredRevision{}, err
	}
	i := slices.IndexFunc(f.Revisions, func(r pipeline.RegisteredRevision) bool { return r.Label == label })
	if i < 0 {
		return pipeline.RegisteredRevision{}, fault.New(fault.NotFound, "revision %q not found", label)
	}
	return f.Revisions[i], nil
}

func (f *Log) getSnapshot(_ context.Context, in *operation.LabelPath) (service.SnapshotView, error) {
	return f.Snapshot, f.Record("Snapshot", in.Pipeline, in.Label)
}

func (f *Log) putSnapshot(_ context.Context, in *operation.Upload) (operation.Stored, error) {
	if err := f.Record("PutSnapshot", in.Pipeline, in.Label); err != nil {
		return operation.Stored{}, err
	}
	content, err := io.ReadAll(in.Content)
	f.Files = string(content)
	return operation.Stored{Key: "sha256/" + in.Label}, err
}

func (f *Log) registerRevision(_ context.Context, in *operation.RevisionInput) (journal.Registered, error) {
	b := in.Body
	r := pipeline.RegisteredRevision{Pipeline: in.Pipeline, Label: b.Label, Snapshot: b.Snapshot, Commit: b.Commit}
	if i := slices.IndexFunc(f.Revisions, func(known pipeline.RegisteredRevision) bool { return known.Label == b.Label }); i >= 0 {
		r = f.Revisions[i]
	}
	d := journal.Deployment{Pipeline: in.Pipeline, Number: 1, Label: b.Label, Status: pipeline.StatusActive}
	return journal.Registered{Revision: r, Created: true, Deployment: &d}, f.Record("Register", b.Label, b.Snapshot,
		b.Deploy == nil || *b.Deploy, b.Until)
}

// putArtifact reads the upload, and reports the artifact that the test has set, or what was read.
func (f *Log) putArtifact(_ context.Context, in *operation.ArtifactUpload) (pipeline.RevisionArtifact, error) {
	a := pipeline.RevisionArtifact{Label: in.Artifact, Name: in.Name, Digest: in.Digest, Size: in.Content.Size}
	if err := f.Record("PutArtifact", in.Pipeline, in.Label, a.Label, a.Name, a.Size); err != nil {
		return a, err
	}
	content, err := io.ReadAll(in.Content)
	f.Files = string(content)
	if f.Artifact.Digest != "" {
		return f.Artifact, err
	}
	return a, err
}

func (f *Log) planDeployment(_ context.Context, in *operation.PlanInput) (service.PlanView, error) {
	if !in.Simulate {
		return service.PlanView{Pipeline: in.Pipeline, Edit: &f.Edit}, f.Record("PlanEdit", in.Pipeline)
	}
	return f.Planned, f.Record("Plan", in.Pipeline, in.File != "")
}

func (f *Log) applyDefinition(_ context.Context, in *operation.DefinitionInput) (service.EditView, error) {
	return f.Edit, f.Record("Apply", in.Pipeline, strings.Trim(in.IfMatch, `"`), in.Yes)
}
