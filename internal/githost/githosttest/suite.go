package githosttest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/githost"
	"github.com/waybill-dev/waybill/internal/promotion"
)

// step is one row of the suite.
type step struct {
	name string
	run  func(t *testing.T, s *session)
}

// session is one repository, and the latest client and action.
type session struct {
	World
	host promotion.Host
	c    *githost.Client
	work promotion.Work
	head string
}

// Run runs the suite. Every row gets a new world.
func Run(t *testing.T, newWorld func(t *testing.T) World) {
	t.Helper()
	for _, row := range steps() {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			s := &session{World: w, host: w.Config(Branch)}
			row.run(t, s)
		})
	}
}

// steps returns the rows.
func steps() []step {
	return []step{
		{"a proposal is created once", createdOnce},
		{"an open proposal is updated for another revision", updated},
		{"Close supersedes by a new proposal", supersededByClose},
		{"foreign commits keep the proposal", foreignCommits},
		{"a person's closing declines until a retry", declined},
		{"a newer proposal ends a decline", declineEnds},
		{"a person's merge counts for its run", mergedByPerson},
		{"the merge is bound to the head", mergeAtHead},
		{"checks of the head", checksOfHead},
		{"a closed proposal names the reason", closedWithReason},
		{"labels and people are added and stay", labelsAndPeople},
		{"the credential's permissions", permissions},
		{"what does not exist is fatal", missing},
	}
}

// promote pushes and ensures, as an attempt does.
func (s *session) promote(t *testing.T, run int64, revision promotion.Revision) githost.Result {
	t.Helper()
	r, err := s.try(t, run, revision)
	if err != nil {
		t.Fatalf("run %d, %s: %v", run, revision, err)
	}
	return r
}

// try makes one attempt.
func (s *session) try(t *testing.T, run int64, revision promotion.Revision) (githost.Result, error) {
	t.Helper()
	s.prepare(t, run, revision)
	r, err := s.c.Prepare(t.Context(), s.work)
	if err != nil || r.Change == githost.Merged {
		return r, err
	}
	s.head = s.Push(t, Branch, Message(s.work))
	return s.ensure(t.Context())
}

// prepare sets client and action.
func (s *session) prepare(t *testing.T, run int64, revision promotion.Revision) {
	t.Helper()
	s.c = s.Open(t, s.host)
	repeats := s.work.Repeats
	s.work = Work(s.host, run, revision)
	s.work.Repeats = repeats
}

func (s *session) ensure(ctx context.Context) (githost.Result, error) {
	return s.c.Ensure(ctx, s.work, s.c.Describe(s.work, Lines(s.work)))
}

// only returns the only pull request.
func (s *session) only(t *testing.T) Pull {
	t.Helper()
	pulls := s.Pulls(t)
	if len(pulls) != 1 {
		t.Fatalf("%d pull requests, want 1: %+v", len(pulls), pulls)
	}
	return pulls[0]
}

// merge merges as attempts do, which come back after a while.
func (s *session) merge(t *testing.T, number int64, head string) (githost.Result, error) {
	t.Helper()
	s.work.Number, s.work.Head = number, head
	for {
		r, err := s.c.Merge(t.Context(), s.work, Trust)
		if kindOf(err) != action.RetryAfter {
			return r, err
		}
		select { // a real host computes
		case <-time.After(50 * time.Millisecond):
		case <-t.Context().Done():
			return r, err
		}
	}
}

func kindOf(err error) action.OutcomeKind {
	if err == nil {
		return action.Done
	}
	return githost.Outcome(err).Kind
}

func createdOnce(t *testing.T, s *session) {
	r := s.promote(t, 12, "6.6.0")
	p := s.only(t)
	if r.Change != githost.Created || r.Proposal.Number != p.Number || r.Proposal.URL == "" {
		t.Errorf("got %+v, want the created proposal %d", r, p.Number)
	}
	if want := "Promote apps/podinfo in prod to 6.6.0"; p.Title != want || !strings.Contains(p.Body, "apps/podinfo/prod") {
		t.Errorf("title %q, body %q", p.Title, p.Body)
	}
	seen := r.Proposal
	if seen.State != promotion.Open || seen.Revision != "6.6.0" || seen.Run != 12 || !strings.EqualFold(seen.Head, s.head) ||
		seen.Foreign ||
		seen.Conflict || seen.At.IsZero() {
		t.Errorf("proposal %+v, want an open one of run 12 at %s", seen, s.head)
	}
	again, err := s.ensure(t.Context())
	if err != nil || again.Change != githost.Unchanged || again.Proposal.Number != p.Number {
		t.Errorf("again: %+v, %v; want unchanged", again, err)
	}
	s.only(t)
	watched, err := s.c.Watch(t.Context(), p.Number)
	if err != nil || watched.Number != p.Number || watched.State != promotion.Open || watched.Revision != "6.6.0" {
		t.Errorf("watched: %+v, %v", watched, err)
	}
}

func updated(t *testing.T, s *session) {
	first := s.promote(t, 12, "6.6.0")
	second := s.promote(t, 13, "6.7.0")
	p := s.only(t)
	if second.Change != githost.Updated || second.Proposal.Number != first.Proposal.Number || second.Proposal.Revision != "6.7.0" {
		t.Errorf("got %+v, want proposal %d updated", second, first.Proposal.Number)
	}
	if !strings.Contains(p.Title, "6.7.0") || !strings.Contains(p.Body, "revision: 6.7.0") || strings.Contains(p.Body, "revision: 6.6.0") {
		t.Errorf("title %q, body %q", p.Title, p.Body)
	}
	if !slices.ContainsFunc(p.Comments, func(c string) bool { return strings.Contains(c, "6.6.0") && strings.Contains(c, "6.7.0") }) {
		t.Errorf("comments %q, want one that names both revisions", p.Comments)
	}
}

func supersededByClose(t *testing.T, s *session) {
	s.host.Close = true
	first := s.promote(t, 12, "6.6.0")
	second := s.promote(t, 13, "6.7.0")
	pulls := s.Pulls(t)
	if len(pulls) != 2 || pulls[0].State != Closed || pulls[1].State != Open {
		t.Fatalf("pull requests %+v, want a closed and an open one", pulls)
	}
	if second.Change != githost.Created || second.Proposal.Number == first.Proposal.Number {
		t.Errorf("got %+v", second)
	}
	if !slices.ContainsFunc(pulls[0].Comments, func(c string) bool { return strings.Contains(c, "6.7.0") }) {
		t.Errorf("comments %q, want one that names 6.7.0", pulls[0].Comments)
	}
	old, err := s.c.Watch(t.Context(), first.Proposal.Number)
	if err != nil || old.State != promotion.Closed || !old.ClosedByUs || old.Revision != "6.6.0" || old.Run != 12 {
		t.Errorf("the old one: %+v, %v; want closed by us, of run 12", old, err)
	}
	// Back to the first revision: its closing was not a person's.
	if third := s.promote(t, 14, "6.6.0"); third.Change != githost.Created {
		t.Errorf("got %+v, want a third proposal", third)
	}
}

func foreignCommits(t *testing.T, s *session) {
	s.host.Close = true
	first := s.promote(t, 12, "6.6.0")
	s.Append(t, Branch, "Fix a typo by hand")
	seen, err := s.c.Watch(t.Context(), first.Proposal.Number)
	if err != nil || !seen.Foreign {
		t.Errorf("got %+v, %v; want foreign commits", seen, err)
	}
	s.prepare(t, 13, "6.7.0")
	if r, err := s.c.Prepare(t.Context(), s.work); err != nil || r.Change != githost.Unchanged {
		t.Errorf("prepare: %+v, %v; want nothing closed", r, err)
	}
	s.Append(t, Branch, Message(s.work))
	r, err := s.ensure(t.Context())
	if err != nil || r.Change != githost.Updated || r.Proposal.Number != first.Proposal.Number || !r.Proposal.Foreign ||
		r.Proposal.Revision != "6.7.0" {
		t.Errorf("got %+v, %v; want the same proposal, updated", r, err)
	}
	s.only(t)
}

func declined(t *testing.T, s *session) {
	first := s.promote(t, 12, "6.6.0")
	s.CloseByPerson(t, first.Proposal.Number)
	for _, run := range []int64{12, 13} {
		if _, err := s.try(t, run, "6.6.0"); !githost.Is(err, promotion.ErrDeclined) || kindOf(err) != action.Fatal {
			t.Errorf("run %d: %v, want Declined", run, err)
		}
	}
	seen, err := s.c.Watch(t.Context(), first.Proposal.Number)
	if err != nil || seen.State != promotion.Closed || seen.ClosedByUs || seen.Revision != "6.6.0" || seen.At.IsZero() {
		t.Errorf("watched: %+v, %v; want closed by others", seen, err)
	}
	s.only(t)
	s.work.Repeats = true
	if r := s.promote(t, 14, "6.6.0"); r.Change != githost.Created {
		t.Errorf("retry: %+v, want a new proposal", r)
	}
}

func declineEnds(t *testing.T, s *session) {
	first := s.promote(t, 12, "6.6.0")
	s.CloseByPerson(t, first.Proposal.Number)
	if r := s.promote(t, 13, "6.7.0"); r.Change != githost.Created {
		t.Errorf("another revision: %+v, want a new proposal", r)
	}
}

func mergedByPerson(t *testing.T, s *session) {
	first := s.promote(t, 12, "6.6.0")
	s.MergeByPerson(t, first.Proposal.Number)
	r := s.promote(t, 12, "6.6.0")
	if r.Change != githost.Merged || r.Proposal.State != promotion.Merged || r.Proposal.By == "" || r.Proposal.Revision != "6.6.0" ||
		!strings.EqualFold(r.Proposal.Head, first.Proposal.Head) {
		t.Errorf("got %+v, want merged by a person", r)
	}
	if later := s.promote(t, 15, "6.6.0"); later.Change != githost.Created {
		t.Errorf("a later run: %+v, want a new proposal", later)
	}
}

func mergeAtHead(t *testing.T, s *session) {
	s.host.Unguarded = true
	first := s.promote(t, 12, "6.6.0")
	old := s.head
	s.promote(t, 13, "6.7.0")
	if _, err := s.merge(t, first.Proposal.Number, old); !githost.Is(err, promotion.ErrHeadMoved) || kindOf(err) != action.Fatal {
		t.Errorf("the old head: %v, want HeadMoved", err)
	}
	r, err := s.merge(t, first.Proposal.Number, s.head)
	if err != nil || r.Proposal.State != promotion.Merged || !strings.EqualFold(r.Proposal.Head, s.head) {
		t.Fatalf("got %+v, %v; want merged at %s", r, err, s.head)
	}
	if p := s.only(t); p.State != Merged {
		t.Errorf("the host has %+v", p)
	}
	if r, err = s.merge(t, first.Proposal.Number, s.head); err != nil || r.Change != githost.Unchanged {
		t.Errorf("again: %+v, %v; want unchanged", r, err)
	}
}

func checksOfHead(t *testing.T, s *session) {
	r := s.promote(t, 12, "6.6.0")
	want := func(state promotion.Checks, failed ...string) {
		t.Helper()
		seen, err := s.c.Watch(t.Context(), r.Proposal.Number)
		if err != nil || seen.Checks != state || !slices.Equal(seen.FailedChecks, failed) {
			t.Errorf("checks %q %q, %v; want %q %q", seen.Checks, seen.FailedChecks, err, state, failed)
		}
	}
	want(promotion.ChecksNone)
	s.SetCheck(t, s.head, "build", "pending")
	want(promotion.ChecksPending)
	s.SetCheck(t, s.head, "build", "success")
	want(promotion.ChecksPassed)
	s.SetCheck(t, s.head, "lint", "failure")
	want(promotion.ChecksFailed, "lint")
}

func closedWithReason(t *testing.T, s *session) {
	r := s.promote(t, 12, "6.6.0")
	s.work.Number, s.work.Reason = r.Proposal.Number, "superseded by 6.8.0"
	for range 2 {
		closed, err := s.c.Close(t.Context(), s.work)
		if err != nil || closed.Proposal.State != promotion.Closed || !closed.Proposal.ClosedByUs || closed.Proposal.Revision != "6.6.0" {
			t.Errorf("got %+v, %v; want closed by us", closed, err)
		}
	}
	p := s.only(t)
	if named := countOf(p.Comments, "6.8.0"); named != 1 {
		t.Errorf("comments %q, want one that names 6.8.0", p.Comments)
	}
	if again := s.promote(t, 12, "6.6.0"); again.Change != githost.Created {
		t.Errorf("got %+v, want a new proposal: no person has declined", again)
	}
}

func countOf(texts []string, part string) (n int) {
	for _, text := range texts {
		if strings.Contains(text, part) {
			n++
		}
	}
	return n
}

func labelsAndPeople(t *testing.T, s *session) {
	s.host.Labels = []string{"promotion"}
	ann, bob := s.Person("ann"), s.Person("bob")
	s.host.Reviewers, s.host.Assignees = []string{ann}, []string{bob}
	s.promote(t, 12, "6.6.0")
	s.host.Labels, s.host.Reviewers = []string{"team-a"}, []string{bob, "team:nobody"}
	r := s.promote(t, 12, "6.6.0")
	p := s.only(t)
	if len(r.Warnings) == 0 {
		t.Error("no warning about a team that does not exist")
	}
	for _, want := range []struct {
		kind      string
		got, want []string
	}{{"labels", p.Labels, []string{"promotion", "team-a"}}, {"reviewers", p.Reviewers, []string{ann, bob}},
		{"assignees", p.Assignees, []string{bob}}} {
		got := slices.Sorted(slices.Values(want.got))
		if want.got != nil && !slices.Equal(got, want.want) { // nil: the host has none of this kind
			t.Errorf("%s %q, want %q", want.kind, got, want.want)
		}
	}
}

func permissions(t *testing.T, s *session) {
	a, err := s.Open(t, s.host).Check(t.Context())
	if err != nil || !a.Read || !a.Push || !a.Propose || !a.Merge {
		t.Errorf("got %+v, %v; want everything allowed", a, err)
	}
}

func missing(t *testing.T, s *session) {
	s.prepare(t, 12, "6.6.0")
	_, err := s.c.Watch(t.Context(), 999999)
	e, ok := errors.AsType[*githost.Error](err)
	if !ok || e.Kind != action.Fatal || e.Status != 404 {
		t.Errorf("got %v, want a fatal 404", err)
	}
}
