package buildstest

import (
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/builds"
	"github.com/waybill-dev/waybill/internal/store/storetest"
)

// whatALaterBuildReusesIsKept: the identity of a step through every change of it, whether an artifact was executable, and the first
// bundle that was gathered.
func whatALaterBuildReusesIsKept(t *testing.T, s setup) {
	earlier := s.create(t)
	identity := strings.Repeat("ab", 32)
	planned := []builds.Step{{ID: 1, Stage: "test", Name: "unit", Identity: identity}}
	s.ingest(t, earlier, builds.Batch{Steps: planned, Artifacts: []builds.Artifact{
		{ID: 1, Step: 1, Name: "tool", SHA256: make([]byte, 32), Kind: "file", State: builds.Stored, BlobKey: "build/1/1", Executable: true},
		{ID: 2, Step: 1, Name: "text", SHA256: make([]byte, 32), Kind: "file", State: builds.Stored, BlobKey: "build/1/2"}}})
	s.ingest(t, earlier, builds.Batch{Events: []builds.Event{event(1, 0, build.Running), event(2, 1, build.Running)}})
	for _, again := range []string{identity, strings.Repeat("cd", 32)} { // as another version plans it
		planned[0].Identity = again
		storetest.Check(t, s.Define(s.ctx, earlier, planned))
		steps, err := s.Steps(s.ctx, earlier)
		storetest.Check(t, err)
		if last := steps[len(steps)-1]; last.Identity != again || last.Status != build.Running {
			t.Errorf("the step is %+v", last)
		}
	}
	artifacts, err := s.Artifacts(s.ctx, earlier, 0)
	storetest.Check(t, err)
	if len(artifacts) != 2 || !artifacts[0].Executable || artifacts[1].Executable {
		t.Errorf("the artifacts are %+v", artifacts)
	}

	made, err := s.Create(s.ctx, builds.Build{Project: "shop", RerunOf: earlier, Resume: true})
	storetest.Check(t, err)
	for _, key := range []string{"first", "second"} {
		counts, err := s.Bundle(s.ctx, made.ID, key)
		storetest.Check(t, err)
		if counts != "first" {
			t.Errorf("the bundle is %q after %q", counts, key)
		}
	}
	storetest.Check(t, s.Assign(s.ctx, made.ID, "w", "nonce"))
	if found, err := s.Build(s.ctx, made.ID); err != nil || !found.Resume || found.RerunOf != earlier || found.Bundle != "first" {
		t.Errorf("%+v, %v", found, err)
	}
	if found, err := s.Build(s.ctx, earlier); err != nil || found.Resume || found.Bundle != "" {
		t.Errorf("the earlier build is %+v, %v", found, err)
	}
}
