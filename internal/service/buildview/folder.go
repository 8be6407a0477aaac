package buildview

import (
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/loop"
	"github.com/waybill-dev/waybill/internal/results"
	"github.com/waybill-dev/waybill/internal/testresult"
)

// Bounds of what is read and remembered of results folders.
const (
	mostListed   = 500                    // builds that one request for a list looks at
	listLength   = 50                     // builds on a page, unless the query sets it
	mostOpenKept = 32                     // builds whose steps and places in logs are remembered
	mostKept     = 5000                   // ended builds whose summaries are remembered
	mostNotable  = 1000                   // failed and flaky tests of a build's state
	folderPause  = 150 * time.Millisecond // how often a follower looks at the files of a build
)

// Folders reads builds from results folders on this machine, one folder by id each.
type Folders struct {
	root     results.Root
	originOf func(context.Context, action.ID) (*Origin, error)

	mu     sync.Mutex
	ended  map[string]Summary
	opened map[string]*folderBuild
	order  []string // ids of opened, the last used one at the end
}

// NewFolders returns the builds in a folder. A folder is called ID.ATTEMPT after the action that built; originOf returns what
// OriginOf describes.
func NewFolders(dir string, originOf func(context.Context, action.ID) (*Origin, error)) *Folders {
	return &Folders{root: results.RootAt(dir), originOf: originOf, ended: map[string]Summary{}, opened: map[string]*folderBuild{}}
}

// Builds lists builds by the time at which they began.
func (f *Folders) Builds(ctx context.Context, q Query) (List, error) {
	list := List{Builds: []Summary{}}
	prefix := ""
	if q.Action != "" {
		prefix = q.Action + "."
	}
	all := f.root.List(prefix)
	if q.After != "" {
		at, id, err := parseListCursor(q.After)
		if err != nil {
			return list, err
		}
		all = slices.DeleteFunc(all, func(l results.Listed) bool {
			return l.At.UnixNano() > at || l.At.UnixNano() == at && l.ID <= id
		})
	}
	limit := q.Limit
	if limit == 0 {
		limit = listLength
	}
	for i, l := range all {
		if err := ctx.Err(); err != nil {
			return list, context.Cause(ctx)
		}
		// else it was removed just now, or another program wrote it
		if s, err := f.summary(ctx, l.ID); err == nil && q.selects(s) && f.has(q, s) {
			list.Builds = append(list.Builds, s)
		}
		if i+1 < len(all) && (len(list.Builds) == limit || i+1 == mostListed) {
			list.Next = fmt.Sprintf("%d:%s", l.At.UnixNano(), l.ID)
			break
		}
	}
	return list, nil
}

// has reports whether a build that a query selects has the stage, artifact, test and text that it requests.
func (f *Folders) has(q Query, s Summary) bool {
	if !q.searches() {
		return true
	}
	if q.Stage != "" && !slices.Contains(s.Stages, q.Stage) {
		return false
	}
	r, err := results.Open(f.root.Dir(s.ID))
	if err != nil {
		return false
	}
	artifact := func(part string) bool {
		all, err := r.Artifacts()
		return err == nil && slices.ContainsFunc(all, func(a build.Artifact) bool { return contains(a.Name, part) })
	}
	test := func(part string) bool {
		all, err := r.Tests()
		return err == nil && slices.ContainsFunc(all, func(file build.TestFile) bool {
			return slices.ContainsFunc(file.Results, func(r testresult.Result) bool { return contains(r.Suite+" "+r.Name, part) })
		})
	}
	return (q.Artifact == "" || artifact(q.Artifact)) && (q.Test == "" || test(q.Test)) &&
		(q.Text == "" || q.contained(s) || artifact(q.Text) || test(q.Text))
}

// parseListCursor reads the cursor of a list: the time and the id of the last build that was looked at.
func parseListCursor(text string) (at int64, id string, err error) {
	number, id, _ := strings.Cut(text, ":")
	if at, err = strconv.ParseInt(number, 10, 64); err != nil {
		return 0, "", fault.New(fault.Invalid, "after: want the field next of an earlier page, found %q", text)
	}
	return at, id, nil
}

func (f *Folders) summary(ctx context.Context, id string) (Summary, error) {
	f.mu.Lock()
	kept, ok := f.ended[id]
	f.mu.Unlock()
	if ok {
		return kept, nil
	}
	r, err := results.Open(f.root.Dir(id))
	if err != nil {
		return Summary{}, err
	}
	b, err := r.Build()
	if err != nil {
		return Summary{}, err
	}
	last, alive, err := r.State()
	if err != nil {
		return Summary{}, err
	}
	s, known := f.describe(ctx, r.Dir(), summarizeBuild(b, last, alive))
	if s.Status.Ended() && known {
		f.keep(s)
	}
	return s, ctx.Err()
}

// describe adds to the summary of a build its folder and its deployment; known is false if that may be known later.
func (f *Folders) describe(ctx context.Context, dir string, s Summary) (described Summary, known bool) {
	s.Results = dir
	name, _, attempted := strings.Cut(s.ID, ".")
	id, err := action.ParseID(name)
	if !attempted || err != nil {
		return s, true
	}
	s.Action = name
	origin, err := f.originOf(ctx, id)
	if origin != nil {
		origin.add(&s)
	}
	return s, err == nil || fault.Is(err, fault.NotFound)
}

func (f *Folders) keep(s Summary) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.ended) >= mostKept {
		clear(f.ended)
	}
	f.ended[s.ID] = s
}

// OpenBuild opens the build in the folder with its id.
func (f *Folders) OpenBuild(_ context.Context, id string) (Reader, error) {
	missing := fault.New(fault.NotFound, "build %s not found on this server", fault.Clip(id))
	if _, err := strconv.ParseInt(id, 10, 64); err == nil {
		missing = missing.WithHint("waybill build list shows those that are; the results of waybill run are on the machine where it ran")
	} else {
		missing = missing.WithHint("its results are on the machine that ran it, which waybill action show names")
	}
	if !buildID.MatchString(id) {
		return nil, missing
	}
	r, err := results.Open(f.root.Dir(id))
	if fault.Is(err, fault.NotFound) {
		return nil, missing
	} else if err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.order = append(slices.DeleteFunc(f.order, func(other string) bool { return other == id }), id)
	if f.opened[id] == nil {
		f.opened[id] = &folderBuild{folders: f, reader: r, steps: map[int]*folderStep{}}
	}
	if len(f.order) > mostOpenKept {
		delete(f.opened, f.order[0])
		f.order = f.order[1:]
	}
	return f.opened[id], nil
}

// PauseFor waits, unless the context ends.
func PauseFor(ctx context.Context, d time.Duration) error {
	if !loop.Pause(ctx, d) {
		return context.Cause(ctx)
	}
	return nil
}

// folderBuild is one build in a folder. It remembers what does not change any more.
type folderBuild struct {
	folders *Folders
	reader  *results.Reader

	mu        sync.Mutex
	described results.Build
	steps     map[int]*folderStep
}

// folderStep is the remembered state of a step.
type folderStep struct {
	places  *results.Positions
	updates []build.Update
	ended   bool // updates, artifacts and tests are complete

	artifacts []build.Artifact
	tests     []build.TestFile // without tests that passed or were skipped
}

// State reads the build and its steps; of those that have ended only once.
func (b *folderBuild) State(ctx context.Context) (State, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	described, err := b.describe()
	if err != nil {
		return State{}, err
	}
	alive := b.reader.Alive()         // before the status, as in Reader.State
	final, err := b.reader.Updates(0) // first, so that an end is not seen before what led to it
	if err != nil {
		return State{}, err
	}
	last := build.Update{Status: build.Pending}
	if len(final) > 0 {
		last = final[len(final)-1]
	}
	summary, _ := b.folders.describe(ctx, b.reader.Dir(), summarizeBuild(described, last, alive))
	state := State{Summary: summary, Plan: described.Plan,
		Updates: map[int][]build.Update{0: final}, Artifacts: []build.Artifact{}, Counts: map[int]testresult.Counts{}}
	for _, step := range described.Plan.Steps {
		if err := ctx.Err(); err != nil {
			return state, context.Cause(ctx)
		}
		if err := b.addStep(&state, step.ID, state.Ended()); err != nil {
			return state, err
		}
	}
	return state, nil
}

// describe reads build.json once. The caller holds the lock.
func (b *folderBuild) describe() (results.Build, error) {
	var err error
	if b.described.Plan == nil {
		b.described, err = b.reader.Build()
	}
	return b.described, err
}

// addStep adds a step to the state. over reports that the build has ended. The caller holds the lock.
func (b *folderBuild) addStep(state *State, id int, over bool) error {
	step := b.step(id)
	if !step.ended {
		if err := b.readStep(step, id, over); err != nil {
			return err
		}
	}
	if len(step.updates) > 0 {
		state.Updates[id] = step.updates
	}
	state.Artifacts = append(state.Artifacts, step.artifacts...)
	counts := testresult.Counts{}
	for _, file := range step.tests {
		counts.Add(file.Counts)
		if len(file.Results) > 0 && len(state.Notable) < mostNotable {
			state.Notable = append(state.Notable, file)
		}
	}
	if len(step.tests) > 0 {
		state.Counts[id] = counts
	}
	return nil
}

// readStep reads what a step has so far. The caller holds the lock.
func (b *folderBuild) readStep(step *folderStep, id int, over bool) (err error) {
	if step.updates, err = b.reader.Updates(id); err != nil {
		return err
	}
	if step.artifacts, err = b.reader.StepArtifacts(id); err != nil {
		return err
	}
	if step.tests, err = b.reader.TestsOf(id); err != nil {
		return err
	}
	for i := range step.tests {
		step.tests[i].Results = slices.DeleteFunc(step.tests[i].Results, func(r testresult.Result) bool {
			return r.Outcome != testresult.Failed && r.Outcome != testresult.Flaky
		})
	}
	n := len(step.updates)
	step.ended = over || n > 0 && step.updates[n-1].Status.Ended()
	return nil
}

// step returns what is remembered of a step. The caller holds the lock.
func (b *folderBuild) step(id int) *folderStep {
	if b.steps[id] == nil {
		b.steps[id] = &folderStep{places: b.reader.Positions(id)}
	}
	return b.steps[id]
}

// Follow returns a function that waits for a moment: another process writes the files.
func (b *folderBuild) Follow() func(context.Context) error {
	return func(ctx context.Context) error { return PauseFor(ctx, folderPause) }
}

func (b *folderBuild) Tests(context.Context) ([]build.TestFile, error) { return b.reader.Tests() }

func (b *folderBuild) OpenArtifact(_ context.Context, a build.Artifact) (io.ReadSeekCloser, error) {
	return b.reader.OpenArtifact(a)
}

func (b *folderBuild) ReadLog(_ context.Context, step int, offset int64, buffer []byte) (int, error) {
	return b.reader.ReadBatch(step, offset, buffer)
}

func (b *folderBuild) Locate(_ context.Context, step int, place LogPlace) (build.Position, error) {
	b.mu.Lock()
	known := b.step(step)
	b.mu.Unlock()
	if !place.Since.IsZero() {
		return known.places.Since(place.Since)
	}
	if at, ok, err := b.nearEnd(step, place.After); ok || err != nil {
		return at, err
	}
	return known.places.AfterEntry(place.After)
}

// nearEnd finds a place near the end of the log of a step that has ended, without a scan of what is before.
func (b *folderBuild) nearEnd(step int, after int64) (at build.Position, ok bool, err error) {
	if after < 1 {
		return build.Position{}, true, nil
	}
	last, err := b.reader.Last(step)
	if err != nil || last.Trailer == nil {
		return build.Position{}, false, err
	}
	end := last.Trailer.End()
	if after >= end.ID || after == math.MaxInt64 {
		return end, true, nil
	}
	return b.reader.BeforeEnd(step, end, after)
}
