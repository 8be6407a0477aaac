package journaltest

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/store/storetest"
)

func definesAndRegisters(t *testing.T, s setup) {
	if _, err := s.Head(s.ctx, testPipeline); err == nil {
		t.Fatal("a pipeline is there before it was defined")
	}
	_, err := s.Register(s.ctx, pipeline.RegisteredRevision{Pipeline: testPipeline, Label: "3f2c9a1"}, true, "")
	storetest.WantCode(t, err, fault.NotFound)

	head := s.define(t)
	if want := (journal.Head{Pipeline: testPipeline, Version: 1, Seq: 1, Digest: head.Digest}); head != want || head.Digest.IsZero() {
		t.Errorf("head after the definition: got %+v, want %+v", head, want)
	}
	version, err := s.Version(s.ctx, testPipeline, 0)
	storetest.Check(t, err)
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
	storetest.WantCode(t, err, fault.Conflict)
	for _, branch := range []string{"topic/a", "main"} { // the first one stays
		_, err := s.Register(s.ctx, pipeline.RegisteredRevision{Pipeline: testPipeline, Label: "88d0e17", Branch: branch}, false, "")
		storetest.Check(t, err)
	}
	if r, err := s.Revision(s.ctx, testPipeline, "88d0e17", 0); err != nil || r.Branch != "topic/a" {
		t.Errorf("the branch of a revision is %q, %v", r.Branch, err)
	}

	second, err := s.Deploy(s.ctx, journal.NewDeployment{Pipeline: testPipeline, Revision: 1, Kind: journal.Manual, By: "ben"})
	storetest.Check(t, err)
	if second.Number != 2 || second.Label != "3f2c9a1" || second.Kind != journal.Manual {
		t.Errorf("deployed: %+v", second)
	}
	entries, err := s.Entries(s.ctx, journal.EntryQuery{Pipeline: testPipeline})
	storetest.Check(t, err)
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
	storetest.Check(t, s.RegisterArtifact(s.ctx, testPipeline, 1, a))
	storetest.Check(t, s.RegisterArtifact(s.ctx, testPipeline, 1, a)) // same content again does nothing
	other := a
	other.Digest = "0000"
	storetest.WantCode(t, s.RegisterArtifact(s.ctx, testPipeline, 1, other), fault.Conflict)
	other.Label = "arm64"
	storetest.WantCode(t, s.RegisterArtifact(s.ctx, testPipeline, 1, other), fault.Conflict)
	storetest.WantCode(t, s.RegisterArtifact(s.ctx, testPipeline, 9, a), fault.NotFound)

	r, err := s.Revision(s.ctx, testPipeline, "3f2c9a1", 0)
	storetest.Check(t, err)
	if r.State != journal.RevisionSealed {
		t.Errorf("state is %s, want sealed", r.State)
	}
	if diff := cmp.Diff([]pipeline.RevisionArtifact{a}, r.Artifacts); diff != "" {
		t.Errorf("artifacts (-want +got):\n%s", diff)
	}
	registered := 0
	entries, err := s.Entries(s.ctx, journal.EntryQuery{Pipeline: testPipeline, Class: pipeline.Change})
	storetest.Check(t, err)
	for _, e := range entries {
		if e.Event == pipeline.ArtifactRegistered && e.Revision == 1 {
			registered++
		}
	}
	if registered != 1 {
		t.Errorf("%d entries say that the artifact was registered, want 1", registered)
	}
}

// revisionsAreRejected: the state of a revision follows its last judgment; a rejected one is not deployed, and its artifacts
// are taken all the same.
func revisionsAreRejected(t *testing.T, s setup) {
	s.define(t)
	s.register(t, "3f2c9a1")
	s.register(t, "88d0e17")
	judge := func(event string, revision int64) {
		t.Helper()
		s.append(t, pipeline.Entry{Event: event, Class: pipeline.Change, Revision: revision})
	}
	state := func(label, want string) {
		t.Helper()
		r, err := s.Revision(s.ctx, testPipeline, label, 0)
		storetest.Check(t, err)
		if r.State != want {
			t.Errorf("%s is %s, want %s", label, r.State, want)
		}
	}
	judge(pipeline.RevisionRejected, 1)
	state("3f2c9a1", journal.RevisionRejected)
	state("88d0e17", journal.RevisionOpen)
	_, err := s.Deploy(s.ctx, journal.NewDeployment{Pipeline: testPipeline, Revision: 1, Kind: journal.Manual})
	storetest.WantCode(t, err, fault.Refused)
	if hint := fault.HintOf(err); hint != "waybill revision accept "+testPipeline+" 3f2c9a1" {
		t.Errorf("hint %q", hint)
	}
	judge(pipeline.RevisionAccepted, 1)
	state("3f2c9a1", journal.RevisionOpen) // its artifact is not in
	judge(pipeline.RevisionRejected, 1)
	a := pipeline.RevisionArtifact{Label: "amd64", Name: "greeter.tar.gz", Digest: "9b1e", Size: 7, Blob: "cas/9b1e"}
	storetest.Check(t, s.RegisterArtifact(s.ctx, testPipeline, 1, a))
	state("3f2c9a1", journal.RevisionRejected)
	judge(pipeline.RevisionAccepted, 1)
	state("3f2c9a1", journal.RevisionSealed)
	_, err = s.Deploy(s.ctx, journal.NewDeployment{Pipeline: testPipeline, Revision: 1, Kind: journal.Manual})
	storetest.Check(t, err)
}

// sealedRevisionsStaySealed: additional requirements of an edit open no revision that was sealed, whether it is
// rejected and accepted or not. One that was never sealed stays open.
func sealedRevisionsStaySealed(t *testing.T, s setup) {
	s.define(t)
	amd64 := pipeline.RevisionArtifact{Label: "amd64", Name: "greeter.tar.gz", Digest: "9b1e", Size: 7, Blob: "cas/9b1e"}
	arm64 := pipeline.RevisionArtifact{Label: "arm64", Name: "greeter.tar.gz", Digest: "5d81", Size: 7, Blob: "cas/5d81"}
	more := definition()
	more.Stages[0].Build.Artifacts = append(more.Stages[0].Build.Artifacts, pipeline.Artifact{Label: "arm64", Path: "dist/greeter-arm64"})
	s.register(t, "3f2c9a1")
	storetest.Check(t, s.RegisterArtifact(s.ctx, testPipeline, 1, amd64)) // sealed from here on
	s.apply(t, &more)
	s.register(t, "88d0e17")
	storetest.Check(t, s.RegisterArtifact(s.ctx, testPipeline, 2, amd64)) // needs arm64 too

	for revision, want := range map[int64]string{1: journal.RevisionSealed, 2: journal.RevisionOpen} {
		s.append(t, pipeline.Entry{Event: pipeline.RevisionRejected, Class: pipeline.Change, Revision: revision})
		if revision == 1 {
			storetest.WantCode(t, s.RegisterArtifact(s.ctx, testPipeline, 1, arm64), fault.Conflict)
		}
		s.append(t, pipeline.Entry{Event: pipeline.RevisionAccepted, Class: pipeline.Change, Revision: revision})
		r, err := s.Revision(s.ctx, testPipeline, "", revision)
		storetest.Check(t, err)
		if r.State != want {
			t.Errorf("%s is %s, want %s", r.Label, r.State, want)
		}
	}
	storetest.WantCode(t, s.RegisterArtifact(s.ctx, testPipeline, 1, arm64), fault.Conflict)
	storetest.Check(t, s.RegisterArtifact(s.ctx, testPipeline, 2, arm64))
}

// decisionsCreateDeployments: a deployment that a decision creates is there with its entries, under the next number only.
func decisionsCreateDeployments(t *testing.T, s setup) {
	s.define(t)
	s.register(t, "3f2c9a1")
	s.register(t, "88d0e17")
	created := pipeline.Entry{Deployment: 3, Event: pipeline.DeploymentCreated, Class: pipeline.Note, Revision: 1,
		Detail: []byte(`{"kind":"rollback","by":"ana","undoes":2}`)}
	rejected := pipeline.Entry{Event: pipeline.RevisionRejected, Class: pipeline.Change, Revision: 2}
	s.append(t, rejected, created)
	made, err := s.Deployments(s.ctx, journal.DeploymentQuery{Pipeline: testPipeline})
	storetest.Check(t, err)
	if d := made[0]; len(made) != 3 || d.Number != 3 || d.Kind != journal.Rollback || d.Label != "3f2c9a1" ||
		d.By != "ana" || d.Status != pipeline.StatusActive || d.ID == made[1].ID {
		t.Errorf("deployments: %+v", made)
	}
	for _, number := range []int64{3, 5} {
		created.Deployment = number
		_, err = s.Append(s.ctx, testPipeline, 0, func(journal.Locked) (journal.Change, error) {
			return journal.Change{Entries: []pipeline.Entry{created}}, nil
		})
		storetest.WantCode(t, err, fault.Conflict)
	}
	s.register(t, "5d81e0a") // its deployment gets the next number
	made, err = s.Deployments(s.ctx, journal.DeploymentQuery{Pipeline: testPipeline})
	storetest.Check(t, err)
	if len(made) != 4 || made[0].Number != 4 {
		t.Errorf("deployments: %+v", made)
	}
}
