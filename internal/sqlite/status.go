package sqlite

import (
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/queue"
	"github.com/waybill-dev/waybill/internal/store"
)

// Rows of package queue: what people ask about everything at once.

// Backlogs counts all live rows.
func (t *tx) Backlogs() ([]queue.BacklogRow, error) {
	return rows(t, func(s scanner) (b queue.BacklogRow, err error) {
		err = s.Scan(&b.Handler, &b.Status, &b.Ready, &b.Count, moment{&b.Oldest})
		return b, err
	}, "SELECT substr(lane, 1, instr(lane || '/', '/') - 1), status, ready, count(*), min(run_at) FROM thread GROUP BY 1, 2, 3")
}

// ReadyAt returns an action of the handler that is ready since then; the zero id if there is none.
func (t *tx) ReadyAt(handler string, since time.Time) (action.ID, error) {
	ids, err := rows(t, scanID, `SELECT id FROM thread WHERE ready AND run_at = ? AND (lane = ? OR lane >= ? || '/' AND lane < ? || '0')
		ORDER BY id LIMIT 1`, micros(since), handler, handler, handler)
	if err != nil || len(ids) == 0 {
		return action.ID{}, err
	}
	return ids[0], nil
}

// ReadyOutside returns since when the handler's longest-waiting ready action outside of these lanes
// is ready; zero if there is none.
func (t *tx) ReadyOutside(handler string, lanes []string) (time.Time, error) {
	oldest, _, err := row(t, func(s scanner) (at time.Time, err error) {
		err = s.Scan(moment{&at})
		return at, err
	}, `SELECT min(run_at) FROM thread WHERE ready AND (lane = ? OR lane >= ? || '/' AND lane < ? || '0')
		AND lane NOT IN (SELECT value FROM json_each(?))`, handler, handler, handler, jsonOf(lanes))
	return oldest, err
}

// NextRun returns when the first action that waits for its time is due; zero if none waits.
func (t *tx) NextRun() (time.Time, error) {
	next, _, err := row(t, func(s scanner) (at time.Time, err error) {
		err = s.Scan(moment{&at})
		return at, err
	}, "SELECT min(run_at) FROM thread INDEXED BY thread_due WHERE ready = 0 AND claimed_by IS NULL AND status IN (1, 4)")
	return next, err
}

// Rescues counts the events of rescues since a time, by their code.
func (t *tx) Rescues(since time.Time) (map[string]int, error) {
	counts := map[string]int{}
	_, err := rows(t, func(s scanner) (code string, err error) {
		var n int
		err = s.Scan(&code, &n)
		counts[code] = n
		return code, err
	}, "SELECT coalesce(code, ''), count(*) FROM event WHERE source = 'rescue' AND at >= ? GROUP BY 1", micros(since))
	return counts, err
}

// Strain returns none: readers keep the writer from reusing deleted rows only within the
// write-ahead log.
func (t *tx) Strain() (store.Strain, error) { return store.Strain{}, nil }
