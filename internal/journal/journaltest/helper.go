package journaltest

import (
	"testing"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/store/storetest"
)

// The pipeline of every test, and its host of stage beta.
const (
	Pipeline = "greeter"
	Oak      = Pipeline + "/beta/all/oak"
)

// Definition returns a pipeline with a build, a beta of one host and a prod of two groups.
func Definition() pipeline.Definition {
	host := func(name string) pipeline.Host { return pipeline.Host{Name: name, URL: "local://" + name} }
	return pipeline.Definition{
		Pipeline: Pipeline,
		Service:  pipeline.Service{Name: Pipeline, Manager: "process"},
		Stages: []pipeline.Stage{
			{Name: "build", Kind: pipeline.BuildStage, Build: &pipeline.Build{File: ".wharf-ci.yml",
				Artifacts: []pipeline.Artifact{{Label: "amd64", Path: "dist/greeter"}}}},
			{Name: "beta", Kind: pipeline.HostStage, After: []string{"build"},
				Groups: []pipeline.Group{{Name: "all", Hosts: []pipeline.Host{host("oak")}}}},
			{Name: "prod", Kind: pipeline.HostStage, After: []string{"beta"}, Groups: []pipeline.Group{
				{Name: "east", Hosts: []pipeline.Host{host("elm"), host("fir")}},
				{Name: "west", Hosts: []pipeline.Host{host("yew")}}}},
		},
	}
}

// Define applies the definition and returns the head.
func Define(t *testing.T, j *journal.Journal) journal.Head {
	t.Helper()
	d := Definition()
	head, err := j.Define(t.Context(), Pipeline, 0, func(locked journal.Locked) (journal.Change, error) {
		return journal.Change{Definition: &d, Source: "pipeline: greeter\n", By: "ana", Entries: []pipeline.Entry{
			{Event: pipeline.PipelineDefined, Class: pipeline.Change, Version: locked.Version + 1}}}, nil
	})
	storetest.Check(t, err)
	return head
}

// Register makes a revision with its forward deployment.
func Register(t *testing.T, j *journal.Journal, label string) journal.Registered {
	t.Helper()
	done, err := j.Register(t.Context(), pipeline.RegisteredRevision{Pipeline: Pipeline, Label: label,
		Snapshot: "snapshot-" + label, By: "ana"}, true, "")
	storetest.Check(t, err)
	return done
}

// Lease takes the pipeline for an instance.
func Lease(t *testing.T, j *journal.Journal, instance action.ID) journal.Lease {
	t.Helper()
	lease, ok, err := j.Lease(t.Context(), Pipeline, instance)
	storetest.Check(t, err)
	if !ok {
		t.Fatalf("the lease of %s was not granted to %s", Pipeline, instance)
	}
	return lease
}

// Append records entries as a person would.
func Append(t *testing.T, j *journal.Journal, entries ...pipeline.Entry) journal.Head {
	t.Helper()
	head, err := j.Append(t.Context(), Pipeline, 0, func(journal.Locked) (journal.Change, error) {
		return journal.Change{Entries: entries}, nil
	})
	storetest.Check(t, err)
	return head
}

// Fact returns a fact of a deployment.
func Fact(deployment int64, target, event string) pipeline.Entry {
	return pipeline.Entry{Deployment: deployment, Target: target, Event: event, Class: pipeline.Fact, Revision: deployment}
}

// Note returns a note of a deployment.
func Note(deployment int64, target, event string) pipeline.Entry {
	e := Fact(deployment, target, event)
	e.Class = pipeline.Note
	return e
}
