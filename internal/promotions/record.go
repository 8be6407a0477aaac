package promotions

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/promotion"
)

// Record stores a decision, its actions and its cancellations in one transaction, and returns the new head; the same one if nothing
// was new. The first change of a pipeline, which may be empty, creates its row. A change of another UID closes the pipeline that
// had the name.
//
// Errors: ErrMoved when the log has changed since Change.Head, or another object has the name now; fault.Invalid for a change that
// cannot be stored; fault.DuplicateKey when an attempt that is to be started lives.
func (p *Promotions) Record(ctx context.Context, c Change) (head int64, err error) {
	err = p.record(ctx, c, func(_ *txn, h *Head) error {
		head = h.Seq
		return nil
	})
	return head, err
}

// RecordAndLoad does as Record and returns the state after it, as Load would. It is cheaper than both.
func (p *Promotions) RecordAndLoad(ctx context.Context, c Change) (s State, err error) {
	err = p.record(ctx, c, func(t *txn, _ *Head) (err error) {
		if err := t.writeHeads(); err != nil {
			return err
		}
		s, err = t.load(c.Pipeline, c.UID)
		return err
	})
	return s, err
}

// record stores a decision and calls then in the same transaction.
func (p *Promotions) record(ctx context.Context, c Change, then func(*txn, *Head) error) error {
	if err := c.check(); err != nil {
		return err
	}
	return p.write(ctx, "record a decision about "+c.Pipeline, func(t *txn) error {
		h, err := t.admit(c)
		if err != nil {
			return err
		}
		for _, add := range []func(*Head, Change) error{t.addSighting, t.addRuns, t.addFacts, t.addPhases, t.addStarts, t.addCancels, t.addNotices} {
			if err := add(h, c); err != nil {
				return err
			}
		}
		if err := t.act(); err != nil {
			return err
		}
		t.start, t.cancel = nil, nil
		return then(t, h)
	})
}

// Bounds of a change.
const (
	mostRows = 10_000 // rows of each kind
	mostWork = 256 << 10
)

// check refuses a change that is too large.
func (c Change) check() error {
	for _, n := range []int{len(c.Runs), len(c.Facts), len(c.Phases), len(c.Start), len(c.Cancel), len(c.Notices)} {
		if n > mostRows {
			return fault.New(fault.Invalid, "a decision about %s adds %d rows of a kind: want at most %d", c.Pipeline, n, mostRows)
		}
	}
	return checkName(c.Pipeline)
}

// admit locks the head of a change's pipeline, and creates it if it is missing.
func (t *txn) admit(c Change) (*Head, error) {
	if err := t.lock([]string{c.Pipeline}, []string{c.UID}); err != nil {
		return nil, err
	}
	live, _ := t.live(c.Pipeline) // a missing one is created
	own := t.of(c.Pipeline, c.UID)
	switch {
	case own == nil && c.Head != 0, own != nil && own.Seq != c.Head, own != nil && live != nil && live != own:
		return nil, ErrMoved
	case own != nil && live == nil: // the object was there all the time
		if err := t.checkFrozen(c); err != nil {
			return nil, err
		}
		own.ClosedAt = time.Time{}
		t.next(own)
		return own, nil
	case own != nil:
		return own, nil
	}
	if err := t.checkFrozen(c); err != nil {
		return nil, err
	}
	if live != nil {
		if err := t.close(live); err != nil {
			return nil, err
		}
	}
	return t.create(c)
}

// checkFrozen returns ErrMoved for the first change of a pipeline if its decision did not know a freeze. Later ones are refused because a
// freeze moves the heads of all that exist. Stages of a waybill.yaml are frozen by their pipeline.
func (t *txn) checkFrozen(c Change) error {
	now, err := t.frozen(c.Pipeline)
	if err == nil && now != nil && !c.Frozen && !OfStages(c.Pipeline) {
		return ErrMoved
	}
	return err
}

// create stores a head whose runs continue the numbers of the name.
func (t *txn) create(c Change) (*Head, error) {
	if err := t.writeHeads(); err != nil { // the name of a closed one becomes free
		return nil, err
	}
	former, err := t.PromotionHeads(HeadQuery{Name: c.Pipeline, Closed: true})
	if err != nil {
		return nil, err
	}
	h := &Head{Name: c.Pipeline, UID: c.UID, CreatedAt: t.Now()}
	for _, f := range former {
		h.Newest = max(h.Newest, f.Newest)
	}
	if h.ID, err = t.InsertPromotionHead(*h); err != nil {
		return nil, err
	}
	t.heads = append(t.heads, h)
	t.next(h)
	return h, nil
}

func (t *txn) addSighting(h *Head, c Change) error {
	if c.Sighting == nil {
		return nil
	}
	s := *c.Sighting
	s.Seq = t.next(h)
	return t.InsertSighting(h.ID, s)
}

// addRuns starts and ends runs, with their facts.
func (t *txn) addRuns(h *Head, c Change) error {
	for _, change := range c.Runs {
		t.next(h)
		if err := t.changeRun(h, change); err != nil {
			return err
		}
		if err := t.append(h, facts(change.Facts)); err != nil {
			return err
		}
	}
	return nil
}

func (t *txn) changeRun(h *Head, c promotion.RunChange) error {
	n := c.Run.Number
	if c.End != promotion.Running {
		return t.EndRun(h.ID, n, c.End, endOf(c, t.Now()))
	}
	if n <= 0 {
		return fault.New(fault.Internal, "a new run of %s has the number %d", h.Name, n)
	}
	h.Newest = max(h.Newest, n)
	return t.InsertRun(h.ID, Run{Run: c.Run, ID: action.RandomID(t.Now())})
}

func endOf(c promotion.RunChange, now time.Time) time.Time {
	if c.Run.EndedAt.IsZero() {
		return now
	}
	return c.Run.EndedAt
}

// factKey is the unique key of a fact.
type factKey struct {
	run    int64
	env    promotion.EnvName
	target string
	event  promotion.Event
}

func factOf(f promotion.Fact) factKey { return factKey{f.Run, f.Env, TargetText(f.Target), f.Event} }

// addFacts appends the facts of a change.
func (t *txn) addFacts(h *Head, c Change) error { return t.append(h, facts(c.Facts)) }

// facts returns the entries of facts.
func facts(some []promotion.Fact) []Entry {
	entries := make([]Entry, len(some))
	for i, f := range some {
		entries[i] = Entry{Fact: f, Class: Fact}
	}
	return entries
}

// append appends entries but for facts that the log has.
func (t *txn) append(h *Head, entries []Entry) error {
	if len(entries) == 0 {
		return nil
	}
	var runs []int64
	for _, e := range entries {
		if e.Class == Fact && !slices.Contains(runs, e.Run) {
			runs = append(runs, e.Run)
		}
	}
	known := map[factKey]bool{}
	if runs != nil {
		stored, err := t.PromotionEntries(EntryQuery{Head: h.ID, Runs: runs, FactsOnly: true})
		if err != nil {
			return err
		}
		for _, e := range stored {
			known[factOf(e.Fact)] = true
		}
	}
	fresh := make([]Entry, 0, len(entries))
	for _, e := range entries {
		if e.Class == Fact {
			if known[factOf(e.Fact)] {
				continue
			}
			known[factOf(e.Fact)] = true
		}
		if e.At.IsZero() {
			e.At = t.Now()
		}
		e.Seq, e.Detail, e.By = t.next(h), clean(e.Detail), clean(e.By)
		fresh = append(fresh, e)
	}
	if len(fresh) == 0 {
		return nil
	}
	return t.InsertPromotionEntries(h.ID, fresh)
}

// addPhases stores the phases that differ from the stored ones.
func (t *txn) addPhases(h *Head, c Change) error {
	if len(c.Phases) == 0 {
		return nil
	}
	var runs []int64
	for _, p := range c.Phases {
		if !slices.Contains(runs, p.Run) {
			runs = append(runs, p.Run)
		}
	}
	stored, err := t.Phases(h.ID, runs)
	if err != nil {
		return err
	}
	fresh := slices.DeleteFunc(slices.Clone(c.Phases), func(p Phase) bool {
		return slices.ContainsFunc(stored, func(s Phase) bool {
			return s.Run == p.Run && s.Env == p.Env && s.Phase == p.Phase && s.Since.Equal(p.Since)
		})
	})
	if len(fresh) == 0 {
		return nil
	}
	t.next(h)
	return t.PutPhases(h.ID, fresh)
}

// addStarts records attempts and completes their actions.
func (t *txn) addStarts(h *Head, c Change) error {
	if len(c.Start) == 0 {
		return nil
	}
	var numbers []int64
	for _, s := range c.Start {
		numbers = append(numbers, s.Work.Run)
	}
	runs, err := t.PromotionRuns(RunQuery{Head: h.ID, Numbers: numbers})
	if err != nil {
		return err
	}
	attempts := make([]Attempt, len(c.Start))
	for i, s := range c.Start {
		at := slices.IndexFunc(runs, func(r Run) bool { return r.Number == s.Work.Run })
		if at < 0 {
			return fault.New(fault.Internal, "an attempt of %s#%d was decided, and the run not found", h.Name, s.Work.Run)
		}
		s.Work.RunID, s.Work.UID = runs[at].ID.String(), h.UID
		a, err := t.complete(s, h)
		if err != nil {
			return err
		}
		t.start = append(t.start, a)
		attempts[i] = Attempt{AttemptKey: s.Key(), UniqueKey: a.UniqueKey, Attempt: promotion.Attempt{ActionID: a.ID.String(),
			Status: promotion.AttemptLive, At: t.Now(), Inputs: s.Work.Inputs, Base: s.Base, Head: s.Head}}
	}
	t.next(h)
	return t.PutAttempts(h.ID, attempts)
}

// addNotices adds the actions that no attempt is.
func (t *txn) addNotices(_ *Head, c Change) error {
	for _, a := range c.Notices {
		if len(a.Parameters) > mostWork || a.Kind == promotion.ActionKind {
			return fault.New(fault.Invalid, "a notice of %s has the kind %q and %d bytes of parameters: want at most %d",
				c.Pipeline, a.Kind,
				len(a.Parameters), mostWork)
		}
		if a.ID.IsZero() {
			a.ID = action.RandomID(t.Now())
		}
		t.start = append(t.start, a)
	}
	return nil
}

// complete returns the action of an attempt.
func (t *txn) complete(s Start, h *Head) (action.Action, error) {
	a := s.Action
	raw, err := json.Marshal(s.Work)
	if err != nil {
		return a, err
	}
	if len(raw) > mostWork {
		return a, fault.New(fault.Invalid, "the parameters of %s in %s of %s have %d bytes: want at most %d", s.Work.Op, s.Work.Env, h.Name,
			len(raw), mostWork)
	}
	a.Kind, a.Parameters, a.UniqueKey = promotion.ActionKind, raw, s.uniqueKey()
	if a.ID.IsZero() {
		a.ID = action.RandomID(t.Now())
	}
	if a.Name == "" {
		a.Name = fmt.Sprintf("%s %s %s in %s", s.Work.Op, h.Name, s.Work.Revision, s.Work.Env)
	}
	return a, nil
}

// uniqueKey returns the unique key of the attempt's action: run, environment and event. A proposal that is made again on
// another base or head is another action.
func (s Start) uniqueKey() string {
	parts := []string{s.Work.RunID, string(s.Work.Env), string(EventOf(s.Key()))}
	if s.Work.Op == promotion.OpPropose && s.Base+s.Head != "" {
		parts = append(parts, s.Base, s.Head)
	}
	raw, _ := json.Marshal(parts) // strings always marshal
	return string(raw)
}

// addCancels collects the live attempts that are to be canceled and for which that was not requested yet.
func (t *txn) addCancels(h *Head, c Change) error {
	if len(c.Cancel) == 0 {
		return nil
	}
	var runs []int64
	for _, k := range c.Cancel {
		runs = append(runs, k.Run)
	}
	stored, err := t.Attempts(h.ID, runs)
	if err != nil {
		return err
	}
	return t.stop(h, slices.DeleteFunc(stored, func(a Attempt) bool { return !slices.Contains(c.Cancel, a.AttemptKey) }))
}

// stop has the live ones of attempts canceled.
func (t *txn) stop(h *Head, attempts []Attempt) error {
	var asked []Attempt
	for _, a := range attempts {
		if a.Status == promotion.AttemptLive && a.CancelAt.IsZero() {
			a.CancelAt = t.Now()
			asked, t.cancel = append(asked, a), append(t.cancel, a.UniqueKey)
		}
	}
	if len(asked) == 0 {
		return nil
	}
	t.next(h)
	return t.PutAttempts(h.ID, asked)
}
