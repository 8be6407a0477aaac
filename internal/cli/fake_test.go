package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/assembly"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/queue"
	"github.com/waybill-dev/waybill/internal/server"
	"github.com/waybill-dev/waybill/internal/token"
)

// fake answers the operations of a log from its fields, and records the calls that matter to a test. An operation that it
// does not have panics: the command was not to use it.
type fake struct {
	assembly.Operations

	err   error            // of every operation that has no error of its own
	errs  map[string]error // by operation
	calls []string

	actions     []queue.ActionState
	action      server.ActionView
	events      []action.Event
	added       server.AddedAction
	replays     []queue.Replayed // one for each call
	limits      []queue.Limiter
	schedules   []server.ScheduleView
	deployments []journal.Deployment // newest first
	views       map[string]server.DeploymentView
	open        []pipeline.StepState
	entries     []pipeline.Entry
	pipelines   []server.PipelineView
	version     journal.Version
	versions    []journal.Version
	revisions   []pipeline.RegisteredRevision // newest first
	snapshot    server.SnapshotView
	edit        server.EditView
	plan        server.PlanView
	processes   []server.ProcessOffering
	status      server.StatusView
	log         server.ServiceLogView
	follows     []server.ServiceLogView
	services    []server.ServiceView
	service     server.ServiceStatusView
	tokens      []token.Token
	artifact    pipeline.RevisionArtifact // that is stored; without a digest: what is uploaded
	files       string                    // that were stored
}

// call records an operation with its arguments, and returns its error.
func (f *fake) call(name string, arguments ...any) error {
	words := []string{name}
	for _, each := range arguments {
		words = append(words, fmt.Sprint(each))
	}
	f.calls = append(f.calls, strings.TrimSpace(strings.Join(words, " ")))
	if err := f.errs[name]; err != nil {
		return err
	}
	return f.err
}

// Call performs an operation with its method.
func (f *fake) Call(ctx context.Context, d server.Description, in, out any) error {
	c := server.Calls{}
	server.Serve(c, server.ListActions, f.listActions)
	server.Serve(c, server.GetAction, f.getAction)
	server.Serve(c, server.AddAction, f.addAction)
	server.Serve(c, server.RetryAction, f.retryAction)
	server.Serve(c, server.CancelAction, f.cancelAction)
	server.Serve(c, server.SnoozeAction, f.snoozeAction)
	server.Serve(c, server.ReplayActions, f.replayActions)
	server.Serve(c, server.ListServices, f.listServices)
	server.Serve(c, server.GetServiceStatus, f.getServiceStatus)
	server.Serve(c, server.ReadServiceLog, f.readServiceLog)
	server.Serve(c, server.ListPipelines, f.listPipelines)
	server.Serve(c, server.GetPipeline, f.getPipeline)
	server.Serve(c, server.GetVersion, f.getVersion)
	server.Serve(c, server.ListVersions, f.listVersions)
	server.Serve(c, server.ListRevisions, f.listRevisions)
	server.Serve(c, server.GetRevision, f.getRevision)
	server.Serve(c, server.GetSnapshot, f.getSnapshot)
	server.Serve(c, server.ListLimits, f.listLimits)
	server.Serve(c, server.ChangeLimit, f.changeLimit)
	server.Serve(c, server.ListSchedules, f.listSchedules)
	server.Serve(c, server.GetStatus, f.getStatus)
	return c.Call(ctx, d, in, out)
}

// wantCalls compares the recorded calls.
func (f *fake) wantCalls(t *testing.T, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, f.calls); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

func (f *fake) listActions(_ context.Context, q *server.ActionsInput) ([]queue.ActionState, error) {
	return f.actions, f.call("Actions", q.Pipeline, q.Deployment, q.Handler)
}

func (f *fake) getAction(_ context.Context, in *server.ActionPath) (server.ActionView, error) {
	return f.action, f.call("Action", in.ID)
}

func (f *fake) FollowAction(_ context.Context, id action.ID, after int, each func(action.Event) error, _ func() error) error {
	if err := f.call("FollowAction", id, after); err != nil {
		return err
	}
	for _, e := range f.events {
		if err := each(e); err != nil {
			return err
		}
	}
	return nil
}

func (f *fake) addAction(_ context.Context, o *server.AddActionInput) (server.AddedAction, error) {
	return f.added, f.call("AddAction", o.Body.Handler, string(o.Body.Parameters.RawMessage))
}

func (f *fake) retryAction(_ context.Context, in *server.ActionPath) (server.AddedAction, error) {
	return f.added, f.call("RetryAction", in.ID)
}

func (f *fake) cancelAction(_ context.Context, in *server.ActionPath) (queue.ActionState, error) {
	return f.action.ActionState, f.call("CancelAction", in.ID)
}

func (f *fake) snoozeAction(_ context.Context, in *server.SnoozeInput) (queue.ActionState, error) {
	state := f.action.ActionState
	state.Thread.RunAt = in.Body.Until
	return state, f.call("SnoozeAction", in.ID, in.Body.Until.UTC().Format(time.RFC3339))
}

func (f *fake) replayActions(_ context.Context, in *server.ReplayInput) (queue.Replayed, error) {
	if err := f.call("ReplayActions", in.Body.ID, in.Body.After, in.Body.DryRun); err != nil {
		return queue.Replayed{}, err
	}
	if len(f.replays) == 0 {
		return queue.Replayed{}, fault.New(fault.LedgerUnavailable, "the ledger does not answer")
	}
	next := f.replays[0]
	f.replays = f.replays[1:]
	return next, nil
}

func (f *fake) listLimits(context.Context, *server.Nothing) ([]queue.Limiter, error) {
	return f.limits, f.call("Limits")
}

func (f *fake) changeLimit(_ context.Context, in *server.LaneInput) (queue.Limiter, error) {
	return queue.Limiter{}, f.call("Limit", in.Lane, in.Body.Command, time.Duration(in.Body.For))
}

func (f *fake) listSchedules(context.Context, *server.Nothing) ([]server.ScheduleView, error) {
	return f.schedules, f.call("Schedules")
}

// Deployments selects by pipeline, revision and status, as the log does.
func (f *fake) Deployments(_ context.Context, q journal.DeploymentQuery) ([]journal.Deployment, error) {
	if err := f.call("Deployments", q.Pipeline, q.Revision, q.Status, q.Limit); err != nil {
		return nil, err
	}
	var found []journal.Deployment
	for _, d := range f.deployments {
		if (q.Pipeline == "" || d.Pipeline == q.Pipeline) && (q.Revision == 0 || d.Revision == q.Revision) && (q.Status == "" || d.Status == q.Status) {
			found = append(found, d)
		}
	}
	if q.Limit > 0 && len(found) > q.Limit {
		found = found[:q.Limit]
	}
	return found, nil
}

func (f *fake) Deployment(_ context.Context, ref server.Ref) (server.DeploymentView, error) {
	v, ok := f.views[ref.String()]
	if err := f.call("Deployment", ref); err != nil || ok {
		return v, err
	}
	return v, fault.New(fault.NotFound, "deployment %s not found", ref)
}

func (f *fake) Deploy(_ context.Context, want server.NewDeployment) (journal.Deployment, error) {
	return journal.Deployment{Pipeline: want.Pipeline, Number: 9, Label: want.Revision, Status: pipeline.StatusActive}, f.call("Deploy", want.Pipeline, want.Revision, want.Until, want.By)
}

func (f *fake) Command(_ context.Context, ref server.Ref, c server.Command) error {
	return f.call("Command", ref, c.Kind, c.Target, c.By)
}

func (f *fake) Why(_ context.Context, ref server.Ref, target string) ([]pipeline.StepState, error) {
	return f.open, f.call("Why", ref, target)
}

func (f *fake) Entries(_ context.Context, q journal.EntryQuery) ([]pipeline.Entry, error) {
	var found []pipeline.Entry
	for _, e := range f.entries {
		if e.Seq > q.After {
			found = append(found, e)
		}
	}
	return found, f.call("Entries", q.Pipeline, q.Deployment, q.After)
}

func (f *fake) Follow(ctx context.Context, q journal.EntryQuery, each func(pipeline.Entry) error) error {
	for _, e := range f.entries {
		if e.Seq > q.After {
			if err := each(e); err != nil {
				return err
			}
		}
	}
	<-ctx.Done()
	return context.Cause(ctx)
}

func (f *fake) listPipelines(context.Context, *server.Nothing) ([]server.PipelineView, error) {
	return f.pipelines, f.call("Pipelines")
}

func (f *fake) getPipeline(_ context.Context, in *server.PipelinePath) (server.PipelineView, error) {
	name := in.Pipeline
	if err := f.call("Pipeline", name); err != nil {
		return server.PipelineView{}, err
	}
	i := slices.IndexFunc(f.pipelines, func(p server.PipelineView) bool { return p.Name == name })
	if i < 0 {
		return server.PipelineView{}, fault.New(fault.NotFound, "pipeline %q not found", name)
	}
	return f.pipelines[i], nil
}

func (f *fake) getVersion(_ context.Context, in *server.VersionPath) (journal.Version, error) {
	return f.version, f.call("Version", in.Pipeline, in.Version)
}

func (f *fake) listVersions(_ context.Context, in *server.PipelinePath) ([]journal.Version, error) {
	return f.versions, f.call("Versions", in.Pipeline)
}

func (f *fake) listRevisions(_ context.Context, in *server.RevisionsInput) ([]pipeline.RegisteredRevision, error) {
	name, limit := in.Pipeline, in.Limit
	found := f.revisions
	if limit > 0 && len(found) > limit {
		found = found[:limit]
	}
	return found, f.call("Revisions", name, limit)
}

func (f *fake) getRevision(_ context.Context, in *server.LabelPath) (pipeline.RegisteredRevision, error) {
	name, label := in.Pipeline, in.Label
	if err := f.call("Revision", name, label); err != nil {
		return pipeline.RegisteredRevision{}, err
	}
	i := slices.IndexFunc(f.revisions, func(r pipeline.RegisteredRevision) bool { return r.Label == label })
	if i < 0 {
		return pipeline.RegisteredRevision{}, fault.New(fault.NotFound, "revision %q not found", label)
	}
	return f.revisions[i], nil
}

func (f *fake) getSnapshot(_ context.Context, in *server.LabelPath) (server.SnapshotView, error) {
	return f.snapshot, f.call("Snapshot", in.Pipeline, in.Label)
}

func (f *fake) PutSnapshot(_ context.Context, name, label string, r io.Reader) (string, error) {
	if err := f.call("PutSnapshot", name, label); err != nil {
		return "", err
	}
	content, err := io.ReadAll(r)
	f.files = string(content)
	return "sha256/" + label, err
}

func (f *fake) Register(_ context.Context, r pipeline.RegisteredRevision, deploy bool, until string) (journal.Registered, error) {
	d := journal.Deployment{Pipeline: r.Pipeline, Number: 1, Label: r.Label, Status: pipeline.StatusActive}
	return journal.Registered{Revision: r, Created: true, Deployment: &d}, f.call("Register", r.Label, r.Snapshot, r.By, deploy, until)
}

// PutArtifact reads the upload, and reports the artifact that the test has set, or what was read.
func (f *fake) PutArtifact(_ context.Context, name, label string, a pipeline.RevisionArtifact, r io.Reader) (pipeline.RevisionArtifact, error) {
	if err := f.call("PutArtifact", name, label, a.Label, a.Name, a.Size); err != nil {
		return a, err
	}
	content, err := io.ReadAll(r)
	f.files = string(content)
	if f.artifact.Digest != "" {
		return f.artifact, err
	}
	return a, err
}

func (f *fake) PlanEdit(_ context.Context, p server.Proposal) (server.EditView, error) {
	return f.edit, f.call("PlanEdit", p.Definition.Pipeline)
}

func (f *fake) Apply(_ context.Context, p server.Proposal) (server.EditView, error) {
	return f.edit, f.call("Apply", p.Definition.Pipeline, *p.IfVersion, p.Yes)
}

func (f *fake) Plan(_ context.Context, q server.PlanQuery) (server.PlanView, error) {
	return f.plan, f.call("Plan", q.Pipeline, q.Proposal != nil)
}

func (f *fake) ListProcesses(context.Context) ([]server.ProcessOffering, error) {
	return f.processes, f.call("ListProcesses")
}

func (f *fake) ShowProcess(_ context.Context, id string) (server.ProcessOffering, error) {
	return f.processes[0], f.call("ShowProcess", id)
}

func (f *fake) RunProcess(_ context.Context, id string, inputs json.RawMessage, by string) (server.AddedAction, error) {
	return f.added, f.call("RunProcess", id, string(inputs), by)
}

func (f *fake) getStatus(context.Context, *server.Nothing) (server.StatusView, error) {
	return f.status, f.call("Status")
}

func (f *fake) listServices(_ context.Context, in *server.PipelinePath) ([]server.ServiceView, error) {
	return f.services, f.call("Services", in.Pipeline)
}

func (f *fake) getServiceStatus(_ context.Context, in *server.ServiceStatusInput) (server.ServiceStatusView, error) {
	return f.service, f.call("ServiceStatus", in.Pipeline, in.Target)
}

func (f *fake) Restart(_ context.Context, in server.ServiceRestartInput) (action.ID, error) {
	return f.action.ID, f.call("Restart", in.Pipeline, in.Body.Target, in.Body.Reason)
}

// readServiceLog answers a query after a view with the next one of follows; without one the log is away.
func (f *fake) readServiceLog(_ context.Context, q *server.ServiceLogInput) (server.ServiceLogView, error) {
	if err := f.call("ServiceLog", q.Pipeline, q.Target, q.Follow, q.After); err != nil || q.After == "" {
		return f.log, err
	}
	if len(f.follows) == 0 {
		return server.ServiceLogView{}, errAway
	}
	next := f.follows[0]
	f.follows = f.follows[1:]
	return next, nil
}

func (f *fake) ListTokens(context.Context) ([]token.Token, error) {
	return f.tokens, f.call("ListTokens")
}

func (f *fake) CreateToken(_ context.Context, token token.Token) error {
	f.tokens = append(f.tokens, token)
	return f.call("CreateToken", token.Name)
}

func (f *fake) RevokeToken(_ context.Context, name string) error { return f.call("RevokeToken", name) }

// busy and idle say whether a process works on the log.
func busy(context.Context) bool { return false }
func idle(context.Context) bool { return true }

const idleWarning = "waybill: no process works on this log now: start waybill up, or run waybill ship\n"

// anAction returns the id of the tests' action.
func anAction(t *testing.T) action.ID {
	t.Helper()
	id, err := action.ParseID(someAction)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// errAway is a failure that commands pass on.
var errAway = fault.New(fault.LedgerUnavailable, "the ledger does not answer")
