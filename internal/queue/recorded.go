package queue

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/store"
)

// EraBits are the low bits of EventPosition.Tx, which count the transactions of one database; the bits above are its era.
const EraBits = 48

// EventPosition is a place in the recorded order of the events of all actions: by the transaction that wrote them, then by
// action and seq. Nothing ever appears behind a position that was read, however late a transaction commits and whatever the
// time of its events. The zero value is the place before all events.
type EventPosition struct {
	Tx     int64 // the era and the number of the transaction that recorded the event; not negative
	Action action.ID
	Seq    int // 0: the beginning of the action
}

// RecordedEvent is an event with its place in the recorded order.
type RecordedEvent struct {
	action.Event
	Position EventPosition
}

// positionBytes is the size of a position in a cursor.
const positionBytes = 8 + len(action.ID{}) + 4

var cursorEncoding = base64.RawURLEncoding

// String returns the position as a cursor, for ParseEventPosition alone to read.
func (p EventPosition) String() string {
	raw := binary.BigEndian.AppendUint64(make([]byte, 0, positionBytes), uint64(p.Tx))
	raw = append(raw, p.Action[:]...)
	raw = binary.BigEndian.AppendUint32(raw, uint32(p.Seq))
	return cursorEncoding.EncodeToString(raw)
}

// ParseEventPosition reads the result of String.
func ParseEventPosition(cursor string) (p EventPosition, err error) {
	raw, err := cursorEncoding.DecodeString(cursor)
	if err != nil || len(raw) != positionBytes {
		return p, errors.New("not a cursor of this stream")
	}
	p.Tx, p.Seq = int64(binary.BigEndian.Uint64(raw)), int(binary.BigEndian.Uint32(raw[positionBytes-4:]))
	copy(p.Action[:], raw[8:])
	if p.Tx < 0 {
		return EventPosition{}, errors.New("not a cursor of this stream")
	}
	return p, nil
}

// Stream is the events of all actions in the order in which they were recorded.
type Stream struct{ queue *Queue }

// NewStream returns the events of a queue.
func NewStream(q *Queue) *Stream { return &Stream{queue: q} }

// EventsAfter lists at most limit events of all actions after a position, in the recorded order, with the beginnings of
// actions as seq 0. Events whose transaction began after one that is still open are left for a later call, so fewer than
// limit does not mean the end.
func (s *Stream) EventsAfter(ctx context.Context, after EventPosition, limit int) (events []RecordedEvent, err error) {
	err = s.queue.read(ctx, "read events", func(tx rows) error {
		events, err = tx.EventsAfter(after, limit)
		return err
	})
	return events, err
}

// EventsEnd returns the position from which a reader gets all that is recorded from now on; it may also get what was recorded
// just before.
func (s *Stream) EventsEnd(ctx context.Context) (p EventPosition, err error) {
	err = s.queue.read(ctx, "read the position of events", func(tx rows) error {
		p.Tx, err = tx.EventsEnd()
		return err
	})
	return p, err
}

// Era returns how often the log was restored from a backup, as far as its positions show. On PostgreSQL a restore into the
// same cluster does not show: its transactions are counted on.
func (s *Stream) Era(ctx context.Context) (int64, error) {
	end, err := s.EventsEnd(ctx)
	return end.Tx >> EraBits, err
}

// OpenWriter finds the oldest transaction that delays EventsAfter.
func (s *Stream) OpenWriter(ctx context.Context) (w store.OpenWriter, err error) {
	err = s.queue.read(ctx, "look for open transactions", func(tx rows) error {
		strain, err := tx.Strain()
		w = strain.Writer
		return err
	})
	return w, err
}
