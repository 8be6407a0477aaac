package queuetest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/queue"
	"github.com/waybill-dev/waybill/internal/store/storetest"
)

// retention is the retention of the suite's ledgers.
const retention = 90 * 24 * time.Hour

// weeks is an archive that knows which weeks it has something of.
type weeks []string

func (w *weeks) Folders(context.Context, string) ([]string, error) { return slices.Clone(*w), nil }

func (w *weeks) Clear(_ context.Context, folder string) error {
	*w = slices.DeleteFunc(*w, func(week string) bool { return "action/"+week == folder })
	return nil
}

func weekOf(at time.Time) string {
	year, week := at.ISOWeek()
	return fmt.Sprintf("%04dw%02d", year, week)
}

// monday returns the start of a week some weeks ago.
func (s setup) monday(t *testing.T, back int) time.Time {
	t.Helper()
	now, err := s.Now(s.ctx)
	storetest.Check(t, err)
	day := now.Truncate(24 * time.Hour)
	monday := day.AddDate(0, 0, -(int(day.Weekday())+6)%7-7*back)
	if s.database.Past != nil {
		s.database.Past(t, monday, monday.AddDate(0, 0, 7))
	}
	return monday
}

func oldActionsAreDeleted(t *testing.T, s setup) {
	host := s.join(t, "host-a")
	old, older := s.monday(t, 20), s.monday(t, 30)
	at := func(name string, when time.Time) action.Action {
		a := job(name)
		a.ID, a.Policy.Deadline = action.DerivedID(when.Add(time.Hour), name), 0
		return a
	}
	cached := at("cached", older)
	cached.CacheKey = action.DerivedID(older, "key")
	gone, done1, recent := s.enqueue(t, at("older", older)), s.enqueue(t, at("ended", old)), s.enqueue(t, job("recent"))
	cachedID := s.enqueue(t, cached)
	for _, c := range s.claim(t, host, "noop", 4) {
		s.end(t, host, c, done())
	}
	storetest.Check(t, s.Dismiss(s.ctx, cachedID, "ana"))
	lives := s.enqueue(t, at("lives", old))
	stored := weeks{weekOf(older), weekOf(old), weekOf(time.Now().UTC()), "no-week"}

	storetest.Check(t, s.Retain(s.ctx, 0, &stored))
	storetest.Check(t, s.Retain(s.ctx, 365*24*time.Hour, &stored))
	if len(stored) != 4 || s.statusOf(t, gone) != action.Successful {
		t.Fatalf("what is retained was deleted: %v", stored)
	}
	for range 2 { // the second time nothing is left to do
		storetest.Check(t, s.Retain(s.ctx, retention, &stored))
	}
	for _, id := range []action.ID{gone, cachedID} {
		_, err := s.Action(s.ctx, id)
		storetest.WantCode(t, err, fault.NoSuchAction)
		_, err = s.Events(s.ctx, id)
		storetest.WantCode(t, err, fault.NoSuchAction)
	}
	if s.statusOf(t, lives) != action.Pending || s.statusOf(t, recent) != action.Successful {
		t.Errorf("a live action is %s, a recent one %s", s.statusOf(t, lives), s.statusOf(t, recent))
	}
	if diff := cmp.Diff(weeks{weekOf(old), weekOf(time.Now().UTC()), "no-week"}, stored); diff != "" {
		t.Errorf("archive (-want +got):\n%s", diff)
	}
	cached.ID = action.ID{}
	if made, err := s.Enqueue(s.ctx, cached); err != nil || !made[0].Created {
		t.Errorf("the answer of a deleted action is still given: %+v, %v", made, err)
	}
	s.wantPinned(t, lives)
	storetest.Check(t, s.Cancel(s.ctx, lives, queue.CancelNow))
	storetest.Check(t, s.Retain(s.ctx, retention, &stored))
	for _, id := range []action.ID{lives, done1} {
		_, err := s.Action(s.ctx, id)
		storetest.WantCode(t, err, fault.NoSuchAction)
	}
	if slices.Contains(stored, weekOf(old)) {
		t.Errorf("the archive of %s stays: %v", weekOf(old), stored)
	}
	s.wantPinned(t)
}

// refusedRetentionKeepsAll: retention behind a long transaction leaves everything about an old action, and the next call
// deletes all of it.
func refusedRetentionKeepsAll(t *testing.T, s setup) {
	host := s.join(t, "host-a")
	old := s.monday(t, 20)
	a := job("old")
	a.ID, a.Policy.Deadline = action.DerivedID(old.Add(time.Hour), "old"), 0
	a.CacheKey = action.DerivedID(old, "key")
	id := s.enqueue(t, a)
	s.end(t, host, s.claim(t, host, "noop", 1)[0], done())
	storetest.Check(t, s.Dismiss(s.ctx, id, "ana"))
	storetest.Check(t, s.write(func(tx rows) error { // dismissing has deleted it
		_, err := tx.PointCache([]queue.CacheEntry{{Key: a.CacheKey, Scope: queue.PayloadScope, ActionID: id, CreatedAt: old}}, true)
		return err
	}))
	stored := weeks{weekOf(old)}
	if s.database.Hold != nil {
		release := s.database.Hold(t)
		ctx, cancel := context.WithTimeout(s.ctx, 2*time.Second)
		defer cancel()
		if err := s.Retain(ctx, retention, &stored); err == nil {
			t.Error("retention passed a transaction that reads what it deletes")
		}
		state, err := s.Action(s.ctx, id)
		storetest.Check(t, err)
		events, err := s.Events(s.ctx, id)
		storetest.Check(t, err)
		if state.Dismissed.IsZero() || len(events) != 3 || len(s.entriesOf(t, a.CacheKey)) != 1 || len(stored) != 1 {
			t.Errorf("after a refused call: %+v, %d events, entries %v, archive %v", state, len(events), s.entriesOf(t, a.CacheKey), stored)
		}
		release()
	}
	storetest.Check(t, s.Retain(s.ctx, retention, &stored))
	_, err := s.Action(s.ctx, id)
	storetest.WantCode(t, err, fault.NoSuchAction)
	_, err = s.Events(s.ctx, id)
	storetest.WantCode(t, err, fault.NoSuchAction)
	if len(s.entriesOf(t, a.CacheKey)) != 0 || len(stored) != 0 {
		t.Errorf("left: entries %v, archive %v", s.entriesOf(t, a.CacheKey), stored)
	}
}

// entriesOf reads the entry of a key.
func (s setup) entriesOf(t *testing.T, key action.ID) (entries []queue.CacheEntry) {
	t.Helper()
	storetest.Check(t, s.read(func(tx rows) (err error) {
		entries, err = tx.CacheEntries([]action.ID{key}, queue.CacheQuery{})
		return err
	}))
	return entries
}

// wantPinned wants exactly those live actions to hold their partitions, where there are some.
func (s setup) wantPinned(t *testing.T, lives ...action.ID) {
	t.Helper()
	found, err := s.Partitions(s.ctx, retention)
	storetest.Check(t, err)
	if s.database.Past == nil {
		if found.Ahead != 0 || len(found.Pinned) != 0 {
			t.Errorf("partitions of a file: %+v", found)
		}
		return
	}
	var pinned []action.ID
	for _, p := range found.Pinned {
		pinned = append(pinned, p.Action)
		if !strings.HasSuffix(p.Name, weekOf(p.Action.Time())) {
			t.Errorf("%s is in %s", p.Action, p.Name)
		}
	}
	if diff := cmp.Diff(lives, pinned); diff != "" || found.Ahead != 4 {
		t.Errorf("%d ahead, want 4; pinned by (-want +got):\n%s", found.Ahead, diff)
	}
}

// retainedActionsAreRefusedToGo: what is retained cannot be deleted behind Waybill's back either.
func retainedActionsAreRefusedToGo(t *testing.T, s setup) {
	host := s.join(t, "host-a")
	s.enqueue(t, job("x"))
	s.end(t, host, s.claim(t, host, "noop", 1)[0], done())
	storetest.Check(t, s.Retain(s.ctx, retention, &weeks{}))
	for _, table := range []string{"event", "thread_done", "action"} {
		if err := s.database.Exec("DELETE FROM " + table); err == nil {
			t.Errorf("rows of %s were deleted", table)
		}
	}
}
