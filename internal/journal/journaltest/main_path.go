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
	if want := (journal.Head{Pipeline: testPipeline, Version: 1, Seq: 1}); head != want {
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
