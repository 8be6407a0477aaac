package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/queue"
)

// horizon is the first position that may still get rows: that of the oldest transaction that is open now.
var horizon = fmt.Sprintf("(SELECT (era::bigint << %d) + pg_snapshot_xmin(pg_current_snapshot())::text::bigint FROM meta)", queue.EraBits)

// EventsAfter reads the events of all actions after a position, in the recorded order. Each branch has a limit of its own, so that the
// planner walks the index on tx instead of sorting all that a reader is behind by.
func (t *tx) EventsAfter(after queue.EventPosition, limit int) ([]queue.RecordedEvent, error) {
	return query(t, func(row pgx.Row) (e queue.RecordedEvent, err error) {
		var status int16
		err = row.Scan(&e.Position.Tx, idOf{&e.ActionID}, &e.Seq, &status, &e.Attempt, &e.Spent, timeOf{&e.At}, &e.Source, timeOf{&e.Until},
			textOf{&e.Code}, textOf{&e.Error}, textOf{&e.Ref})
		e.Status, e.Position.Action, e.Position.Seq = action.Status(status), e.ActionID, e.Seq
		return e, err
	}, `(SELECT tx, action_id, seq, status, attempt, spent, at, source, until, code, error, ref FROM event
			WHERE tx >= $1 AND (tx, action_id, seq) > ($1, $2, $3) AND tx < `+horizon+` ORDER BY tx, action_id, seq LIMIT $4)
		UNION ALL
		(SELECT tx, id, 0, 1, 0, 0, enqueued_at, created_by, NULL, '', '', '' FROM action
			WHERE tx >= $1 AND (tx, id, 0) > ($1, $2, $3) AND tx < `+horizon+` ORDER BY tx, id LIMIT $4)
		ORDER BY tx, action_id, seq LIMIT $4`, after.Tx, pgtype.UUID{Bytes: after.Action, Valid: true}, after.Seq, limit)
}

// EventsEnd returns the first position that may still get rows.
func (t *tx) EventsEnd() (end int64, err error) {
	_, err = query(t, func(row pgx.Row) (bool, error) { return true, row.Scan(&end) }, "SELECT "+horizon)
	return end, err
}

// raiseEra starts a new era when rows were recorded by transactions that this cluster has not reached, as after a restore into a new one.
// Otherwise what is recorded from now on would be sorted before what was, and readers would never see it. The era is a part of the
// columns' default, which costs an insert nothing; so it changes only here, when an instance starts.
func raiseEra(ctx context.Context, pool *pgxpool.Pool) error {
	return pool.AcquireFunc(ctx, func(c *pgxpool.Conn) error {
		return pgx.BeginTxFunc(ctx, c, inReadCommitted, func(t pgx.Tx) error {
			var recorded, reached int64
			err := t.QueryRow(ctx, `SELECT coalesce(greatest((SELECT max(tx) FROM event), (SELECT max(tx) FROM action)), 0),
				(era::bigint << $1) + pg_snapshot_xmax(pg_current_snapshot())::text::bigint FROM meta`, queue.EraBits).Scan(&recorded, &reached)
			if err != nil || recorded <= reached {
				return err
			}
			if _, err := t.Exec(ctx, fmt.Sprintf("SET LOCAL lock_timeout = '%dms'", lockWait.Milliseconds())); err != nil {
				return err
			}
			era := recorded>>queue.EraBits + 1
			for _, table := range []string{"action", "event"} {
				if _, err := t.Exec(ctx, fmt.Sprintf("ALTER TABLE %s ALTER COLUMN tx SET DEFAULT %s", table, positionIn(era))); err != nil {
					return err
				}
			}
			_, err = t.Exec(ctx, "UPDATE meta SET era = $1", era)
			return err
		})
	})
}

// positionIn returns the position of the transaction that writes, in an era. A constant instead of a look at meta: it
// is computed for each row.
func positionIn(era int64) string {
	return fmt.Sprintf("%d + pg_current_xact_id()::text::bigint", era<<queue.EraBits)
}
