package buildview

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/blob"
	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/builds"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/testresult"
)

// Tables reads builds that ran in workers or by another build engine from the database, and those of results folders
// from Folders. Every exported field must be set.
type Tables struct {
	Rows    *builds.Builds
	Folders *Folders
	Blobs   blob.Store
	// Waiter returns a function that returns when a build may have changed since its last call, and at a time in any case.
	Waiter func() func(ctx context.Context, until time.Time) error

	mu     sync.Mutex
	opened map[builds.ID]*tableBuild
	order  []builds.ID // ids of opened, the last used one at the end
}

const (
	tableCursor = "worker:"       // begins the cursor of a list inside of the database's builds
	listWindow  = 50              // builds whose parts are searched at a time
	listTime    = 2 * time.Second // after which a list that searches parts ends
)

// Builds lists the builds of the database, newest first, then those of folders.
func (t *Tables) Builds(ctx context.Context, q Query) (List, error) {
	list := List{Builds: []Summary{}}
	id, ours := strings.CutPrefix(q.After, tableCursor)
	if q.After != "" && !ours {
		return t.Folders.Builds(ctx, q)
	}
	query, err := q.rows()
	if err != nil {
		return list, err
	}
	if ours {
		before, ok := NumberOf(id)
		if !ok {
			return list, fault.New(fault.Invalid, "after: want the field next of an earlier page, found %q", fault.Clip(q.After))
		}
		query.Before = before
	}
	over, err := t.page(ctx, q, query, &list)
	if err == nil {
		err = t.addCounts(ctx, list.Builds)
	}
	if err != nil || !over {
		return list, err
	}
	rest := q
	rest.After, rest.Limit = "", cmp.Or(q.Limit, listLength)-len(list.Builds)
	older, err := t.Folders.Builds(ctx, rest)
	list.Builds, list.Next = append(list.Builds, older.Builds...), older.Next
	return list, err
}

// page adds the builds that fit to a list, until it is full, 500 were looked at, or a search takes too long. over
// reports the end of the list.
func (t *Tables) page(ctx context.Context, q Query, query builds.Query, list *List) (over bool, err error) {
	limit, begun := cmp.Or(q.Limit, listLength), time.Now()
	query.Limit = limit
	if q.searches() || q.Input != "" {
		query.Limit = listWindow
	}
	for looked := 0; ; {
		found, err := t.Rows.List(ctx, query)
		if err != nil {
			return false, err
		}
		fit, err := t.fitting(ctx, q, found)
		if err != nil {
			return false, err
		}
		for i := range found {
			query.Before = found[i].ID
			if s := tableSummary(&found[i]); fit(s) {
				list.Builds = append(list.Builds, s)
			}
			if looked++; len(list.Builds) == limit || looked == mostListed {
				break
			}
		}
		switch full := len(list.Builds) == limit || looked >= mostListed; {
		case !full && len(found) < query.Limit:
			return true, nil
		case full || time.Since(begun) > listTime:
			list.Next = tableCursor + NameOf(query.Before)
			return false, nil
		}
	}
}

// rows returns the conditions of a query that rows of builds have.
func (q Query) rows() (builds.Query, error) {
	query := builds.Query{Status: q.Status, Environment: q.Environment, Project: q.Pipeline, Branch: q.Branch, Commit: q.Commit,
		Deployment: q.Deployment, Since: q.Since, Until: q.Until}
	if q.Action == "" {
		return query, nil
	}
	id, err := action.ParseID(q.Action)
	if err != nil {
		return query, fault.Wrap(fault.Invalid, err)
	}
	query.ActionID = id
	return query, nil
}

// searches reports whether parts of builds are searched.
func (q Query) searches() bool { return q.Stage+q.Artifact+q.Test+q.Text != "" }

// fitting returns a function that reports whether one of the builds is what the query requests.
func (t *Tables) fitting(ctx context.Context, q Query, found []builds.Build) (func(Summary) bool, error) {
	ids := make([]builds.ID, len(found))
	for i := range found {
		ids[i] = found[i].ID
	}
	var stage, artifact, test, textArtifact, textTest map[string]bool
	for _, part := range [...]struct {
		has  *map[string]bool
		part builds.Part
		text string
	}{
		{&stage, builds.PartStage, q.Stage}, {&artifact, builds.PartArtifact, q.Artifact}, {&test, builds.PartTest, q.Test},
		{&textArtifact, builds.PartArtifact, q.Text}, {&textTest, builds.PartTest, q.Text},
	} {
		var err error
		if *part.has, err = t.having(ctx, ids, part.part, part.text); err != nil {
			return nil, err
		}
	}
	return func(s Summary) bool {
		return (q.Stage == "" || stage[s.ID] || slices.Contains(s.Stages, q.Stage)) &&
			(q.Artifact == "" || artifact[s.ID]) && (q.Test == "" || test[s.ID]) &&
			(q.Text == "" || q.contained(s) || textArtifact[s.ID] || textTest[s.ID]) && q.selects(s)
	}, nil
}

// having returns the ids of those of the builds that have a part with a text; none without one.
func (t *Tables) having(ctx context.Context, ids []builds.ID, part builds.Part, text string) (map[string]bool, error) {
	if text == "" || len(ids) == 0 {
		return map[string]bool{}, nil
	}
	some, err := t.Rows.Having(ctx, ids, part, text)
	has := map[string]bool{}
	for _, id := range some {
		has[NameOf(id)] = true
	}
	return has, err
}

// addCounts adds the steps of builds that have not ended, and what the tests of builds came to.
func (t *Tables) addCounts(ctx context.Context, list []Summary) error {
	if len(list) == 0 {
		return nil
	}
	ids, at := make([]builds.ID, len(list)), map[builds.ID]*Summary{}
	for i := range list {
		ids[i], _ = NumberOf(list[i].ID) // the id is that of a row
		at[ids[i]] = &list[i]
	}
	unknown := slices.DeleteFunc(slices.Clone(ids), func(id builds.ID) bool { return at[id].Steps > 0 })
	if len(unknown) > 0 {
		steps, err := t.Rows.StepCounts(ctx, unknown)
		if err != nil {
			return err
		}
		for id, n := range steps {
			at[id].Steps = n
		}
	}
	sums, err := t.Rows.TestSummaries(ctx, ids)
	for id, all := range sums {
		counts := testresult.Counts{}
		for _, s := range all {
			counts.Add(s.Counts)
		}
		at[id].Tests = &counts
	}
	return err
}

// tableSummary describes a build without its steps' names.
func tableSummary(b *builds.Build) Summary {
	s := Summary{ID: NameOf(b.ID), Status: b.Status, StatusID: statusID(b.Status), Reason: b.Reason, Pipeline: b.Project,
		Deployment: b.Deployment, Target: b.Target, Branch: b.Branch, Commit: b.Commit, Environment: b.Environment,
		Stages: append([]string{}, b.Stages...), Params: []Param{}, Engine: b.Engine, Worker: b.WorkerID,
		ScheduledOn: b.CreatedAt, StartedOn: b.StartedAt, FinishedOn: b.EndedAt, ExpiredOn: b.ExpiredAt}
	switch {
	case b.Engine != "":
		s.Runner = b.Engine
	case b.WorkerID != "":
		s.Runner = "worker " + b.WorkerID
	}
	if b.Message != "" {
		s.Reason = strings.TrimPrefix(s.Reason+": ", ": ") + b.Message
	}
	if b.RerunOf != 0 {
		s.RerunOf, s.Resume = NameOf(b.RerunOf), b.Resume
	}
	if b.Final != nil {
		s.Steps = b.Final.Steps
		s.IsInvalid = b.Status == build.Failed && s.Steps == 0
	}
	for name, value := range b.Inputs {
		s.Params = append(s.Params, Param{Name: name, Value: value})
	}
	slices.SortFunc(s.Params, func(a, b Param) int { return strings.Compare(a.Name, b.Name) })
	if !b.ActionID.IsZero() {
		s.Action = b.ActionID.String()
	}
	return s
}

// OpenBuild opens a build of the database by its number, or one in a folder.
func (t *Tables) OpenBuild(ctx context.Context, id string) (Reader, error) {
	number, ok := NumberOf(id)
	if !ok {
		return t.Folders.OpenBuild(ctx, id)
	}
	found, err := t.Rows.List(ctx, builds.Query{IDs: []builds.ID{number}, Deleted: true})
	switch {
	case err != nil:
		return nil, err
	case len(found) == 0:
		return t.Folders.OpenBuild(ctx, id)
	case !found[0].DeletedAt.IsZero():
		return nil, fault.New(fault.NotFound, "build %s was deleted at %s", id, found[0].DeletedAt.Format(time.RFC3339))
	}
	return t.open(number), nil
}

// open returns the reader of a build, which remembers what it has read.
func (t *Tables) open(id builds.ID) *tableBuild {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.opened == nil {
		t.opened = map[builds.ID]*tableBuild{}
	}
	t.order = append(slices.DeleteFunc(t.order, func(other builds.ID) bool { return other == id }), id)
	if t.opened[id] == nil {
		t.opened[id] = &tableBuild{from: t, id: id}
	}
	if len(t.order) > mostOpenKept {
		delete(t.opened, t.order[0])
		t.order = t.order[1:]
	}
	return t.opened[id]
}
