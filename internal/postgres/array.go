package postgres

import (
	"context"
	"encoding/binary"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/waybill-dev/waybill/internal/action"
)

// array is one column of many rows, for unnest, in PostgreSQL's binary form. Every claim, end and
// enqueue passes through it: pgx looks up the type of each value, an array only that of the column.
// nil is NULL.
type array struct {
	element uint32 // OID of the elements' type
	count   int
	nulls   bool
	data    []byte // length and value of each element
}

// pack returns the column of rows whose elements take about size bytes each.
func pack[R any](rows []R, element uint32, size int, put func(*array, *R)) *array {
	a := &array{element: element, data: make([]byte, 0, len(rows)*(4+size))}
	for i := range rows {
		a.count++
		put(a, &rows[i])
	}
	return a
}

// null appends NULL, whose length is -1.
func (a *array) null() {
	a.nulls = true
	a.data = append(a.data, 0xff, 0xff, 0xff, 0xff)
}

// text appends a text.
func (a *array) text(text string) {
	a.data = binary.BigEndian.AppendUint32(a.data, uint32(len(text)))
	a.data = append(a.data, text...)
}

// int64 appends a value of eight bytes.
func (a *array) int64(n int64) {
	a.data = binary.BigEndian.AppendUint32(a.data, 8)
	a.data = binary.BigEndian.AppendUint64(a.data, uint64(n))
}

// encode appends the whole column to a buffer: the number of dimensions, whether there are NULLs,
// the type, the length, the lower bound, and the elements.
func (a *array) encode(to []byte) []byte {
	nulls := uint32(0)
	if a.nulls {
		nulls = 1
	}
	dimensions := uint32(1)
	if a.count == 0 {
		dimensions = 0
	}
	to = binary.BigEndian.AppendUint32(to, dimensions)
	to = binary.BigEndian.AppendUint32(to, nulls)
	to = binary.BigEndian.AppendUint32(to, a.element)
	if a.count == 0 {
		return to
	}
	to = binary.BigEndian.AppendUint32(to, uint32(a.count))
	to = binary.BigEndian.AppendUint32(to, 1) // index of the first element
	return append(to, a.data...)
}

// ids returns a column of uuids; the zero id is NULL.
func ids[R any](rows []R, get func(*R) action.ID) *array {
	return pack(rows, pgtype.UUIDOID, 16, func(a *array, r *R) {
		if id := get(r); !id.IsZero() {
			a.data = binary.BigEndian.AppendUint32(a.data, 16)
			a.data = append(a.data, id[:]...)
			return
		}
		a.null()
	})
}

// smallints returns a column of smallint.
func smallints[R any](rows []R, get func(*R) int) *array {
	return pack(rows, pgtype.Int2OID, 2, func(a *array, r *R) {
		a.data = binary.BigEndian.AppendUint32(a.data, 2)
		a.data = binary.BigEndian.AppendUint16(a.data, uint16(get(r)))
	})
}

// ints returns a column of int.
func ints[R any](rows []R, get func(*R) int) *array {
	return pack(rows, pgtype.Int4OID, 4, func(a *array, r *R) {
		a.data = binary.BigEndian.AppendUint32(a.data, 4)
		a.data = binary.BigEndian.AppendUint32(a.data, uint32(get(r)))
	})
}

// bigints returns a column of bigint, with NULL where get returns false.
func bigints[R any](rows []R, get func(*R) (n int64, ok bool)) *array {
	return pack(rows, pgtype.Int8OID, 8, func(a *array, r *R) {
		if n, ok := get(r); ok {
			a.int64(n)
			return
		}
		a.null()
	})
}

// bools returns a column of boolean.
func bools[R any](rows []R, get func(*R) bool) *array {
	return pack(rows, pgtype.BoolOID, 1, func(a *array, r *R) {
		value := byte(0)
		if get(r) {
			value = 1
		}
		a.data = append(binary.BigEndian.AppendUint32(a.data, 1), value)
	})
}

// times returns a column of timestamptz; the zero time is NULL.
func times[R any](rows []R, get func(*R) time.Time) *array {
	return pack(rows, pgtype.TimestamptzOID, 8, func(a *array, r *R) {
		if at := get(r); !at.IsZero() {
			a.int64(at.UnixMicro() - epoch)
			return
		}
		a.null()
	})
}

// spans returns a column of intervals; 0 is NULL.
func spans[R any](rows []R, get func(*R) time.Duration) *array {
	return pack(rows, pgtype.IntervalOID, 16, func(a *array, r *R) {
		if d := get(r); d > 0 {
			a.data = binary.BigEndian.AppendUint32(a.data, 16)
			a.data = binary.BigEndian.AppendUint64(a.data, uint64(d.Microseconds()))
			a.data = append(a.data, 0, 0, 0, 0, 0, 0, 0, 0) // days, months
			return
		}
		a.null()
	})
}

// texts returns a column of texts, as they are.
func texts[R any](rows []R, get func(*R) string) *array {
	return pack(rows, pgtype.TextOID, 16, func(a *array, r *R) { a.text(get(r)) })
}

// optionals returns a column of texts whose empty value is NULL. It is NULL as a whole when all are
// empty.
func optionals[R any](rows []R, get func(*R) string) *array {
	some := false
	for i := range rows {
		some = some || get(&rows[i]) != ""
	}
	if !some {
		return nil
	}
	return pack(rows, pgtype.TextOID, 16, func(a *array, r *R) {
		if text := get(r); text != "" {
			a.text(text)
			return
		}
		a.null()
	})
}

// self returns a row that is its own value.
func self(text *string) string { return *text }

// takeArrays makes a new connection accept an array wherever it accepts pgx's own arrays.
func takeArrays(_ context.Context, conn *pgx.Conn) error {
	types := conn.TypeMap()
	for _, oid := range []uint32{pgtype.UUIDArrayOID, pgtype.Int2ArrayOID, pgtype.Int4ArrayOID, pgtype.Int8ArrayOID, pgtype.BoolArrayOID,
		pgtype.TimestamptzArrayOID, pgtype.IntervalArrayOID, pgtype.TextArrayOID} {
		known, _ := types.TypeForOID(oid)
		types.RegisterType(&pgtype.Type{Name: known.Name, OID: oid, Codec: arrayCodec{known.Codec}})
	}
	return nil
}

// arrayCodec is pgx's codec of an array type that also accepts an array.
type arrayCodec struct{ pgtype.Codec }

// PlanEncode returns the plan to encode a value.
func (c arrayCodec) PlanEncode(m *pgtype.Map, oid uint32, format int16, value any) pgtype.EncodePlan {
	if _, ok := value.(*array); ok && format == pgtype.BinaryFormatCode {
		return asItIs{}
	}
	return c.Codec.PlanEncode(m, oid, format, value)
}

// asItIs is the plan to encode an array.
type asItIs struct{}

// Encode appends an array.
func (asItIs) Encode(value any, to []byte) ([]byte, error) { return value.(*array).encode(to), nil }
