package api

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"connectrpc.com/connect"

	workerv1 "github.com/waybill-dev/waybill/api/worker/v1"
	"github.com/waybill-dev/waybill/internal/build"
)

// taken holds the positions that a reader has reported as stored.
type taken struct {
	mu        sync.Mutex
	event     int64
	entries   map[int]int64 // log ids by step
	artifacts map[int]bool
	all       chan struct{} // closed by a final acknowledgement
	closed    bool
}

func newTaken() taken {
	return taken{entries: map[int]int64{}, artifacts: map[int]bool{}, all: make(chan struct{})}
}

// Acknowledged returns a channel that is closed when a reader has acknowledged everything.
func (s *Server) Acknowledged() <-chan struct{} { return s.taken.all }

// Acknowledge records the caller's positions, after comparing it with the results.
func (s rpc) Acknowledge(_ context.Context,
	request *connect.Request[workerv1.AcknowledgeRequest]) (*connect.Response[workerv1.AcknowledgeResponse], error) {
	m := request.Msg
	if err := s.checkEvent(m.GetEventId()); err != nil {
		return nil, err
	}
	known, err := s.artifacts(0)
	if err != nil {
		return nil, answer(err)
	}
	for _, id := range m.GetArtifactIds() {
		if id < 1 || int(id) > len(known) {
			return nil, connect.NewError(connect.CodeOutOfRange, fmt.Errorf("artifact %d is not known; the last one is %d", id, len(known)))
		}
	}
	logs, err := s.checkPositions(m.GetLogs())
	if err != nil {
		return nil, err
	}
	if m.GetFinal() {
		if err := s.checkFinal(m, logs); err != nil {
			return nil, err
		}
	}
	s.taken.add(m, logs)
	return connect.NewResponse(&workerv1.AcknowledgeResponse{}), nil
}

// checkFinal returns an error unless the acknowledgement names everything that the final marker and the trailers do.
func (s *Server) checkFinal(m *workerv1.AcknowledgeRequest, logs map[int]build.Position) error {
	final, err := s.reader.Final()
	switch {
	case err != nil:
		return answer(err)
	case final == nil:
		return connect.NewError(connect.CodeFailedPrecondition, fmt.Errorf("the build has not ended"))
	}
	var missing []string
	if m.GetEventId() != final.Final.Events {
		missing = append(missing, fmt.Sprintf("events %d to %d", m.GetEventId()+1, final.Final.Events))
	}
	for step := range final.Final.Steps + 1 {
		last, err := s.reader.Last(step)
		if err != nil {
			return answer(err)
		}
		if t := last.Trailer; t == nil || logs[step] != t.End() {
			missing = append(missing, fmt.Sprintf("the log of step %d after entry %d", step, logs[step].ID))
		}
	}
	stored := map[int32]bool{}
	for _, id := range m.GetArtifactIds() {
		stored[id] = true
	}
	if n := final.Final.Artifacts - len(stored); n != 0 {
		missing = append(missing, fmt.Sprintf("%d of %d artifacts", n, final.Final.Artifacts))
	}
	if len(missing) > 0 {
		return connect.NewError(connect.CodeFailedPrecondition, fmt.Errorf("not acknowledged: %s", strings.Join(shorten(missing), ", ")))
	}
	return nil
}

// mostMissing bounds the missing things that an error lists.
const mostMissing = 10

func shorten(list []string) []string {
	if more := len(list) - mostMissing; more > 0 {
		return append(list[:mostMissing:mostMissing], fmt.Sprintf("and %d more", more))
	}
	return list
}

// add remembers an acknowledgement. One never takes back an earlier one.
func (t *taken) add(m *workerv1.AcknowledgeRequest, logs map[int]build.Position) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.event = max(t.event, m.GetEventId())
	for step, at := range logs {
		t.entries[step] = max(t.entries[step], at.ID)
	}
	for _, id := range m.GetArtifactIds() {
		t.artifacts[int(id)] = true
	}
	if m.GetFinal() && !t.closed {
		t.closed = true
		close(t.all)
	}
}

// Left reports what no reader has acknowledged: 3 of 12 events, 40 of 214 log entries, 1 of 2 artifacts.
func (s *Server) Left() (string, error) {
	events, err := s.lastEvent()
	if err != nil {
		return "", err
	}
	artifacts, err := s.artifacts(0)
	if err != nil {
		return "", err
	}
	var entries, stored int64
	for step := range s.positions {
		last, err := s.reader.Last(step)
		if err != nil {
			return "", err
		}
		if last.Trailer != nil {
			entries += last.Trailer.Entries
		}
	}
	t := &s.taken
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, id := range t.entries {
		stored += id
	}
	return fmt.Sprintf("%d of %d events, %d of %d log entries, %d of %d artifacts", events-t.event, events, entries-stored, entries,
		len(artifacts)-len(t.artifacts), len(artifacts)), nil
}
