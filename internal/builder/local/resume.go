package local

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/builder/worker"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/file"
	"github.com/waybill-dev/waybill/internal/results"
	"github.com/waybill-dev/waybill/internal/workspace"
)

// Last is the value of --resume without one: the last build of the folder.
const Last = "last"

// resumption is the earlier build that a build resumes.
type resumption struct {
	worker.Resumed
	before  results.Build
	sent    results.Earlier // build that a provisioner has sent; before has no plan of it
	again   bool            // --step is given: the steps that it names run in any case
	missing map[int]string  // why its steps that were looked at cannot be reused
	changed string          // files of the folder that have changed since, for people
}

// resumption finds the build that --resume or a provisioner names; nil without one. The request for that build holds
// for this one too, unless the flags differ.
func (b *Builder) resumption(ctx context.Context, flags *Options, source *buildSource, in *inbox) (*resumption, error) {
	if flags.Launch.Earlier != nil {
		return b.earlierResults(ctx, source, flags.Launch, in), ctx.Err()
	}
	if flags.Resume == "" {
		return nil, nil
	}
	r, err := b.Earlier(flags.Resume, source.name)
	if err != nil {
		return nil, err
	}
	if !r.Own() {
		return nil, fault.New(fault.Refused, "the results in %s are another user's, or others may change them", b.Shorten(r.Dir()))
	}
	before, err := r.Build()
	switch {
	case err != nil:
		return nil, err
	case before.Source != source.name:
		return nil, fault.New(fault.Invalid, "build %s is of %s, not of %s", before.ID, b.Shorten(before.Source), b.Shorten(source.name))
	case r.Alive():
		return nil, fault.New(fault.Refused, "build %s still runs", before.ID).
			WithHint("wait for its end, or end it: waybill build cancel %s", before.ID)
	}
	again := flags.Steps != nil
	flags.Inherit(before)
	return &resumption{Resumed: worker.Resumed{ID: before.ID, Results: r}, before: before, again: again, missing: map[int]string{}}, nil
}

// Inherit takes over the request for an earlier build. Its passwords must be given again.
func (f *Options) Inherit(before results.Build) {
	given := before.Given
	if f.File == build.FileName && given.File != "" {
		f.File = given.File
	}
	if f.Environment == "" {
		f.Environment = given.Environment
	}
	if f.Stages == nil && f.Steps == nil {
		f.Stages, f.Steps = given.Stages, given.Steps
	}
	f.passwords = given.Passwords
	var inputs []string
	for _, name := range slices.Sorted(maps.Keys(given.Inputs)) {
		inputs = append(inputs, name+"="+given.Inputs[name])
	}
	f.Inputs = append(inputs, f.Inputs...) // the last of a name counts
}

// given returns the request for a build in the flags, without the values of passwords.
func (f Options) given(source *buildSource, file *build.File, inputs map[string]string) results.Given {
	given := results.Given{File: f.File, Environment: f.Environment, Stages: f.Stages, Steps: f.Steps,
		Inputs: maps.Clone(inputs), Flags: f.Kept}
	if !source.unpacked && !source.received {
		given.Folder = source.name
	}
	for _, input := range file.Inputs {
		if _, ok := inputs[input.Name]; ok && input.Type == build.PasswordInput {
			given.Passwords = append(given.Passwords, input.Name)
			delete(given.Inputs, input.Name)
		}
	}
	return given
}

// addNeeded adds to the choice the steps of stages that are not selected but whose artifacts selected steps need, if
// they are reused. A nil resumption reuses none.
func (s *resumption) addNeeded(choice *build.Choice, plan func() (*build.Plan, error)) {
	runsAgain := map[string]bool{}
	for s != nil && len(choice.Stages)+len(choice.Steps) > 0 {
		p, err := plan()
		if err != nil {
			choice.Also = nil
			return
		}
		more := slices.DeleteFunc(p.Unselected(), func(path string) bool { return runsAgain[path] || slices.Contains(choice.Also, path) })
		if choice.Also = append(choice.Also, more...); len(more) > 0 {
			continue // these may need further ones
		}
		reused := s.reusable(p)
		for _, step := range p.Steps {
			if reused.Again[step.ID] != "" {
				runsAgain[step.Path()] = true
			}
		}
		before := len(choice.Also)
		if choice.Also = slices.DeleteFunc(choice.Also, func(path string) bool { return runsAgain[path] }); len(choice.Also) == before {
			return
		}
	}
}

// choose finds the steps of a plan that need not run again.
func (s *resumption) choose(plan *build.Plan, source *buildSource) {
	s.Reuse = s.reusable(plan)
	if s.before.Plan == nil {
		return
	}
	s.changed = changedFiles(source, s.before.StartedAt)
}

// reusable finds the steps of a plan that need not run again. One whose log or artifacts have changed runs again.
func (s *resumption) reusable(plan *build.Plan) build.Reuse {
	if s.before.Plan != nil {
		earlier := s.before.Plan.Earlier(s.missingOf)
		for i := range earlier {
			if s.again && plan.Names(earlier[i].Stage+"/"+earlier[i].Name) {
				earlier[i].Missing = "--step names it"
			}
		}
		return plan.Reusable(earlier)
	}
	reuse := plan.Reusable(s.sent.Steps)
	for id := range reuse.Again {
		reuse.Again[id] = cmp.Or(s.sent.Missing, reuse.Again[id])
	}
	return reuse
}

// missingOf reports why a step of the earlier build cannot be reused; "": it can.
func (s *resumption) missingOf(id int) string {
	why, known := s.missing[id]
	if known {
		return why
	}
	last, err := s.Results.Last(id)
	why = build.MissingOf(last.Status)
	if why == "" && (err != nil || s.Results.VerifyStep(id) != nil) {
		why = "its log or an artifact has been changed since"
	}
	s.missing[id] = why
	return why
}

// mostLooked bounds the files that are searched for changes.
const mostLooked = 100_000

// changedFiles reports which files of a folder were written since a time: cart.go and 2 more have changed since; ""
// if none was, or if the source is a snapshot.
func changedFiles(source *buildSource, since time.Time) string {
	if source.unpacked {
		return ""
	}
	first, changed, looked := "", 0, 0
	_ = filepath.WalkDir(source.root, func(path string, d fs.DirEntry, err error) error {
		looked++
		switch {
		case looked > mostLooked:
			return fs.SkipAll
		case err != nil:
			return nil //nolint:nilerr // what cannot be read is not named
		case d.IsDir() && (d.Name() == ".git" || slices.Contains(source.skip, path)):
			return fs.SkipDir
		case d.IsDir():
			return nil
		}
		if info, err := d.Info(); err == nil && info.ModTime().After(since) {
			if changed++; changed == 1 {
				first, _ = filepath.Rel(source.root, path)
			}
		}
		return nil
	})
	switch changed {
	case 0:
		return ""
	case 1:
		return first + " has changed since"
	}
	return fmt.Sprintf("%s and %d more have changed since", first, changed-1)
}

// earlierResults gets the results of an earlier build's steps. Without that, every step of this one runs.
func (b *Builder) earlierResults(ctx context.Context, source *buildSource, launch LaunchOptions, in *inbox) *resumption {
	id := strconv.FormatInt(launch.Earlier.BuildID, 10)
	earlier := &resumption{Resumed: worker.Resumed{ID: id}, before: results.Build{ID: id}}
	path := launch.BundleFile
	var err error
	if in != nil {
		path, err = filepath.Join(source.scratch, inboxFile), in.await(ctx)
	}
	if err == nil {
		earlier.Results, earlier.sent, err = unpackBundle(ctx, path, filepath.Join(source.scratch, "earlier"))
	}
	if err != nil {
		earlier.sent = results.Earlier{Missing: "the results of the earlier build cannot be used: " + file.Plain(err).Error()}
	}
	return earlier
}

// unpackBundle unpacks the results of an earlier build's steps into a folder, and checks it.
func unpackBundle(ctx context.Context, path, dir string) (r *results.Reader, sent results.Earlier, err error) {
	f, _, err := file.Open(path)
	if err != nil {
		return nil, sent, err
	}
	defer f.Close()
	if err := workspace.Extract(ctx, f, dir, ""); err != nil {
		return nil, sent, err
	}
	if r, err = results.Open(dir); err == nil {
		sent, err = r.Earlier()
	}
	_ = os.Remove(path) // else it goes with the worker's folder
	return r, sent, err
}
