package sqlite

import (
	"database/sql"
	"fmt"
	"sync"
	"time"

	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/pipeline"
)

// A process folds whole logs when it starts. What reads them requests no path twice and makes no string of an event
// that it has made before: most of the time of a row is what database/sql and its driver do for each column.

// paths are targets by id, as committed transactions have named them. Targets are never renamed or deleted.
type paths struct {
	mu   sync.Mutex
	byID map[int64]string
}

// walkColumns are the columns of an entry, in the order of walked. Texts are read as blobs, since the driver requests
// the declared type of each text.
const walkColumns = `SELECT e.seq, e.deployment, e.target_id, CAST(e.event_name AS BLOB), e.occurrence, e.class, e.revision, e.definition_version,
	e.created_at, CAST(e.detail AS BLOB)`

// walked is a row of walkColumns. A number is scanned into any: into a number of another type
// database/sql would write it out and parse it.
type walked struct {
	numbers       [8]any // seq, deployment, target, occurrence, class, revision, version, time
	event, detail sql.RawBytes
	digest        pipeline.Digest
	events        map[string]string
}

// walk reads entries of one pipeline in the order of the statement, which selects from entry e.
func (t *tx) walk(q journal.EntryQuery, statement string, args []any) ([]pipeline.Entry, error) {
	w := walked{events: map[string]string{}}
	n := &w.numbers
	to := []any{&n[0], &n[1], &n[2], &w.event, &n[3], &n[4], &n[5], &n[6], &n[7], &w.detail}
	columns := walkColumns
	if q.Digests {
		columns += digestColumn
		to = append(to, digest{&w.digest})
	}
	var targets []int64
	entries, err := rows(t, func(s scanner) (pipeline.Entry, error) {
		if err := s.Scan(to...); err != nil {
			return pipeline.Entry{}, err
		}
		e, target, err := w.entry()
		e.Pipeline, e.Digest = q.Pipeline, w.digest
		targets = append(targets, target)
		return e, err
	}, columns+statement, args...)
	if err != nil {
		return nil, err
	}
	return entries, t.name(entries, targets)
}

// entry returns the row that was scanned, and the id of its target.
func (w *walked) entry() (e pipeline.Entry, target int64, err error) {
	var n [len(w.numbers)]int64
	for i, value := range w.numbers {
		var ok bool
		if n[i], ok = value.(int64); !ok {
			return e, 0, fmt.Errorf("a column of an entry is %T, not a number", value)
		}
	}
	e = pipeline.Entry{Seq: n[0], Deployment: n[1], Occurrence: int(n[3]), Class: pipeline.Class(n[4]),
		Revision: n[5], Version: int(n[6]), At: time.UnixMicro(n[7]).UTC()}
	var known bool
	if e.Event, known = w.events[string(w.event)]; !known {
		e.Event = string(w.event)
		w.events[e.Event] = e.Event
	}
	if w.detail != nil {
		e.Detail = append(make([]byte, 0, len(w.detail)), w.detail...)
	}
	return e, n[2], nil
}

// name completes entries by the paths of their targets. A transaction that writes keeps none: what it has
// created may be rolled back, and its id be given to another target.
func (t *tx) name(entries []pipeline.Entry, targets []int64) error {
	known := &paths{byID: map[int64]string{}}
	if !t.writes {
		known = &t.driver.paths
	}
	known.mu.Lock()
	defer known.mu.Unlock()
	var missing []int64
	for _, id := range targets {
		if _, ok := known.byID[id]; !ok {
			known.byID[id] = ""
			missing = append(missing, id)
		}
	}
	if err := t.findPaths(known.byID, missing); err != nil {
		for _, id := range missing {
			delete(known.byID, id)
		}
		return err
	}
	for i, id := range targets {
		entries[i].Target = known.byID[id]
	}
	return nil
}

// findPaths fills in the paths of targets.
func (t *tx) findPaths(byID map[int64]string, missing []int64) error {
	if len(missing) == 0 {
		return nil
	}
	ids, err := list(missing)
	if err != nil {
		return err
	}
	_, err = rows(t, func(s scanner) (none struct{}, err error) {
		var id int64
		var path string
		err = s.Scan(&id, &path)
		byID[id] = path
		return none, err
	}, `SELECT t.id, t.path FROM json_each(?1) p CROSS JOIN target t ON t.id = p.value`, ids)
	return err
}
