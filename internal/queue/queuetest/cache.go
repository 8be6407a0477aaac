package queuetest

import (
	"crypto/sha256"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/queue"
	"github.com/waybill-dev/waybill/internal/store/storetest"
)

// payload is a job of a process whose payload's key is made of a text.
func payload(text string, version int) action.Action {
	a := job("mirror")
	sum := sha256.Sum256([]byte(text))
	a.Version, a.CacheKey = version, action.ID(sum[:16])
	return a
}

// ask enqueues a job and returns which one answers, and whether it is new.
func (s setup) ask(t *testing.T, a action.Action) queue.Enqueued {
	t.Helper()
	made, err := s.Enqueue(s.ctx, a)
	storetest.Check(t, err)
	return made[0]
}

func goodAnswersAreCached(t *testing.T, s setup) {
	host := s.join(t, "host-a")
	for _, c := range []struct {
		name    string
		outcome action.OutcomeKind // none: it lives
		version int                // version in the second request; the first has 2
		cached  bool
	}{
		{"live", 0, 2, true},
		{"live, later version", 0, 3, true},
		{"successful", action.Done, 2, true},
		{"successful, earlier version", action.Done, 1, true},
		{"successful, later version", action.Done, 3, false},
		{"invalid", action.BadInput, 2, true},
		{"failed", action.Fatal, 2, false},
	} {
		first := s.ask(t, payload(c.name, 2))
		if !first.Created {
			t.Fatalf("%s: the first is not new", c.name)
		}
		if c.outcome != 0 {
			s.end(t, host, s.claimOne(t, host, first.ID), action.Outcome{Kind: c.outcome})
		}
		second := s.ask(t, payload(c.name, c.version))
		if second.Created == c.cached || (second.ID == first.ID) != c.cached {
			t.Errorf("%s: got %+v after %s, cached: want %v", c.name, second, first.ID, c.cached)
		}
		if third := s.ask(t, payload(c.name, c.version)); third.Created || third.ID != second.ID {
			t.Errorf("%s: a third request got %+v, want %s", c.name, third, second.ID)
		}
	}
}

// claimOne takes a job, and gives back all others.
func (s setup) claimOne(t *testing.T, i queue.Instance, id action.ID) queue.Claimed {
	t.Helper()
	turned, err := s.CompleteAndClaim(s.ctx, i, nil, []queue.Want{{Lane: "noop", N: 100}})
	storetest.Check(t, err)
	var found queue.Claimed
	for _, c := range turned.Claimed {
		if c.ID == id {
			found = c
		} else {
			s.end(t, i, c, action.Outcome{Kind: action.GivenBack})
		}
	}
	if found.ID.IsZero() {
		t.Fatalf("%s is not ready", id)
	}
	return found
}

func entriesExpireOnDemand(t *testing.T, s setup) {
	host := s.join(t, "host-a")
	first := s.ask(t, payload("a", 1))
	key := payload("a", 1).CacheKey
	entry, err := s.ExpireCache(s.ctx, key, time.Time{})
	storetest.Check(t, err)
	if entry.ActionID != first.ID || entry.Name != "mirror" || entry.Version != 1 || entry.InvalidAfter.IsZero() {
		t.Errorf("%+v", entry)
	}
	if again := s.ask(t, payload("a", 1)); again.Created {
		t.Error("a live job is an answer whatever the time")
	}
	s.end(t, host, s.claimOne(t, host, first.ID), done())
	second := s.ask(t, payload("a", 1))
	if !second.Created {
		t.Error("an expired answer was given")
	}
	entry, err = s.CacheEntry(s.ctx, key)
	storetest.Check(t, err)
	if entry.ActionID != second.ID || !entry.InvalidAfter.IsZero() {
		t.Errorf("the new job's entry is %+v", entry)
	}
	s.end(t, host, s.claimOne(t, host, second.ID), done())
	_, err = s.ExpireCache(s.ctx, key, time.Now().Add(time.Hour))
	storetest.Check(t, err)
	if again := s.ask(t, payload("a", 1)); again.Created {
		t.Error("an answer that is good for another hour was not given")
	}
	_, err = s.ExpireCache(s.ctx, payload("never asked", 1).CacheKey, time.Time{})
	storetest.WantCode(t, err, fault.NotFound)
}

func retriesAnswerFromThenOn(t *testing.T, s setup) {
	host := s.join(t, "host-a")
	first := s.ask(t, payload("a", 1))
	s.end(t, host, s.claimOne(t, host, first.ID), done())
	again := payload("a", 1)
	again.RetryOf = first.ID
	retry := s.ask(t, again)
	if !retry.Created || s.ask(t, payload("a", 1)).ID != retry.ID {
		t.Errorf("the retry %+v of %s is not the answer", retry, first.ID)
	}
	made, err := s.Enqueue(s.ctx, payload("b", 1), payload("b", 1), payload("c", 1))
	storetest.Check(t, err)
	if !made[0].Created || made[1].Created || made[0].ID != made[1].ID || !made[2].Created {
		t.Errorf("equal payloads of one transaction: %+v", made)
	}
}

func dismissedJobsKeepTheirEnd(t *testing.T, s setup) {
	host := s.join(t, "host-a")
	first := s.ask(t, payload("a", 1))
	storetest.WantCode(t, s.Dismiss(s.ctx, first.ID, "ana"), fault.NotReady)
	s.end(t, host, s.claimOne(t, host, first.ID), done())
	storetest.Check(t, s.Dismiss(s.ctx, first.ID, "ana"))
	state, err := s.Action(s.ctx, first.ID)
	storetest.Check(t, err)
	if state.Thread.Status != action.Successful || state.Dismissed.IsZero() {
		t.Errorf("%s, dismissed at %s", state.Thread.Status, state.Dismissed)
	}
	storetest.Check(t, s.Dismiss(s.ctx, first.ID, "bob"))
	if again, err := s.Action(s.ctx, first.ID); err != nil || !again.Dismissed.Equal(state.Dismissed) {
		t.Errorf("dismissed again at %s, %v", again.Dismissed, err)
	}
	if !s.ask(t, payload("a", 1)).Created {
		t.Error("a dismissed job is no answer")
	}
	storetest.WantCode(t, s.Dismiss(s.ctx, host.ID, "ana"), fault.NoSuchAction)
}

func entriesAreListedByKey(t *testing.T, s setup) {
	for _, text := range []string{"a", "b", "c"} {
		s.ask(t, payload(text, 1))
	}
	other := payload("d", 1)
	other.Name = "reproject"
	s.ask(t, other)
	all, err := s.CacheEntries(s.ctx, queue.CacheQuery{})
	storetest.Check(t, err)
	mirrors, err := s.CacheEntries(s.ctx, queue.CacheQuery{Name: "mirror", Limit: 2})
	storetest.Check(t, err)
	rest, err := s.CacheEntries(s.ctx, queue.CacheQuery{Name: "mirror", After: mirrors[1].Key})
	storetest.Check(t, err)
	if len(all) != 4 || len(mirrors) != 2 || len(rest) != 1 || mirrors[1].Key == rest[0].Key {
		t.Errorf("%d in all, %d and %d of mirror", len(all), len(mirrors), len(rest))
	}
}

func equalPayloadsRaceForOneJob(t *testing.T, s setup) {
	const askers, rounds = 8, 10
	ledgers := make([]*alone, askers)
	for i := range ledgers {
		ledgers[i], _ = s.another(t, queue.Options{})
	}
	for round := range rounds {
		made := make([]queue.Enqueued, askers)
		var all sync.WaitGroup
		for i, l := range ledgers {
			all.Go(func() {
				// Two keys in both orders, so that a lock taken out of order would show.
				one, two := payload(fmt.Sprint("one", round), 1), payload(fmt.Sprint("two", round), 1)
				if i%2 == 1 {
					one, two = two, one
				}
				got, err := l.Enqueue(s.ctx, one, two)
				if err != nil {
					t.Errorf("asker %d: %v", i, err)
					return
				}
				made[i] = got[i%2]
			})
		}
		all.Wait()
		created := 0
		for _, m := range made {
			if m.Created {
				created++
			}
			if m.ID != made[0].ID {
				t.Errorf("round %d: answered by %s and %s", round, made[0].ID, m.ID)
			}
		}
		if created != 1 {
			t.Errorf("round %d: %d jobs were made", round, created)
		}
	}
}

// once is a request with an idempotency key.
func once(principal, key, body string) *queue.Idempotency {
	return &queue.Idempotency{Principal: principal, Key: key, Body: sha256.Sum256([]byte(body))}
}

func repeatedRequestsMakeOneAction(t *testing.T, s setup) {
	first, err := s.enqueueWith(s.ctx, job("a"), queue.EnqueueOptions{Idempotency: once("ana", "k", "x")})
	storetest.Check(t, err)
	again, err := s.enqueueWith(s.ctx, job("a"), queue.EnqueueOptions{Idempotency: once("ana", "k", "x")})
	storetest.Check(t, err)
	if diff := cmp.Diff(first, again, cmpopts.EquateEmpty()); diff != "" || !first.Created {
		t.Errorf("the repeat (-first +repeat):\n%s", diff)
	}
	_, err = s.enqueueWith(s.ctx, job("a"), queue.EnqueueOptions{Idempotency: once("ana", "k", "y")})
	storetest.WantCode(t, err, fault.IdempotencyKeyReused)
	other, err := s.enqueueWith(s.ctx, job("a"), queue.EnqueueOptions{Idempotency: once("bob", "k", "y")})
	storetest.Check(t, err)
	if !other.Created || other.ID == first.ID {
		t.Errorf("another one's key: %+v", other)
	}
	// A request that found a job is answered so again, even after that job's payload has got another.
	s.ask(t, payload("p", 1))
	found, err := s.enqueueWith(s.ctx, payload("p", 1), queue.EnqueueOptions{Idempotency: once("ana", "l", "x")})
	storetest.Check(t, err)
	retry := payload("p", 1)
	retry.RetryOf = found.ID
	s.ask(t, retry)
	again, err = s.enqueueWith(s.ctx, payload("p", 1), queue.EnqueueOptions{Idempotency: once("ana", "l", "x")})
	storetest.Check(t, err)
	if found.Created || again != found {
		t.Errorf("found %+v, then %+v", found, again)
	}
	if entries, err := s.CacheEntries(s.ctx, queue.CacheQuery{}); err != nil || len(entries) != 1 {
		t.Errorf("the payload cache lists %+v, %v", entries, err)
	}
}

// ageCache makes what the cache has older than an idempotency key may get.
func (s setup) ageCache(t *testing.T) {
	t.Helper()
	age := "interval '24 hours 1 second'"
	if s.driver.Name() == "sqlite" {
		age = fmt.Sprint((queue.IdempotencyAge + time.Second).Microseconds())
	}
	storetest.Check(t, s.database.Exec("UPDATE cache_entry SET created_at = created_at - "+age))
}

func idempotencyKeysStandForADay(t *testing.T, s setup) {
	first, err := s.enqueueWith(s.ctx, job("a"), queue.EnqueueOptions{Idempotency: once("ana", "k", "x")})
	storetest.Check(t, err)
	s.ageCache(t)
	second, err := s.enqueueWith(s.ctx, job("a"), queue.EnqueueOptions{Idempotency: once("ana", "k", "y")})
	storetest.Check(t, err)
	if !second.Created || second.ID == first.ID {
		t.Errorf("a day later: %+v", second)
	}
}

// oldIdempotencyKeysAreDeleted although every action is kept.
func oldIdempotencyKeysAreDeleted(t *testing.T, s setup) {
	for i := range 3 {
		_, err := s.enqueueWith(s.ctx, job("a"), queue.EnqueueOptions{Idempotency: once("ana", fmt.Sprint("old ", i), "x")})
		storetest.Check(t, err)
	}
	s.ageCache(t)
	_, err := s.enqueueWith(s.ctx, job("a"), queue.EnqueueOptions{Idempotency: once("ana", "new", "x")})
	storetest.Check(t, err)
	s.ask(t, payload("p", 1))
	storetest.Check(t, s.Retain(s.ctx, 0, &weeks{}))
	count := 0
	storetest.Check(t, s.write(func(tx rows) error {
		for deleted := 1; deleted > 0; {
			deleted, err = tx.ForgetRequests(tx.Now().Add(time.Hour), 1)
			count += deleted
		}
		return err
	}))
	if count != 1 {
		t.Errorf("%d keys were left, want the new one", count)
	}
	if entries, err := s.CacheEntries(s.ctx, queue.CacheQuery{}); err != nil || len(entries) != 1 {
		t.Errorf("the payload cache lists %+v, %v", entries, err)
	}
}

func repeatsRaceForOneAction(t *testing.T, s setup) {
	const askers = 8
	made := make([]queue.Enqueued, askers)
	var all sync.WaitGroup
	for i := range made {
		l, _ := s.another(t, queue.Options{})
		all.Go(func() {
			var err error
			if made[i], err = l.enqueueWith(s.ctx, job("a"), queue.EnqueueOptions{Idempotency: once("ana", "k", "x")}); err != nil {
				t.Errorf("asker %d: %v", i, err)
			}
		})
	}
	all.Wait()
	for _, m := range made {
		if m != made[0] {
			t.Errorf("got %+v and %+v", made[0], m)
		}
	}
	if states, err := s.Actions(s.ctx, queue.ActionQuery{}); err != nil || len(states) != 1 {
		t.Errorf("%d actions, %v", len(states), err)
	}
}

// inEveryPhase makes a job of each phase and returns what each should be in.
func (s setup) inEveryPhase(t *testing.T) map[action.ID]queue.Phase {
	t.Helper()
	host := s.join(t, "host-a")
	want := map[action.ID]queue.Phase{}
	end := func(phase queue.Phase, o action.Outcome) action.ID {
		id := s.enqueue(t, job("b"))
		s.end(t, host, s.claim(t, host, "noop", 1)[0], o)
		want[id] = phase
		return id
	}
	end(queue.Successful, done())
	end(queue.Failed, action.Outcome{Kind: action.Fatal, Error: "no"})
	end(queue.Failed, action.Outcome{Kind: action.BadInput, Error: "no"})
	end(queue.Running, action.Outcome{Kind: action.Retry, Error: "later"})
	gone := end(queue.Dismissed, done())
	storetest.Check(t, s.Dismiss(s.ctx, gone, "ana"))
	canceled := s.enqueue(t, job("a"))
	storetest.Check(t, s.Cancel(s.ctx, canceled, queue.CancelNow))
	want[canceled] = queue.Dismissed
	handed := job("a")
	handed.Lane, handed.Handler = "flow", "flow"
	throttled := s.enqueue(t, handed)
	turned, err := s.CompleteAndClaim(s.ctx, host, nil, []queue.Want{{Lane: "flow", N: 1, HandOff: true}})
	storetest.Check(t, err)
	s.end(t, host, turned.Claimed[0], action.Outcome{Kind: action.Throttle, Error: "over quota"})
	want[throttled] = queue.Accepted
	running := s.enqueue(t, job("a"))
	s.claim(t, host, "noop", 1)
	want[running] = queue.Running
	want[s.enqueue(t, job("a"))] = queue.Accepted
	return want
}

func jobsAreSelectedByPhase(t *testing.T, s setup) {
	want := s.inEveryPhase(t)
	all, err := s.Actions(s.ctx, queue.ActionQuery{Kind: "job"})
	storetest.Check(t, err)
	for _, state := range all {
		if got := state.Phase(); got != want[state.ID] {
			t.Errorf("%s is %s, want %s", state.Thread.Status, got, want[state.ID])
		}
		if state.UpdatedAt.IsZero() || state.UpdatedAt.Before(state.FinishedAt) {
			t.Errorf("%s was updated at %s", state.Thread.Status, state.UpdatedAt)
		}
	}
	for _, phase := range queue.Phases() {
		found, err := s.Actions(s.ctx, queue.ActionQuery{Kind: "job", Phases: []queue.Phase{phase}})
		storetest.Check(t, err)
		count := 0
		for _, p := range want {
			if p == phase {
				count++
			}
		}
		if len(found) != count {
			t.Errorf("%s: found %d of %d", phase, len(found), count)
		}
		for _, state := range found {
			if want[state.ID] != phase {
				t.Errorf("%s was found as %s", state.Thread.Status, phase)
			}
		}
	}
	some, err := s.Actions(s.ctx, queue.ActionQuery{Names: []string{"a", "c"}, Phases: []queue.Phase{queue.Accepted, queue.Dismissed}})
	storetest.Check(t, err)
	if len(some) != 3 {
		t.Errorf("%d of two names and two phases, want 3", len(some))
	}
	started, err := s.Actions(s.ctx, queue.ActionQuery{Longest: time.Hour})
	storetest.Check(t, err)
	if len(started) != 6 {
		t.Errorf("%d were at work for at most an hour, want 6", len(started))
	}
	if long, err := s.Actions(s.ctx, queue.ActionQuery{Shortest: time.Hour}); err != nil || len(long) > 0 {
		t.Errorf("%d were at work for an hour, %v", len(long), err)
	}
}
