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
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/server"
)

// Log answers the operations on deployments, pipelines and revisions from its fields, and records the calls that matter to a
// test. An operation that it does not have panics or fails: the command was not to use it.
type Log struct {
	assembly.Operations

	Err   error            // of every operation that has no error of its own
	Errs  map[string]error // by operation
	Calls []string

	Recent    []journal.Deployment // newest first
	Views     map[string]server.DeploymentView
	Open      []pipeline.StepState
	Written   []pipeline.Entry
	Pipelines []server.PipelineView
	Version   journal.Version
	Versions  []journal.Version
	Revisions []pipeline.RegisteredRevision // newest first
	Snapshot  server.SnapshotView
	Edit      server.EditView
	Planned   server.PlanView
	Artifact  pipeline.RevisionArtifact // that is stored; without a digest: what is uploaded
	Files     string                    // that were stored
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
func (f *Log) Call(ctx context.Context, d server.Description, in, out any) error {
	return f.Served().Call(ctx, d, in, out)
}

// Served returns the operations that are served by methods.
func (f *Log) Served() server.Calls {
	c := server.Calls{}
	server.Serve(c, server.ListPipelines, f.listPipelines)
	server.Serve(c, server.GetPipeline, f.getPipeline)
	server.Serve(c, server.GetVersion, f.getVersion)
	server.Serve(c, server.ListVersions, f.listVersions)
	server.Serve(c, server.ListRevisions, f.listRevisions)
	server.Serve(c, server.GetRevision, f.getRevision)
	server.Serve(c, server.GetSnapshot, f.getSnapshot)
	return c
}

// WantCalls compares the recorded calls.
func (f *Log) WantCalls(t *testing.T, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, f.Calls); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

// Deployments selects by pipeline, revision and status, as the log does.
func (f *Log) Deployments(_ context.Context, q journal.DeploymentQuery) ([]journal.Deployment, error) {
	if err := f.Record("Deployments", q.Pipeline, q.Revision, q.Status, q.Limit); err != nil {
		return nil, err
	}
	var found []journal.Deployment
	for _, d := range f.Recent {
		if (q.Pipeline == "" || d.Pipeline == q.Pipeline) && (q.Revision == 0 || d.Revision == q.Revision) && (q.Status == "" || d.Status == q.Status) {
			found = append(found, d)
		}
	}
	if q.Limit > 0 && len(found) > q.Limit {
		found = found[:q.Limit]
	}
	return found, nil
}

func (f *Log) Deployment(_ context.Context, ref server.Ref) (server.DeploymentView, error) {
	v, ok := f.Views[ref.String()]
	if err := f.Record("Deployment", ref); err != nil || ok {
		return v, err
	}
	return v, fault.New(fault.NotFound, "deployment %s not found", ref)
}

func (f *Log) Deploy(_ context.Context, want server.NewDeployment) (journal.Deployment, error) {
	return journal.Deployment{Pipeline: want.Pipeline, Number: 9, Label: want.Revision, Status: pipeline.StatusActive}, f.Record("Deploy", want.Pipeline, want.Revision, want.Until, want.By)
}

func (f *Log) Command(_ context.Context, ref server.Ref, c server.Command) error {
	return f.Record("Command", ref, c.Kind, c.Target, c.By)
}

func (f *Log) Why(_ context.Context, ref server.Ref, target string) ([]pipeline.StepState, error) {
	return f.Open, f.Record("Why", ref, target)
}

func (f *Log) Entries(_ context.Context, q journal.EntryQuery) ([]pipeline.Entry, error) {
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

func (f *Log) listPipelines(context.Context, *server.Nothing) ([]server.PipelineView, error) {
	return f.Pipelines, f.Record("Pipelines")
}

func (f *Log) getPipeline(_ context.Context, in *server.PipelinePath) (server.PipelineView, error) {
	name := in.Pipeline
	if err := f.Record("Pipeline", name); err != nil {
		return server.PipelineView{}, err
	}
	i := slices.IndexFunc(f.Pipelines, func(p server.PipelineView) bool { return p.Name == name })
	if i < 0 {
		return server.PipelineView{}, fault.New(fault.NotFound, "pipeline %q not found", name)
	}
	return f.Pipelines[i], nil
}

func (f *Log) getVersion(_ context.Context, in *server.VersionPath) (journal.Version, error) {
	return f.Version, f.Record("Version", in.Pipeline, in.Version)
}

func (f *Log) listVersions(_ context.Context, in *server.PipelinePath) ([]journal.Version, error) {
	return f.Versions, f.Record("Versions", in.Pipeline)
}

func (f *Log) listRevisions(_ context.Context, in *server.RevisionsInput) ([]pipeline.RegisteredRevision, error) {
	name, limit := in.Pipeline, in.Limit
	found := f.Revisions
	if limit > 0 && len(found) > limit {
		found = found[:limit]
	}
	return found, f.Record("Revisions", name, limit)
}

func (f *Log) getRevision(_ context.Context, in *server.LabelPath) (pipeline.RegisteredRevision, error) {
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

func (f *Log) getSnapshot(_ context.Context, in *server.LabelPath) (server.SnapshotView, error) {
	return f.Snapshot, f.Record("Snapshot", in.Pipeline, in.Label)
}

func (f *Log) PutSnapshot(_ context.Context, name, label string, r io.Reader) (string, error) {
	if err := f.Record("PutSnapshot", name, label); err != nil {
		return "", err
	}
	content, err := io.ReadAll(r)
	f.Files = string(content)
	return "sha256/" + label, err
}

func (f *Log) Register(_ context.Context, r pipeline.RegisteredRevision, deploy bool, until string) (journal.Registered, error) {
	d := journal.Deployment{Pipeline: r.Pipeline, Number: 1, Label: r.Label, Status: pipeline.StatusActive}
	return journal.Registered{Revision: r, Created: true, Deployment: &d}, f.Record("Register", r.Label, r.Snapshot, r.By, deploy, until)
}

// PutArtifact reads the upload, and reports the artifact that the test has set, or what was read.
func (f *Log) PutArtifact(_ context.Context, name, label string, a pipeline.RevisionArtifact, r io.Reader) (pipeline.RevisionArtifact, error) {
	if err := f.Record("PutArtifact", name, label, a.Label, a.Name, a.Size); err != nil {
		return a, err
	}
	content, err := io.ReadAll(r)
	f.Files = string(content)
	if f.Artifact.Digest != "" {
		return f.Artifact, err
	}
	return a, err
}

func (f *Log) PlanEdit(_ context.Context, p server.Proposal) (server.EditView, error) {
	return f.Edit, f.Record("PlanEdit", p.Definition.Pipeline)
}

func (f *Log) Apply(_ context.Context, p server.Proposal) (server.EditView, error) {
	return f.Edit, f.Record("Apply", p.Definition.Pipeline, *p.IfVersion, p.Yes)
}

func (f *Log) Plan(_ context.Context, q server.PlanQuery) (server.PlanView, error) {
	return f.Planned, f.Record("Plan", q.Pipeline, q.Proposal != nil)
}
