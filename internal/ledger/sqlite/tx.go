package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
)

// tx is one transaction on one connection.
type tx struct {
	ctx      context.Context
	driver   *Driver
	conn     *sql.Conn
	prepared map[string]*sql.Stmt // of the connection; nil: statements are not kept
	now      time.Time
	plans    *[]string // collects plans instead of time; nil: none wanted
}

// Now is the time at which the transaction began.
func (t *tx) Now() time.Time { return t.now }

// LedgerID is the file's own id.
func (t *tx) LedgerID() (action.ID, error) {
	found, _, err := row(t, scanID, `SELECT ledger_id FROM meta`)
	return found, err
}

// keptStatements bounds how many prepared statements a connection keeps.
const keptStatements = 300

// statement is the query, prepared once for the connection; nil where none is kept.
func (t *tx) statement(query string) (*sql.Stmt, error) {
	if t.prepared == nil {
		return nil, nil
	}
	if s, ok := t.prepared[query]; ok {
		return s, nil
	}
	if len(t.prepared) >= keptStatements {
		return nil, nil
	}
	s, err := t.conn.PrepareContext(t.ctx, query)
	if err != nil {
		return nil, err
	}
	t.prepared[query] = s
	return s, nil
}

// exec runs a statement and returns how many rows it changed.
func (t *tx) exec(query string, args ...any) (int, error) {
	if err := t.plan(query, args); err != nil {
		return 0, err
	}
	s, err := t.statement(query)
	if err != nil {
		return 0, t.driver.explain("prepare", err)
	}
	var done sql.Result
	if s != nil {
		done, err = s.ExecContext(t.ctx, args...)
	} else {
		done, err = t.conn.ExecContext(t.ctx, query, args...)
	}
	if err != nil {
		return 0, t.driver.explain("write", err)
	}
	n, err := done.RowsAffected()
	return int(n), err
}

func (t *tx) query(query string, args ...any) (*sql.Rows, error) {
	if err := t.plan(query, args); err != nil {
		return nil, err
	}
	s, err := t.statement(query)
	if err != nil {
		return nil, err
	}
	if s != nil {
		return s.QueryContext(t.ctx, args...)
	}
	return t.conn.QueryContext(t.ctx, query, args...)
}

// plan notes how the database would run a statement, when somebody asked.
func (t *tx) plan(query string, args []any) error {
	if t.plans == nil {
		return nil
	}
	rows, err := t.conn.QueryContext(t.ctx, "EXPLAIN QUERY PLAN "+query, args...)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }() // rows.Err tells
	for rows.Next() {
		var id, parent, unused int
		var detail string
		if err := rows.Scan(&id, &parent, &unused, &detail); err != nil {
			return err
		}
		*t.plans = append(*t.plans, detail)
	}
	return rows.Err()
}

// scanner is a row of a result.
type scanner interface{ Scan(to ...any) error }

// rows reads every row of a query.
func rows[T any](t *tx, scan func(scanner) (T, error), query string, args ...any) ([]T, error) {
	found, err := t.query(query, args...)
	if err != nil {
		return nil, t.driver.explain("read", err)
	}
	defer func() { _ = found.Close() }() // found.Err tells
	var all []T
	for found.Next() {
		one, err := scan(found)
		if err != nil {
			return nil, t.driver.explain("read", err)
		}
		all = append(all, one)
	}
	return all, t.driver.explain("read", found.Err())
}

// row reads the first row of a query; ok is false when there is none.
func row[T any](t *tx, scan func(scanner) (T, error), query string, args ...any) (one T, ok bool, err error) {
	all, err := rows(t, scan, query, args...)
	if err != nil || len(all) == 0 {
		return one, false, err
	}
	return all[0], true, nil
}

// table is where many rows go at once.
type table struct {
	name    string
	columns []string
	suffix  string // after VALUES
}

// sizes are how many rows one INSERT takes; few sizes, so that few statements are prepared.
var sizes = [...]int{32, 8, 1}

// insert writes rows, each with a value per column.
func (t *tx) insert(into table, rows [][]any) error {
	for _, size := range sizes {
		for len(rows) >= size {
			args := make([]any, 0, size*len(into.columns))
			for _, r := range rows[:size] {
				args = append(args, r...)
			}
			if _, err := t.exec(into.statement(size), args...); err != nil {
				return err
			}
			rows = rows[size:]
		}
	}
	return nil
}

// statement is the INSERT for a number of rows.
func (b table) statement(rows int) string {
	one := "(" + strings.Repeat("?,", len(b.columns)-1) + "?)"
	return "INSERT INTO " + b.name + " (" + strings.Join(b.columns, ",") + ") VALUES " +
		strings.Repeat(one+",", rows-1) + one + b.suffix
}

// micros stores a time; the zero time is NULL.
func micros(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UnixMicro()
}

// moment scans a time; NULL is the zero time.
type moment struct{ to *time.Time }

func (m moment) Scan(from any) error {
	switch v := from.(type) {
	case nil:
		*m.to = time.Time{}
	case int64:
		*m.to = time.UnixMicro(v).UTC()
	default:
		return errors.New("a time is stored as a number")
	}
	return nil
}

// id stores an id; the zero id is NULL.
func id(i action.ID) any {
	if i.IsZero() {
		return nil
	}
	return i[:]
}

// ident scans an id; NULL is the zero id.
type ident struct{ to *action.ID }

func (i ident) Scan(from any) error {
	switch v := from.(type) {
	case nil:
		*i.to = action.ID{}
	case []byte:
		if len(v) != len(i.to) {
			return errors.New("an id is stored as 16 bytes")
		}
		copy(i.to[:], v)
	default:
		return errors.New("an id is stored as bytes")
	}
	return nil
}

// text stores a text; "" is NULL.
func text(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// document stores JSON; none is NULL.
func document(raw []byte) any {
	if len(raw) == 0 {
		return nil
	}
	return string(raw)
}
