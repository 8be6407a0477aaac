package postgres

import (
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/pipeline"
)

// Values as pgx encodes and scans them, for statements that run too rarely to need array and
// reader.

// column returns one column of many rows, for unnest.
func column[R, C any](rows []R, get func(R) C) []C {
	values := make([]C, len(rows))
	for i, r := range rows {
		values[i] = get(r)
	}
	return values
}

// uuid returns an id as pgx encodes it; the zero id is NULL.
func uuid(id action.ID) pgtype.UUID { return pgtype.UUID{Bytes: id, Valid: !id.IsZero()} }

// uuids returns a column of ids.
func uuids(all []action.ID) *array { return ids(all, func(id *action.ID) action.ID { return *id }) }

// idOf scans a uuid; NULL is the zero id.
type idOf struct{ to *action.ID }

// ScanUUID stores a column's value in the id.
func (s idOf) ScanUUID(v pgtype.UUID) error {
	*s.to = action.ID{}
	if v.Valid {
		*s.to = v.Bytes
	}
	return nil
}

// stamp returns a time as pgx encodes it; the zero time is NULL.
func stamp(t time.Time) pgtype.Timestamptz { return pgtype.Timestamptz{Time: t, Valid: !t.IsZero()} }

// timeOf scans a timestamptz in UTC; NULL is the zero time.
type timeOf struct{ to *time.Time }

// ScanTimestamptz stores a column's value in the time.
func (s timeOf) ScanTimestamptz(v pgtype.Timestamptz) error {
	*s.to = time.Time{}
	if v.Valid {
		*s.to = v.Time.UTC()
	}
	return nil
}

// textOf scans a text; NULL is "".
type textOf struct{ to *string }

// ScanText stores a column's value in the text.
func (s textOf) ScanText(v pgtype.Text) error {
	*s.to = v.String
	return nil
}

// document returns JSON as text, so that pgx does not encode it again; empty is NULL.
func document(raw []byte) pgtype.Text { return pgtype.Text{String: string(raw), Valid: len(raw) > 0} }

// digestOf returns a digest as pgx encodes it; the zero one is NULL.
func digestOf(d *pipeline.Digest) []byte {
	if d.IsZero() {
		return nil
	}
	return d[:]
}

// digest scans a digest; NULL is the zero one, and one of another size is cut or padded.
type digest struct{ to *pipeline.Digest }

// ScanBytes stores a column's value in the digest.
func (s digest) ScanBytes(stored []byte) error {
	*s.to = pipeline.Digest{}
	copy(s.to[:], stored)
	return nil
}
