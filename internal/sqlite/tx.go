package sqlite

import (
	"context"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/store"
)

// The transaction of package store: the methods of store.Rows, and what the files of queue, journal
// and token use to run statements and to convert values.

// tx is one transaction on one connection. Lists are passed as JSON (list, idList), many new rows as
// few INSERTs, and rows that are each searched for go through each.
type tx struct {
	ctx    context.Context
	driver *Driver
	conn   *sql.Conn
	kept   kept // compiled statements of conn
	writes bool
	now    time.Time
	plans  *[]string // receives query plans; nil unless Explain wants them

	erases   bool  // what it has overwritten may not stay in the write-ahead log
	recorded int64 // position of what the transaction records; 0 until it records something
}

// Now returns the time at which the transaction began.
func (t *tx) Now() time.Time { return t.now }

// Notify does nothing: other processes look on their own (Driver.Listen).
func (t *tx) Notify([]store.Signal) {}

// LedgerID returns the file's own id.
func (t *tx) LedgerID() (action.ID, error) {
	found, _, err := row(t, scanID, `SELECT ledger_id FROM meta`)
	return found, err
}

// Probe writes a page of the file, and reports whether a newer Waybill has migrated it.
func (t *tx) Probe() (newer bool, err error) {
	if _, err := t.exec(`UPDATE meta SET schema = schema`); err != nil {
		return false, err
	}
	found, _, err := row(t, func(s scanner) (schema int, err error) {
		err = s.Scan(&schema)
		return schema, err
	}, `SELECT schema FROM meta`)
	return found > newest, err
}

// exec runs a statement and returns how many rows it changed.
func (t *tx) exec(query string, args ...any) (int, error) {
	if err := t.check(query, args); err != nil {
		return 0, err
	}
	statement, err := t.kept.statement(t.ctx, t.conn, query)
	if err != nil {
		return 0, t.driver.explain("write", err)
	}
	done, err := statement.ExecContext(t.ctx, args...)
	if err != nil {
		return 0, t.driver.explain("write", err)
	}
	n, err := done.RowsAffected()
	return int(n), err
}

// each runs a statement once for each row of arguments.
func (t *tx) each(query string, rows [][]any) error {
	if len(rows) == 0 {
		return nil
	}
	statement, err := t.kept.statement(t.ctx, t.conn, query)
	if err != nil {
		return t.driver.explain("write", err)
	}
	for _, args := range rows {
		if err := t.check(query, args); err != nil {
			return err
		}
		if _, err := statement.ExecContext(t.ctx, args...); err != nil {
			return t.driver.explain("write", err)
		}
	}
	return nil
}

// query runs a statement and returns its rows.
func (t *tx) query(query string, args ...any) (*sql.Rows, error) {
	if err := t.check(query, args); err != nil {
		return nil, err
	}
	statement, err := t.kept.statement(t.ctx, t.conn, query)
	if err != nil {
		return nil, err
	}
	return statement.QueryContext(t.ctx, args...)
}

// check refuses texts that PostgreSQL would not store, so that both databases accept the same, and
// records the plan.
func (t *tx) check(query string, args []any) error {
	for _, arg := range args {
		if text, ok := arg.(string); ok && !store.IsText(text) {
			return store.ErrNotText
		}
	}
	return t.plan(query, args)
}

// plan records how the database would run a statement, under Explain.
func (t *tx) plan(query string, args []any) error {
	if t.plans == nil {
		return nil
	}
	rows, err := t.conn.QueryContext(t.ctx, "EXPLAIN QUERY PLAN "+query, args...)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }() // rows.Err returns the error
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
	defer func() { _ = found.Close() }() // found.Err returns the error
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

// table is the target of an INSERT of many rows.
type table struct {
	name    string
	columns []string
}

// most is the number of rows of one INSERT: enough to spread what it costs to run it, and few, because the
// database/sql driver searches for each value among all of the statement's.
const most = 16

// insert writes rows, each with a value per column. The last rows go in INSERTs of 8, 4, 2 and 1, so
// that there are few different ones.
func (t *tx) insert(into table, rows [][]any) error {
	for n := most; len(rows) > 0; {
		if n > len(rows) {
			n /= 2
			continue
		}
		args := make([]any, 0, n*len(into.columns))
		for _, r := range rows[:n] {
			args = append(args, r...)
		}
		if _, err := t.exec(into.statement(n), args...); err != nil {
			return err
		}
		rows = rows[n:]
	}
	return nil
}

// statement returns the INSERT for a number of rows.
func (b table) statement(rows int) string {
	one := "(" + strings.Repeat("?,", len(b.columns)-1) + "?)"
	return "INSERT INTO " + b.name + " (" + strings.Join(b.columns, ",") + ") VALUES " +
		strings.Repeat(one+",", rows-1) + one
}

// micros returns a time as it is stored, in microseconds since 1970; the zero time is NULL.
func micros(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UnixMicro()
}

// moment scans a time; NULL is the zero time.
type moment struct{ to *time.Time }

// Scan stores a column's value in the time.
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

// id returns an id as it is stored; the zero id is NULL.
func id(i action.ID) any {
	if i.IsZero() {
		return nil
	}
	return i[:]
}

// ident scans an id; NULL is the zero id.
type ident struct{ to *action.ID }

// Scan stores a column's value in the id.
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

// text returns a text as it is stored; "" is NULL.
func text(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// list returns values as JSON, for json_each.
func list[T any](values []T) (string, error) {
	raw, err := json.Marshal(values)
	return string(raw), err
}

// idList returns ids as JSON, to be read as `IN (`+listed+`)`. The ids are written in hexadecimal:
// JSON has no bytes.
func idList(ids []action.ID) string {
	b := []byte{'['}
	for i, one := range ids {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, '"')
		b = hex.AppendEncode(b, one[:])
		b = append(b, '"')
	}
	return string(append(b, ']'))
}

// listed selects the ids of an idList that is given as ?1.
const listed = `SELECT unhex(value) FROM json_each(?1)`

// document returns JSON as it is stored; none is NULL.
func document(raw []byte) any {
	if len(raw) == 0 {
		return nil
	}
	return string(raw)
}

// digestOf returns a digest as it is stored; the zero one is NULL.
func digestOf(d *pipeline.Digest) any {
	if d.IsZero() {
		return nil
	}
	return d[:]
}

// digest scans a digest; NULL is the zero one, and one of another size is cut or padded.
type digest struct{ to *pipeline.Digest }

// Scan stores a column's value in the digest.
func (s digest) Scan(value any) error {
	*s.to = pipeline.Digest{}
	if stored, ok := value.([]byte); ok {
		copy(s.to[:], stored)
	}
	return nil
}

// limit returns the value of a LIMIT; 0 means all.
func limit(n int) int {
	if n <= 0 {
		return -1
	}
	return n
}
