package postgres

import (
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/queue"
	"github.com/waybill-dev/waybill/internal/store"
)

// Rows of package queue: what people ask about everything at once; and the Strain of store.Rows.

// Backlogs counts all live rows.
func (t *tx) Backlogs() ([]queue.BacklogRow, error) {
	return query(t, func(row pgx.Row) (b queue.BacklogRow, err error) {
		err = row.Scan(&b.Handler, &b.Status, &b.Ready, &b.Count, timeOf{&b.Oldest})
		return b, err
	}, "SELECT split_part(lane, '/', 1), status, ready, count(*), min(run_at) FROM thread GROUP BY 1, 2, 3")
}

// ReadyAt returns an action of the handler that is ready since then; the zero id if there is none.
func (t *tx) ReadyAt(handler string, since time.Time) (action.ID, error) {
	ids, err := query(t, scanID, `SELECT id FROM thread WHERE ready AND run_at = $2 AND (lane = $1 OR lane >= $1 || '/' AND lane < $1 || '0')
		ORDER BY id LIMIT 1`, handler, since)
	if err != nil || len(ids) == 0 {
		return action.ID{}, err
	}
	return ids[0], nil
}

// ReadyOutside returns since when the handler's longest-waiting ready action outside of these lanes
// is ready; zero if there is none.
func (t *tx) ReadyOutside(handler string, lanes []string) (time.Time, error) {
	oldest, err := query(t, func(row pgx.Row) (at time.Time, err error) {
		err = row.Scan(timeOf{&at})
		return at, err
	},
		`SELECT min(run_at) FROM thread WHERE ready AND (lane = $1 OR lane >= $1 || '/' AND lane < $1 || '0') AND lane <> ALL ($2)`, handler,
		lanes)
	if err != nil || len(oldest) == 0 {
		return time.Time{}, err
	}
	return oldest[0], nil
}

// NextRun returns when the first action that waits for its time is due; zero if none waits.
func (t *tx) NextRun() (time.Time, error) {
	due, err := query(t, func(row pgx.Row) (at time.Time, err error) {
		err = row.Scan(timeOf{&at})
		return at, err
	}, "SELECT min(run_at) FROM thread WHERE NOT ready AND claimed_by IS NULL AND status IN (1, 4)")
	if err != nil || len(due) == 0 {
		return time.Time{}, err
	}
	return due[0], nil
}

// Rescues counts the events of rescues since a time, by their code.
func (t *tx) Rescues(since time.Time) (map[string]int, error) {
	counts := map[string]int{}
	_, err := query(t, func(row pgx.Row) (code string, err error) {
		var n int
		err = row.Scan(&code, &n)
		counts[code] = n
		return code, err
	}, "SELECT coalesce(code, ''), count(*) FROM event WHERE source = 'rescue' AND at >= $1 GROUP BY 1", since)
	return counts, err
}

// holders finds the oldest transaction, prepared ones included, that keeps deleted rows from being
// removed.
const holders = `SELECT since, who FROM (
	SELECT xact_start AS since, format('%s, process %s, %s', coalesce(nullif(application_name, ''), 'a client'), pid, coalesce(state, 'unknown')) AS who
	FROM pg_stat_activity WHERE backend_xmin IS NOT NULL AND xact_start IS NOT NULL AND pid <> pg_backend_pid() AND datname = current_database()
	UNION ALL
	SELECT prepared, format('the prepared transaction %s', gid) FROM pg_prepared_xacts WHERE database = current_database()
) AS h ORDER BY since LIMIT 1`

// writers finds the oldest transaction of the cluster that has written and is still open. The whole
// cluster counts, since transaction ids, and so recorded positions, are shared by its databases.
const writers = `SELECT since, who FROM (
	SELECT xact_start AS since, format('%s, process %s, database %s', coalesce(nullif(application_name, ''), 'unknown'), pid, datname) AS who
	FROM pg_stat_activity WHERE backend_xid IS NOT NULL AND xact_start IS NOT NULL AND pid <> pg_backend_pid()
	UNION ALL
	SELECT prepared, format('the prepared transaction %s', gid) FROM pg_prepared_xacts) AS w ORDER BY since LIMIT 1`

// Strain reads what slows the database down.
func (t *tx) Strain() (s store.Strain, err error) {
	_, err = query(t, func(row pgx.Row) (bool, error) {
		return true, row.Scan(timeOf{&s.HeldSince}, &s.HeldBy)
	}, holders)
	if err != nil {
		return s, err
	}
	_, err = query(t, func(row pgx.Row) (bool, error) {
		return true, row.Scan(timeOf{&s.Writer.Since}, &s.Writer.By)
	}, writers)
	if err != nil {
		return s, err
	}
	_, err = query(t, func(row pgx.Row) (bool, error) {
		return true, row.Scan(&s.DeadTuples)
	}, "SELECT n_dead_tup FROM pg_stat_user_tables WHERE relid = 'thread'::regclass")
	return s, err
}
