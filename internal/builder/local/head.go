package local

import (
	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/results"
)

// Head describes a build that is about to run.
type Head struct {
	ID      string
	Results string // the folder of its results
	Named   bool   // commands find it by its id, and else by the folder of its results
	Folder  string // folder to build; "": a snapshot or a commit, whose files do not change
	Label   string // label of the source: shop @ 3f9c2ab
	Runner  string // remark about the runner; "": nothing
	Advice  string // about the workspace; "": none
	Resumed *resumed
	Plan    *build.Plan
}

// resumed is the build that another resumes.
type resumed struct {
	ID      string
	Reused  []string // stage/step of steps that need not run again
	Changed string   // cart.go and 2 more have changed since; "": none has, or it is not known
}

func (j job) head(runner string) Head {
	h := Head{ID: j.id, Results: j.place.dir, Named: j.place.root != (results.Root{}), Label: j.source.label,
		Runner: runner, Advice: j.source.advice, Plan: j.plan}
	if !j.source.unpacked && !j.source.received {
		h.Folder = j.source.root
	}
	if j.resumes == nil || j.resumes.before.Plan == nil {
		return h
	}
	h.Resumed = &resumed{ID: j.resumes.before.ID, Changed: j.resumes.changed}
	for _, step := range j.plan.Steps {
		if _, ok := j.resumes.Steps[step.ID]; ok {
			h.Resumed.Reused = append(h.Resumed.Reused, step.Path())
		}
	}
	return h
}
