package promotions

import (
	"context"
	"slices"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/admission"
	"github.com/waybill-dev/waybill/internal/promotion"
)

// Bounds of a State.
const (
	newestRuns      = 20   // runs through all environments, and runs of one environment by their causes
	newestSightings = 500  // a revision whose last sighting is older counts as never seen
	newestIntents   = 2000 // intents that count in more than one run, such as holds
)

// Load reads the state of a pipeline from the log. With a uid that the log does not have, or whose pipeline is gone, the state has no
// rows of the pipeline that has the name now; with an empty uid it is that pipeline's.
func (p *Promotions) Load(ctx context.Context, name, uid string) (s State, err error) {
	err = p.read(ctx, "read the promotions of "+name, func(t *txn) (err error) {
		s, err = t.load(name, uid)
		return err
	})
	return s, err
}

// Reload reads the state of a pipeline anew, as Load does. If nothing has changed since known was read, it returns that with the present
// time, and reads the head alone. States that have the same Head share their parts, so these must not be changed.
func (p *Promotions) Reload(ctx context.Context, known State) (s State, err error) {
	err = p.read(ctx, "read the promotions of "+known.Name, func(t *txn) error {
		heads, err := t.PromotionHeads(HeadQuery{Name: known.Name, UID: known.UID, Closed: true})
		if err != nil {
			return err
		}
		if len(heads) == 1 && heads[0].Seq == known.Head && heads[0].ClosedAt.IsZero() { // a freeze does not move a closed one
			s, s.Now = known, t.Now()
			return nil
		}
		s, err = t.load(known.Name, known.UID)
		return err
	})
	return s, err
}

func (t *txn) load(name, uid string) (State, error) {
	s := State{Name: name, UID: uid, Now: t.Now(), RunIDs: map[int64]action.ID{}}
	heads, err := t.PromotionHeads(HeadQuery{Name: name, Closed: true})
	if err != nil {
		return s, err
	}
	var h *Head
	for i := range heads {
		s.LastRun = max(s.LastRun, heads[i].Newest)
		if heads[i].UID == uid || uid == "" && heads[i].ClosedAt.IsZero() {
			h = &heads[i]
		}
	}
	if s.Frozen, err = t.frozen(name); err != nil || h == nil {
		return s, err
	}
	s.UID, s.Head = h.UID, h.Seq
	numbers, err := t.loadRuns(h, &s)
	if err != nil {
		return s, err
	}
	if s.Sightings, err = t.Sightings(h.ID, newestSightings); err != nil {
		return s, err
	}
	if s.Proposals, err = t.Rows.Proposals(h.ID); err != nil {
		return s, err
	}
	if s.Intents, err = t.Intents(h.ID, numbers, newestIntents); err != nil {
		return s, err
	}
	attempts, err := t.Rows.Attempts(h.ID, numbers)
	s.Attempts = make(map[promotion.AttemptKey]promotion.Attempt, len(attempts))
	for _, a := range attempts {
		s.Attempts[a.AttemptKey] = a.Attempt
	}
	return s, err
}

// loadRuns reads the runs that decisions need, with their facts and phases, and returns their numbers.
func (t *txn) loadRuns(h *Head, s *State) ([]int64, error) {
	all, err := t.neededRuns(h, s)
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return []int64{}, nil
	}
	slices.SortFunc(all, func(a, b Run) int { return int(a.Number - b.Number) })
	numbers := make([]int64, len(all))
	for i, r := range all {
		numbers[i] = r.Number
	}
	s.Runs, err = t.withFacts(h.ID, all)
	return numbers, err
}

// mostRepeats bounds the steps from a run over the runs that it repeats.
const mostRepeats = 5

// neededRuns reads the runs that decisions need, and those that these repeat.
func (t *txn) neededRuns(h *Head, s *State) (all []Run, err error) {
	wanted, err := t.NeededRuns(h.ID, newestRuns)
	for step := 0; err == nil && len(wanted) > 0 && step <= mostRepeats; step++ {
		var found []Run
		if found, err = t.PromotionRuns(RunQuery{Head: h.ID, Numbers: wanted}); err != nil {
			return nil, err
		}
		for _, r := range found {
			all, s.RunIDs[r.Number] = append(all, r), r.ID
		}
		wanted = nil
		for _, r := range found {
			if _, known := s.RunIDs[r.Repeats]; r.Repeats != 0 && !known && !slices.Contains(wanted, r.Repeats) {
				wanted = append(wanted, r.Repeats)
			}
		}
	}
	return all, err
}

// frozen returns the freeze in force, of a pipeline or of all, that ends last; nil: there is none.
func (t *txn) frozen(name string) (*admission.Freeze, error) {
	found, err := t.Freezes([]string{name, ""})
	return lastToEnd(found, t.Now()), err
}

func lastToEnd(freezes map[string]admission.Freeze, now time.Time) (last *admission.Freeze) {
	for _, f := range freezes {
		switch {
		case !f.InForce(now):
		case last == nil, f.Until.IsZero(), !last.Until.IsZero() && f.Until.After(last.Until):
			last = &f
		}
	}
	return last
}

// Heads reads the sequences of all pipelines that exist, by name. A reader of states compares them with State.Head.
func (p *Promotions) Heads(ctx context.Context) (heads map[string]int64, err error) {
	err = p.read(ctx, "read the heads of promotions", func(t *txn) error {
		found, err := t.PromotionHeads(HeadQuery{})
		heads = make(map[string]int64, len(found))
		for _, h := range found {
			heads[h.Name] = h.Seq
		}
		return err
	})
	return heads, err
}
