package queue

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/store"
)

// EventAge is the time for which a redelivered CloudEvent gets the answer of its first delivery.
const EventAge = 7 * 24 * time.Hour

// EventID identifies a CloudEvent at a trigger. Two events are the same when all three are equal, byte by byte.
type EventID struct {
	Trigger string // its name
	Source  string // the event's source
	ID      string // the event's id
}

// Event is a CloudEvent with the action that its trigger requests.
type Event struct {
	EventID
	Action Successor // Link is not used
}

// InboxRow names the action that answers for a received event.
type InboxRow struct {
	Key      action.ID // hash of its EventID
	ActionID action.ID
}

// key returns the key of the event's row. No name of a trigger and no source has a zero byte, so different events have different
// texts.
func (e EventID) key() action.ID {
	h := sha256.New()
	for _, part := range []string{e.Trigger, e.Source} {
		h.Write([]byte(part))
		h.Write([]byte{0})
	}
	h.Write([]byte(e.ID))
	return action.ID(h.Sum(nil)[:16])
}

// eventPrefix begins the unique keys of the actions of a trigger, by which they are counted.
func eventPrefix(trigger string) string { return "event/" + trigger + "/" }

// Receive stores the actions of events in one transaction, all or none, and returns the outcome of each, in their order. An
// event that was received before, in the last EventAge, is answered with its first action, also when that was an earlier job
// of the payload cache. An action that cannot be stored is stored as FAILED, as a successor is. Callers with a few events share
// a transaction. When ctx ends first the events may be stored all the same.
func (q *Queue) Receive(ctx context.Context, events ...Event) ([]Enqueued, error) {
	if len(events) == 0 {
		return nil, nil
	}
	return q.gather(ctx, part{events: events})
}

// Received returns the actions of those events that were received before.
func (q *Queue) Received(ctx context.Context, events ...EventID) (map[EventID]action.ID, error) {
	byKey, keys := make(map[action.ID]EventID, len(events)), make([]action.ID, len(events))
	for i, e := range events {
		keys[i] = e.key()
		byKey[keys[i]] = e
	}
	received := make(map[EventID]action.ID, len(events))
	err := q.read(ctx, "read the inbox", func(tx rows) error {
		found, err := tx.Inbox(keys)
		for _, row := range found {
			received[byKey[row.Key]] = row.ActionID
		}
		return err
	})
	return received, err
}

// LiveEvents counts the live actions of a trigger, up to a number.
func (q *Queue) LiveEvents(ctx context.Context, trigger string, most int) (n int, err error) {
	err = q.read(ctx, "count the actions of a trigger", func(tx rows) error {
		n, err = tx.CountKeys(eventPrefix(trigger), most)
		return err
	})
	return n, err
}

// receive stores events and their actions, and returns the action of each. Inserting the rows of the inbox comes first: of two
// deliveries at a time one inserts the row, and the other waits here and then finds the answer.
func (t *txn) receive(events []Event) ([]Enqueued, error) {
	if len(events) == 0 {
		return nil, nil
	}
	fresh, first := make([]InboxRow, 0, len(events)), make(map[action.ID]Event, len(events))
	for _, e := range events {
		key := e.key()
		if _, repeated := first[key]; repeated {
			continue
		}
		if e.Action.Action.ID.IsZero() {
			e.Action.Action.ID = action.RandomID(t.Now())
		}
		e.Action.Action.UniqueKey = eventPrefix(e.Trigger) + hex.EncodeToString(key[:])
		first[key] = e
		fresh = append(fresh, InboxRow{key, e.Action.Action.ID})
	}
	slices.SortFunc(fresh, compareInbox) // so that transactions with the same events do not wait for each other
	inserted, err := t.InsertInbox(fresh)
	if err != nil {
		return nil, err
	}
	answers, err := t.storeEvents(inserted, first)
	if err != nil {
		return nil, err
	}
	made := make([]Enqueued, len(events))
	for i, e := range events {
		made[i] = answers[e.key()]
		answers[e.key()] = Enqueued{ID: made[i].ID}
	}
	return made, nil
}

func compareInbox(a, b InboxRow) int { return bytes.Compare(a.Key[:], b.Key[:]) }

// storeEvents stores the actions of the events whose keys this transaction has inserted, and returns the answers by key, also of
// those that were received before.
func (t *txn) storeEvents(inserted []action.ID, events map[action.ID]Event) (map[action.ID]Enqueued, error) {
	answers := make(map[action.ID]Enqueued, len(events))
	follows := make([]Successor, len(inserted))
	for i, key := range inserted {
		follows[i] = events[key].Action
	}
	made, err := t.storeSuccessors(follows)
	if err != nil {
		return nil, err
	}
	var moved []InboxRow
	for i, key := range inserted {
		answers[key] = made[i]
		if made[i].ID != events[key].Action.Action.ID { // another job answers, for repeats too
			moved = append(moved, InboxRow{key, made[i].ID})
		}
	}
	if err := t.UpdateInbox(moved); err != nil {
		return nil, err
	}
	var others []action.ID
	for key := range events {
		if _, ours := answers[key]; !ours {
			others = append(others, key)
		}
	}
	known, err := t.Inbox(others)
	if err == nil && len(known) < len(others) {
		err = store.ErrRace // one has just been forgotten
	}
	for _, row := range known {
		answers[row.Key] = Enqueued{ID: row.ActionID}
	}
	return answers, err
}
