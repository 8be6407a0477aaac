package ledger

import (
	"context"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
)

// sweep is how many rows one look at the clock or at the dead may change.
const sweep = 1000

// Due makes actions ready whose time has come, ends those past their deadline, and
// tells when to look again, by this process's clock (zero: nothing waits for its time, and no deadline passes within a minute).
func (l *Ledger) Due(ctx context.Context) (next time.Time, err error) {
	var ahead time.Duration // of the database's clock
	var now time.Time
	err = l.read(ctx, "read due times", func(tx Tx) error {
		now = tx.Now()
		ahead = skew(now, time.Now())
		next, err = tx.NextDue()
		return err
	})
	if err == nil && !next.IsZero() && !next.After(now) {
		err = l.write(ctx, "let due actions run", func(t *txn) error {
			return t.due(&next)
		})
	}
	if next.IsZero() {
		return next, err
	}
	return next.Add(-ahead), err
}

func (t *txn) due(next *time.Time) error {
	late, err := t.Select(PastDeadline, action.ID{}, sweep)
	if err != nil {
		return err
	}
	err = t.each(late, func(f live) (action.Input, bool) {
		due := !f.thread.Deadline.IsZero() && !f.thread.Deadline.After(t.Now())
		return action.Input{Kind: action.PassDeadline, Source: "deadline"}, due
	})
	if err != nil {
		return err
	}
	ready, err := t.MakeReady(sweep)
	if err != nil {
		return err
	}
	if ready > 0 {
		t.touch(TopicReady)
	}
	*next, err = t.NextDue()
	return err
}
