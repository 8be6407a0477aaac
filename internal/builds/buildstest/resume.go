package buildstest

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

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
	s.ingest(
		t,
		earlier,
		builds.Batch{
			Steps: planned,
			Artifacts: []builds.Artifact{
				{
					Artifact: build.Artifact{
						ID:         1,
						Step:       1,
						Name:       "tool",
						SHA256:     strings.Repeat("00", 32),
						Kind:       "file",
						Path:       "build/1/1",
						Executable: true,
					},
					State: builds.Stored,
				},
				{
					Artifact: build.Artifact{
						ID:     2,
						Step:   1,
						Name:   "text",
						SHA256: strings.Repeat("00", 32),
						Kind:   "file",
						Path:   "build/1/2",
					},
					State: builds.Stored,
				},
			},
		},
	)
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

// bundlesOfEndedBuildsAreDeleted, once, also when the bundle was stored and its key was not; not of builds that run or reuse nothing.
func bundlesOfEndedBuildsAreDeleted(t *testing.T, s setup) {
	resume := func(key string, ended bool) builds.ID {
		t.Helper()
		made, err := s.Create(s.ctx, builds.Build{Project: "shop", RerunOf: 1, Resume: true})
		storetest.Check(t, err)
		if key != "" {
			_, err = s.Bundle(s.ctx, made.ID, key)
			storetest.Check(t, err)
		}
		if ended {
			_, err = s.Record(s.ctx, made.ID, builds.Event{Source: builds.API, EventID: "end", Status: build.Canceled})
			storetest.Check(t, err)
		}
		return made.ID
	}
	other := s.create(t)
	_, err := s.Record(s.ctx, other, builds.Event{Source: builds.API, EventID: "end", Status: build.Canceled})
	storetest.Check(t, err)
	var want []string
	for range 60 { // more than one page
		want = append(want, builds.BundleFolder(resume("key", true)))
	}
	want = append(want, builds.BundleFolder(resume("", true)))
	running := resume("key", false)
	resume(builds.NoBundle, true)
	blobs := &cleared{broken: "*"}
	if err := s.ClearBundles(s.ctx, blobs); err == nil || blobs.failed >= len(want) {
		t.Errorf("a blob store that is away was asked %d times: %v", blobs.failed, err)
	}
	blobs = &cleared{broken: want[0]}
	if err := s.ClearBundles(s.ctx, blobs); err == nil || !strings.Contains(err.Error(), "permission denied") {
		t.Errorf("the error is %v", err)
	}
	if diff := cmp.Diff(want[1:], blobs.folders); diff != "" {
		t.Error(diff)
	}
	blobs = &cleared{}
	storetest.Check(t, s.ClearBundles(s.ctx, blobs))
	if diff := cmp.Diff(want[:1], blobs.folders); diff != "" {
		t.Error(diff)
	}
	if found, err := s.Build(s.ctx, running); err != nil || found.Bundle != "key" {
		t.Errorf("a build that runs is %+v, %v", found, err)
	}
}
