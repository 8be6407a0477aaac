package queue

import (
	"bytes"
	"context"
	"crypto/sha256"
	"slices"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/store"
)

// CacheScope is the meaning of a key of the cache.
type CacheScope string

// The scopes.
const (
	PayloadScope     CacheScope = "payload"     // a process's payload: equal ones are one job while it is a good answer
	IdempotencyScope CacheScope = "idempotency" // one request of one principal, for IdempotencyAge
)

// IdempotencyAge is the time for which a repeat with an Idempotency-Key gets the answer of the first request.
const IdempotencyAge = 24 * time.Hour

// CacheEntry names the action that answers for a key.
type CacheEntry struct {
	Key          action.ID  `json:"key"`
	Scope        CacheScope `json:"-"`
	Name         string     `json:"process"` // its id; of an idempotency key: the principal that sent it
	Version      int        `json:"version"` // version of the process; of an idempotency key: 1 when its request made the action, else 0
	Body         []byte     `json:"-"`       // hash of an idempotent request's body; nil of a payload
	ActionID     action.ID  `json:"jobId"`
	InvalidAfter time.Time  `json:"invalidAfter,omitzero"` // the end of the time in which an ended job answers; zero: it answers forever
	CreatedAt    time.Time  `json:"createdAt"`             // since when it is this action
}

// CacheQuery selects payloads' entries in the order of their keys.
type CacheQuery struct {
	Name  string    // name of a process; "": all
	After action.ID // keyset: only greater keys
	Limit int       // 0: all
}

// Idempotency identifies one request: a repeat gets what the first one made.
type Idempotency struct {
	Principal string            // sender of the request
	Key       string            // its Idempotency-Key, as sent
	Body      [sha256.Size]byte // digest of everything that makes the request unique
}

// entryKey returns the key of the row. Two principals may use the same key. A zero byte, which no stored text contains, separates
// the two, so that different pairs have different hashes.
func (i Idempotency) entryKey() action.ID {
	h := sha256.New()
	h.Write([]byte(i.Principal))
	h.Write([]byte{0})
	h.Write([]byte(i.Key))
	return action.ID(h.Sum(nil)[:16])
}

// answers looks up which action answers for each job that has a key: an earlier one, or the job itself. A job that is a
// retry is always its own answer, so that its key points to it from now on. The result is by cache key.
//
// The entries are locked until the transaction ends, in the order of keys, but retries apart from the rest. Two
// transactions that store both kinds may therefore meet in a deadlock, and the database runs one again. Of a key that
// both kinds request, the retry answers, whichever is looked up first.
func (t *txn) answers(jobs []action.Action) (map[action.ID]action.ID, error) {
	type entry struct {
		key   action.ID
		retry bool
	}
	asked, seen := map[bool][]CacheEntry{}, make(map[entry]bool, len(jobs))
	for _, a := range jobs {
		retry := !a.RetryOf.IsZero()
		if e := (entry{a.CacheKey, retry}); !seen[e] {
			seen[e] = true
			asked[retry] = append(asked[retry], CacheEntry{Key: a.CacheKey, Scope: PayloadScope, Name: a.Name,
				Version: a.Version, ActionID: a.ID, CreatedAt: t.Now()})
		}
	}
	by := map[action.ID]action.ID{}
	for _, retry := range []bool{false, true} {
		if len(asked[retry]) == 0 {
			continue
		}
		found, err := t.recall(asked[retry], retry)
		if err != nil {
			return nil, err
		}
		for key, e := range found {
			if _, ok := by[key]; !ok || retry {
				by[key] = e.ActionID
			}
		}
	}
	return by, nil
}

// recall points keys to the entries' actions where nothing answers for them any more, or always, and returns what
// each key has then. It sorts entries in place. Looking and pointing are one statement of the driver: of two requests at a
// time one points the key to its action, and the other waits and then gets that action as its answer.
func (t *txn) recall(entries []CacheEntry, always bool) (map[action.ID]CacheEntry, error) {
	slices.SortFunc(entries, func(a, b CacheEntry) int { return bytes.Compare(a.Key[:], b.Key[:]) })
	pointed, err := t.PointCache(entries, always)
	if err != nil {
		return nil, err
	}
	changed := make(map[action.ID]bool, len(pointed))
	for _, key := range pointed {
		changed[key] = true
	}
	found := make(map[action.ID]CacheEntry, len(entries))
	var others []action.ID
	for _, e := range entries {
		if changed[e.Key] {
			found[e.Key] = e
		} else {
			others = append(others, e.Key)
		}
	}
	if len(others) == 0 {
		return found, nil
	}
	known, err := t.CacheEntries(others, CacheQuery{})
	for _, e := range known {
		found[e.Key] = e
	}
	return found, err
}

// recallRequest returns the answer that a request got before. When the request is new, it points the request's key to id, which
// the caller stores in the same transaction. The same key with another body is fault.IdempotencyKeyReused.
func (t *txn) recallRequest(i Idempotency, id action.ID) (first Enqueued, repeated bool, err error) {
	entry := t.requestEntry(i, id)
	found, err := t.recall([]CacheEntry{entry}, false)
	if err != nil {
		return first, false, err
	}
	known := found[entry.Key]
	if known.ActionID == id {
		return first, false, nil
	}
	if !bytes.Equal(known.Body, entry.Body) {
		return first, false, fault.New(fault.IdempotencyKeyReused, "the Idempotency-Key %q was sent with another request %s ago", i.Key,
			t.Now().Sub(known.CreatedAt).Round(time.Second)).WithHint("send a new key with a new request")
	}
	return Enqueued{ID: known.ActionID, Created: known.Version == 1}, true, nil
}

// answerRequest points a request's key to an action that existed before, instead of the one that recallRequest has
// pointed it to. Its repeats are answered with Created false, as the request itself.
func (t *txn) answerRequest(i Idempotency, id action.ID) error {
	entry := t.requestEntry(i, id)
	entry.Version = 0
	_, err := t.PointCache([]CacheEntry{entry}, true)
	return err
}

// requestEntry returns the entry of a request that makes the action.
func (t *txn) requestEntry(i Idempotency, id action.ID) CacheEntry {
	return CacheEntry{Key: i.entryKey(), Scope: IdempotencyScope, Name: i.Principal, Version: 1, Body: i.Body[:],
		ActionID: id, CreatedAt: t.Now()}
}

// CacheEntries lists payloads' entries by query.
func (q *Queue) CacheEntries(ctx context.Context, query CacheQuery) (entries []CacheEntry, err error) {
	err = q.list(ctx, "read the payload cache", func(tx rows) error {
		entries, err = tx.CacheEntries(nil, query)
		return err
	})
	return entries, err
}

// CacheEntry reads a payload's entry; fault.NotFound when there is none.
func (q *Queue) CacheEntry(ctx context.Context, key action.ID) (entry CacheEntry, err error) {
	err = q.read(ctx, "read the payload cache", func(tx rows) error {
		entry, err = oneEntry(tx, key)
		return err
	})
	return entry, err
}

// oneEntry reads a payload's entry. Idempotency keys have entries in the same table, which do not count.
func oneEntry(tx rows, key action.ID) (CacheEntry, error) {
	found, err := tx.CacheEntries([]action.ID{key}, CacheQuery{})
	if err != nil {
		return CacheEntry{}, err
	}
	if len(found) == 0 || found[0].Scope != PayloadScope {
		return CacheEntry{}, fault.New(fault.NotFound, "the payload cache has no entry %s", key)
	}
	return found[0], nil
}

// ExpireCache has an entry's job, once it has ended, answer for nothing from a moment on; a zero time: now. A job that lives
// answers until its end whatever the time, as two equal jobs at a time would do the same work. fault.NotFound: the key has no
// entry.
func (q *Queue) ExpireCache(ctx context.Context, key action.ID, at time.Time) (entry CacheEntry, err error) {
	err = q.write(ctx, "expire a payload", func(t *txn) error {
		if at.IsZero() {
			at = t.Now()
		}
		if _, err := oneEntry(t.rows, key); err != nil {
			return err
		}
		if err := t.SetInvalidAfter(CacheEntry{Key: key, InvalidAfter: at}); err != nil {
			return err
		}
		entry, err = oneEntry(t.rows, key)
		return err
	})
	return entry, err
}

// Dismiss records that a client deleted an ended job. The action keeps its end; equal payloads get a new job from now
// on. The second time changes nothing. fault.NotReady while the action lives, fault.NoSuchAction when there was none.
func (q *Queue) Dismiss(ctx context.Context, id action.ID, by string) error {
	return q.write(ctx, "dismiss job "+id.String(), func(t *txn) error {
		state, err := actionState(t.rows, id)
		if err != nil {
			return err
		}
		if state.Thread.Status.Live() {
			return fault.New(fault.NotReady, "job %s has not ended: %s", id, state.Thread.Status)
		}
		if err := t.SetInvalidAfter(CacheEntry{Key: state.CacheKey, ActionID: id, InvalidAfter: t.Now()}); err != nil {
			return err
		}
		t.Touch(store.TopicAction)
		return t.InsertDismissal(id, by)
	})
}
