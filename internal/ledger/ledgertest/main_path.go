package ledgertest

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/pipeline"
)

func definesAndRegisters(t *testing.T, s setup) {
	if _, err := s.Head(s.ctx, testPipeline); err == nil {
		t.Fatal("a pipeline is there before it was defined")
	}
	_, err := s.Register(s.ctx, pipeline.RegisteredRevision{Pipeline: testPipeline, Label: "3f2c9a1"}, true, "")
	wantCode(t, err, fault.NotFound)

	head := s.define(t)
	if want := (journal.Head{Pipeline: testPipeline, Version: 1, Seq: 1}); head != want {
		t.Errorf("head after the definition: got %+v, want %+v", head, want)
	}
	version, err := s.Version(s.ctx, testPipeline, 0)
	check(t, err)
	if diff := cmp.Diff(definition(), version.Definition); diff != "" {
		t.Errorf("stored definition (-want +got):\n%s", diff)
	}
	if version.Source != "pipeline: greeter\n" || version.By != "ana" || version.At.IsZero() {
		t.Errorf("stored version: %+v", version)
	}

	first := s.register(t, "3f2c9a1")
	if !first.Created || first.Revision.Seq != 1 || first.Deployment.Number != 1 || first.Deployment.Status != pipeline.StatusActive {
		t.Errorf("registered: %+v, deployment %+v", first, first.Deployment)
	}
	again := s.register(t, "3f2c9a1")
	if again.Created || again.Deployment.ID != first.Deployment.ID {
		t.Errorf("registered again: %+v, deployment %+v", again, again.Deployment)
	}
	_, err = s.Register(s.ctx, pipeline.RegisteredRevision{Pipeline: testPipeline, Label: "3f2c9a1", Snapshot: "other"}, true, "")
	wantCode(t, err, fault.Conflict)

	second, err := s.Deploy(s.ctx, journal.NewDeployment{Pipeline: testPipeline, Revision: 1, Kind: journal.Manual, By: "ben"})
	check(t, err)
	if second.Number != 2 || second.Label != "3f2c9a1" || second.Kind != journal.Manual {
		t.Errorf("deployed: %+v", second)
	}
	entries, err := s.Entries(s.ctx, journal.EntryQuery{Pipeline: testPipeline})
	check(t, err)
	var events []string
	for i, e := range entries {
		if e.Seq != int64(i+1) {
			t.Errorf("entry %d has position %d", i, e.Seq)
		}
		events = append(events, e.Event)
	}
	want := []string{pipeline.PipelineDefined, pipeline.DeploymentCreated, pipeline.DeploymentCreated}
	if diff := cmp.Diff(want, events); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

func artifactsSealARevision(t *testing.T, s setup) {
	s.define(t)
	s.register(t, "3f2c9a1")
	a := pipeline.RevisionArtifact{Label: "amd64", Name: "greeter.tar.gz", Digest: "9b1e", Size: 7, Blob: "cas/9b1e"}
	check(t, s.RegisterArtifact(s.ctx, testPipeline, 1, a))
	check(t, s.RegisterArtifact(s.ctx, testPipeline, 1, a)) // same content again does nothing
	other := a
	other.Digest = "0000"
	wantCode(t, s.RegisterArtifact(s.ctx, testPipeline, 1, other), fault.Conflict)
	other.Label = "arm64"
	wantCode(t, s.RegisterArtifact(s.ctx, testPipeline, 1, other), fault.Conflict)
	wantCode(t, s.RegisterArtifact(s.ctx, testPipeline, 9, a), fault.NotFound)

	r, err := s.Revision(s.ctx, testPipeline, "3f2c9a1", 0)
	check(t, err)
	if r.State != journal.RevisionSealed {
		t.Errorf("state is %s, want sealed", r.State)
	}
	if diff := cmp.Diff([]pipeline.RevisionArtifact{a}, r.Artifacts); diff != "" {
		t.Errorf("artifacts (-want +got):\n%s", diff)
	}
	registered := 0
	entries, err := s.Entries(s.ctx, journal.EntryQuery{Pipeline: testPipeline, Class: pipeline.Change})
	check(t, err)
	for _, e := range entries {
		if e.Event == pipeline.ArtifactRegistered && e.Revision == 1 {
			registered++
		}
	}
	if registered != 1 {
		t.Errorf("%d entries say that the artifact was registered, want 1", registered)
	}
}

func passStartsAndTurnFinishes(t *testing.T, s setup) {
	s.define(t)
	s.register(t, "3f2c9a1")
	host := s.join(t, "host-a")
	lease := s.lease(t, host)
	target := testPipeline + "/beta/all/oak"
	s.append(t, fact(1, target, pipeline.HostStarted))
	s.startSteps(t, lease, stepOf(1, target, pipeline.HostDeployed))

	c := s.claim(t, host, "step/"+target, 1)[0]
	if c.Step == nil || c.Step.Event != pipeline.HostDeployed || c.Thread.Status != action.Running || c.Thread.Attempt != 1 {
		t.Errorf("claimed: %+v", c)
	}
	s.end(t, host, c, action.Outcome{Kind: action.Done, Output: json.RawMessage(`{"text": "already runs 3f2c9a1"}`)})
	if got := s.statusOf(t, c.ID); got != action.Successful {
		t.Errorf("it ended %s", got)
	}
	entries, err := s.Entries(s.ctx, journal.EntryQuery{Pipeline: testPipeline, Newest: true, Limit: 1})
	check(t, err)
	last := entries[0]
	if last.Class != pipeline.Fact || last.Event != pipeline.HostDeployed || last.Target != target || last.Deployment != 1 || last.Revision != 1 {
		t.Errorf("last entry: %+v", last)
	}
	var detail map[string]any
	check(t, json.Unmarshal(last.Detail, &detail))
	want := map[string]any{"text": "already runs 3f2c9a1", "action": c.ID.String(), "attempt": 1.0, "spent": 0.0}
	if diff := cmp.Diff(want, detail); diff != "" {
		t.Errorf("detail (-want +got):\n%s", diff)
	}
	state, err := s.Action(s.ctx, c.ID)
	check(t, err)
	if state.Thread.Status != action.Successful || state.FinishedAt.IsZero() {
		t.Errorf("state: %+v", state)
	}
	events, err := s.Events(s.ctx, c.ID)
	check(t, err)
	var story []action.Status
	for i, e := range events {
		if e.Seq != i {
			t.Errorf("event %d has seq %d", i, e.Seq)
		}
		story = append(story, e.Status)
	}
	if diff := cmp.Diff([]action.Status{action.Pending, action.Running, action.Successful}, story); diff != "" {
		t.Errorf("story (-want +got):\n%s", diff)
	}
}
