package postgres

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waybill-dev/waybill/internal/action"
)

// reader reads the columns of a row one after the other, in PostgreSQL's binary form. It is used where many wide rows
// are read: it asks no table of types, and a value equal to that of the row before is not made again. NULL is the
// zero value.
type reader struct {
	values [][]byte
	next   int
	texts  []string // by column, of the row before
	policy action.Policy
}

// read reads every row of a query by scan.
func read[T any](t *tx, scan func(*reader) (T, error), query string, args ...any) (all []T, err error) {
	err = t.ask(query, args, func(rows pgx.Rows) (err error) {
		all, err = scanned(rows, scan)
		return err
	})
	return all, err
}

func scanned[T any](rows pgx.Rows, scan func(*reader) (T, error)) (all []T, err error) {
	defer rows.Close()
	r := reader{texts: make([]string, len(rows.FieldDescriptions()))}
	for _, f := range rows.FieldDescriptions() {
		if f.Format != pgx.BinaryFormatCode && f.Format != pgx.TextFormatCode {
			return nil, fmt.Errorf("column %s comes in format %d", f.Name, f.Format)
		}
	}
	for rows.Next() {
		r.values, r.next = rows.RawValues(), 0
		one, err := scan(&r)
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, rows.Err()
}

// value returns the next column; nil: NULL.
func (r *reader) value() []byte {
	r.next++
	return r.values[r.next-1]
}

// null reports whether the next column is NULL, and stays before it.
func (r *reader) null() bool { return r.values[r.next] == nil }

func (r *reader) id() (id action.ID) {
	copy(id[:], r.value())
	return id
}

// time reads a timestamptz: microseconds since 2000.
func (r *reader) time() time.Time {
	v := r.value()
	if v == nil {
		return time.Time{}
	}
	micros := int64(binary.BigEndian.Uint64(v))
	if micros == math.MaxInt64 || micros == math.MinInt64 {
		return time.Time{} // infinity: none
	}
	return time.UnixMicro(micros + epoch).UTC()
}

// epoch is PostgreSQL's, in microseconds since 1970.
const epoch = 946_684_800_000_000

// int reads a smallint, an int or a bigint.
func (r *reader) int() int {
	v := r.value()
	switch len(v) {
	case 2:
		return int(int16(binary.BigEndian.Uint16(v)))
	case 4:
		return int(int32(binary.BigEndian.Uint32(v)))
	case 8:
		return int(int64(binary.BigEndian.Uint64(v)))
	}
	return 0
}

func (r *reader) bool() bool {
	v := r.value()
	return len(v) == 1 && v[0] == 1
}

func (r *reader) text() string {
	v := r.value()
	before := &r.texts[r.next-1]
	if string(v) != *before {
		*before = string(v)
	}
	return *before
}

// document reads JSON as text.
func (r *reader) document() json.RawMessage {
	v := r.value()
	if v == nil {
		return nil
	}
	return append(json.RawMessage{}, v...)
}

// policies reads the policy of an action; most are the one of the row before.
func (r *reader) policies() (action.Policy, error) {
	before := r.texts[r.next]
	text := r.text()
	if text == before && text != "" {
		return r.policy, nil
	}
	r.policy = action.Policy{}
	err := json.Unmarshal([]byte(text), &r.policy)
	return r.policy, err
}
