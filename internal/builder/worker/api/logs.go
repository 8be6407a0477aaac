package api

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	"connectrpc.com/connect"

	workerv1 "github.com/waybill-dev/waybill/api/worker/v1"
	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/results"
)

// Logs sends the bytes of logs after the given positions.
func (s rpc) Logs(ctx context.Context, request *connect.Request[workerv1.LogsRequest],
	stream *connect.ServerStream[workerv1.LogsResponse]) error {
	l, err := s.newLogStream(request.Msg, stream.Send)
	if err != nil {
		return err
	}
	return l.run(ctx)
}

// logStream is one reader of logs.
type logStream struct {
	server        *Server
	send          func(*workerv1.LogsResponse) error
	since, before time.Time // zero: no bound
	steps         []*logCursor
	events        *results.Events
	learned       <-chan struct{} // the wake-up at which events was last read
	ended         bool            // the final marker was read
	buffer        []byte
	silence       *time.Timer // since the last message
	sent          bool        // a message since breathe was called
}

// logCursor is the position in one step's log up to which it was sent.
type logCursor struct {
	step    int
	at      build.Position
	began   bool
	over    bool           // nothing more is sent
	trailer *build.Trailer // nil: the step has not ended
	first   time.Time      // time at which the first waiting entry was seen for others to fill a batch; zero: none waits
}

// newLogStream reads a request.
func (s *Server) newLogStream(request *workerv1.LogsRequest, send func(*workerv1.LogsResponse) error) (*logStream, error) {
	l := &logStream{server: s, send: send, events: s.reader.EventsAfter(len(s.Plan.Steps), 0), buffer: make([]byte, results.BatchSize)}
	if request.GetSince() != nil {
		l.since = request.GetSince().AsTime()
	}
	if request.GetBefore() != nil {
		l.before = request.GetBefore().AsTime()
	}
	starts, err := s.checkPositions(request.GetAfter())
	if err != nil {
		return nil, err
	}
	if n := len(request.GetStepIds()); n > len(s.positions) {
		return nil, connect.NewError(connect.CodeInvalidArgument, fmt.Errorf("%d steps are asked for; the build has %d", n, len(s.positions)))
	}
	for _, step := range request.GetStepIds() {
		if step < 0 || int(step) >= len(s.positions) {
			return nil, noStep(step)
		}
	}
	for step := range s.positions {
		if len(request.GetStepIds()) == 0 || slices.Contains(request.GetStepIds(), int32(step)) {
			l.steps = append(l.steps, &logCursor{step: step, at: starts[step]})
		}
	}
	return l, l.seek()
}

func noStep(step int32) error {
	return connect.NewError(connect.CodeInvalidArgument, fmt.Errorf("step %d is not one of the build's", step))
}

// checkPositions returns the positions by step, or the error with the right one for the first that names two places.
func (s *Server) checkPositions(given []*workerv1.Position) (map[int]build.Position, error) {
	known := map[int]build.Position{}
	for _, p := range given {
		step := int(p.GetStepId())
		if step < 0 || step >= len(s.positions) {
			return nil, noStep(p.GetStepId())
		}
		if _, twice := known[step]; twice {
			return nil, connect.NewError(connect.CodeInvalidArgument, fmt.Errorf("step %d has two positions", step))
		}
		at := build.Position{ID: p.GetLogId(), Offset: p.GetOffset()}
		right, err := s.positions[step].AfterEntry(at.ID)
		if err != nil {
			return nil, answer(err)
		}
		if right != at {
			return nil, wrongPosition(step, at, right)
		}
		known[step] = at
	}
	return known, nil
}

// wrongPosition returns the error for a position whose halves disagree.
func wrongPosition(step int, given, right build.Position) error {
	err := connect.NewError(connect.CodeOutOfRange, fmt.Errorf("step %d: entry %d does not end at byte %d; entry %d ends at byte %d", step,
		given.ID, given.Offset, right.ID, right.Offset))
	if detail, e := connect.NewErrorDetail(position(step, right)); e == nil {
		err.AddDetail(detail)
	}
	return err
}

func position(step int, at build.Position) *workerv1.Position {
	return &workerv1.Position{StepId: int32(step), LogId: at.ID, Offset: at.Offset}
}

// seek skips entries older than the filter, as far as it is there.
func (l *logStream) seek() error {
	if l.since.IsZero() {
		return nil
	}
	for _, c := range l.steps {
		at, err := l.server.positions[c.step].Since(l.since)
		if err != nil {
			return answer(err)
		}
		if at.ID > c.at.ID {
			c.at = at
		}
	}
	return nil
}

// run sends until the build has ended and everything was sent.
func (l *logStream) run(ctx context.Context) error {
	l.silence = time.NewTimer(0) // a reader learns at once that its request was accepted
	defer l.silence.Stop()
	for {
		recorded, written, broken := l.server.Store.Recorded(), l.server.Store.Written(), l.server.brokenBy()
		if err := l.learn(recorded); err != nil {
			return answer(err)
		}
		moved, waits, err := l.round(broken != nil)
		switch {
		case err != nil:
			return answer(err)
		case moved && ctx.Err() == nil:
			if err := l.breathe(); err != nil {
				return answer(err)
			}
			continue
		case l.done():
			return nil
		case broken != nil:
			return unrecorded(broken)
		}
		if waits > 0 {
			written = nil // entries that come in the meantime change nothing
		}
		if err := l.wait(ctx, recorded, written, waits); err != nil {
			return err
		}
	}
}

// breathe shows the reader that the worker lives if nothing was sent for a while, as when all entries are out of the bounds of time.
func (l *logStream) breathe() error {
	if l.sent {
		l.sent = false
		l.silence.Reset(l.server.KeepAlive)
		return nil
	}
	select {
	case <-l.silence.C:
		l.silence.Reset(l.server.KeepAlive)
		return l.send(&workerv1.LogsResponse{})
	default:
		return nil
	}
}

// wait returns when there may be something to send, at the latest after a time if it is above 0.
func (l *logStream) wait(ctx context.Context, recorded, written <-chan struct{}, most time.Duration) error {
	var gathered <-chan time.Time
	if most > 0 {
		gathered = time.After(most)
	}
	select {
	case <-recorded:
	case <-written:
	case <-gathered:
	case <-l.silence.C:
		l.silence.Reset(l.server.KeepAlive)
		return answer(l.send(&workerv1.LogsResponse{}))
	case <-l.server.closing:
		return closed()
	case <-ctx.Done():
		return answer(context.Cause(ctx))
	}
	return nil
}

// learn reads which steps have begun and ended, unless nothing was recorded since the last time.
func (l *logStream) learn(recorded <-chan struct{}) error {
	if recorded == l.learned {
		return nil
	}
	l.learned = recorded
	events, err := l.events.Next()
	for i := range events {
		for _, c := range l.steps {
			if c.step == events[i].Step {
				c.began, c.trailer = true, events[i].Trailer
			}
		}
		l.ended = l.ended || events[i].Final != nil
	}
	return err
}

// done reports whether nothing more will come.
func (l *logStream) done() bool {
	return l.ended && !slices.ContainsFunc(l.steps, func(c *logCursor) bool { return c.began && !c.over })
}

// round sends at most one batch of each step. Without all, a batch that is not full waits for more entries: waits is how long the
// first batch still has to.
func (l *logStream) round(all bool) (moved bool, waits time.Duration, err error) {
	for _, c := range l.steps {
		if !c.began || c.over {
			continue
		}
		size, err := l.server.reader.ReadBatch(c.step, c.at.Offset, l.buffer)
		if err != nil {
			return false, 0, err
		}
		if size == 0 {
			if err := c.atEnd(l.server.reader.LogPath(c.step)); err != nil {
				return false, 0, err
			}
			continue
		}
		if wait := c.gather(size); wait > 0 && !all {
			if waits == 0 || wait < waits {
				waits = wait
			}
			continue
		}
		if err := l.sendBatch(c, l.buffer[:size]); err != nil {
			return false, 0, err
		}
		moved = true
	}
	return moved, waits, nil
}

// gather returns how long a batch waits for more entries; 0 when it is sent now.
func (c *logCursor) gather(size int) time.Duration {
	if c.trailer != nil || size >= results.BatchSize/2 {
		return 0
	}
	if c.first.IsZero() {
		c.first = time.Now()
	}
	return max(gatherFor-time.Since(c.first), 0)
}

// atEnd ends the step when everything was sent. The caller has sent all that is there.
func (c *logCursor) atEnd(path string) error {
	if c.trailer == nil {
		return nil
	}
	if at := c.trailer.End(); c.at != at {
		return fault.New(fault.Corrupt, "%s ends at entry %d, byte %d; its trailer says %d, %d", path, c.at.ID, c.at.Offset, at.ID, at.Offset)
	}
	c.over = true
	return nil
}

// sendBatch sends the part of a batch that is in the bounds of time, and moves the cursor behind the batch.
func (l *logStream) sendBatch(c *logCursor, batch []byte) error {
	from, next := c.at, c.at.After(batch)
	l.server.positions[c.step].Passed(from, next)
	c.first = time.Time{}
	for !l.since.IsZero() && len(batch) > 0 {
		line := batch[:bytes.IndexByte(batch, '\n')+1]
		if !build.ParseEntry(line).At.Before(l.since) {
			break
		}
		from, batch = from.After(line), batch[len(line):]
	}
	if !l.before.IsZero() {
		batch = l.cutBefore(c, batch)
	}
	c.at = next
	if len(batch) == 0 {
		return nil
	}
	l.sent = true
	return l.send(&workerv1.LogsResponse{StepId: int32(c.step), FirstLogId: from.ID + 1, Offset: from.Offset,
		Entries: int32(bytes.Count(batch, []byte("\n"))), Data: batch})
}

// cutBefore returns the entries that are older than the bound. The first that is not ends the step for this reader.
func (l *logStream) cutBefore(c *logCursor, batch []byte) []byte {
	size := 0
	for line := range bytes.Lines(batch) {
		if !build.ParseEntry(line).At.Before(l.before) {
			c.over = true
			break
		}
		size += len(line)
	}
	return batch[:size]
}
