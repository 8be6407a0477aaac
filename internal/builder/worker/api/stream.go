package api

import (
	"context"
	"errors"
	"fmt"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	workerv1 "github.com/waybill-dev/waybill/api/worker/v1"
	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/fault"
)

// mostListed is the most events or artifacts of one message.
const mostListed = 100

// StatusEvents sends every update after the given one.
func (s rpc) StatusEvents(ctx context.Context, request *connect.Request[workerv1.StatusEventsRequest],
	stream *connect.ServerStream[workerv1.StatusEventsResponse]) error {
	after := request.Msg.GetAfterEventId()
	if err := s.checkEvent(after); err != nil {
		return err
	}
	events := s.reader.EventsAfter(len(s.Plan.Steps), after)
	send := func(found []build.Update) error {
		response := &workerv1.StatusEventsResponse{Now: timestamppb.Now()}
		for i := range found {
			response.Events = append(response.Events, statusEvent(found[i]))
		}
		return stream.Send(response)
	}
	return s.follow(ctx, func() (sent, over bool, err error) {
		final, err := s.reader.Final()
		if err != nil {
			return false, false, err
		}
		found, err := events.Next()
		for len(found) > 0 && err == nil {
			n := min(len(found), mostListed)
			err = send(found[:n])
			sent, after, found = true, found[n-1].ID, found[n:]
		}
		return sent, final != nil && after >= final.Final.Events, err
	}, func() error { return send(nil) })
}

// ArtifactEvents sends every artifact after the given one.
func (s rpc) ArtifactEvents(ctx context.Context, request *connect.Request[workerv1.ArtifactEventsRequest],
	stream *connect.ServerStream[workerv1.ArtifactEventsResponse]) error {
	after := int(request.Msg.GetAfterArtifactId())
	if known, err := s.artifacts(0); err != nil {
		return answer(err)
	} else if after < 0 || after > len(known) {
		return connect.NewError(connect.CodeOutOfRange, fmt.Errorf("artifact %d is not known; the last one is %d", after, len(known)))
	}
	send := func(found []build.Artifact) error {
		response := &workerv1.ArtifactEventsResponse{}
		for _, a := range found {
			response.Artifacts = append(response.Artifacts, &workerv1.Artifact{Id: int32(a.ID), StepId: int32(a.Step), Name: a.Name,
				Size: a.Size, Sha256: build.DigestBytes(a.SHA256), Kind: a.Kind, Executable: a.Executable})
		}
		return stream.Send(response)
	}
	return s.follow(ctx, func() (sent, over bool, err error) {
		final, err := s.reader.Final()
		if err != nil {
			return false, false, err
		}
		found, err := s.artifacts(after)
		for len(found) > 0 && err == nil {
			n := min(len(found), mostListed)
			err = send(found[:n])
			sent, after, found = true, found[n-1].ID, found[n:]
		}
		return sent, final != nil && after >= final.Final.Artifacts, err
	}, func() error { return send(nil) })
}

// follow calls next now and after every record until it is over, and keepAlive when nothing was sent for a while.
func (s *Server) follow(ctx context.Context, next func() (sent, over bool, err error), keepAlive func() error) error {
	silence := time.NewTimer(0) // a reader learns at once that its request was accepted
	defer silence.Stop()
	for {
		recorded, broken := s.Store.Recorded(), s.brokenBy()
		sent, over, err := next()
		switch {
		case err != nil:
			return answer(err)
		case over:
			return nil
		case broken != nil:
			return unrecorded(broken)
		case sent:
			silence.Reset(s.KeepAlive)
		}
		select {
		case <-recorded:
		case <-silence.C:
			if err := keepAlive(); err != nil {
				return answer(err)
			}
			silence.Reset(s.KeepAlive)
		case <-s.closing:
			return closed()
		case <-ctx.Done():
			return answer(context.Cause(ctx))
		}
	}
}

// checkEvent returns an error unless an event has been recorded; 0 is before the first.
func (s *Server) checkEvent(id int64) error {
	last, err := s.lastEvent()
	switch {
	case err != nil:
		return answer(err)
	case id < 0 || id > last:
		return connect.NewError(connect.CodeOutOfRange, fmt.Errorf("event %d is not known; the last one is %d", id, last))
	}
	return nil
}

// lastEvent returns the id of the last event that is recorded without a gap before it.
func (s *Server) lastEvent() (int64, error) {
	events, err := s.reader.EventsAfter(len(s.Plan.Steps), 0).Next()
	return int64(len(events)), err
}

// artifacts lists the artifacts after one.
func (s *Server) artifacts(after int) ([]build.Artifact, error) {
	return s.reader.ArtifactsOf(len(s.Plan.Steps), after)
}

// statusEvent returns an event as the protocol has it.
func statusEvent(e build.Update) *workerv1.StatusEvent {
	out := &workerv1.StatusEvent{EventId: e.ID, StepId: int32(e.Step), Status: workerv1.StatusOf(string(e.Status)),
		At:      timestamppb.New(e.Timestamp),
		Attempt: int32(e.Attempt), Reason: e.Reason}
	if e.ExitCode != nil {
		code := int32(*e.ExitCode)
		out.ExitCode = &code
	}
	if t := e.Trailer; t != nil {
		out.Trailer = &workerv1.Trailer{Entries: t.Entries, Bytes: t.Bytes, Sha256: build.DigestBytes(t.SHA256)}
	}
	if f := e.Final; f != nil {
		out.Final = &workerv1.Final{Steps: int32(f.Steps), Events: f.Events, Artifacts: int32(f.Artifacts)}
	}
	return out
}

// answer returns an error as the protocol has it.
func answer(err error) error {
	if _, ok := errors.AsType[*connect.Error](err); ok || err == nil {
		return err
	}
	code := connect.CodeInternal
	switch {
	case errors.Is(err, context.Canceled):
		code = connect.CodeCanceled
	case errors.Is(err, context.DeadlineExceeded):
		code = connect.CodeDeadlineExceeded
	case fault.Is(err, fault.Corrupt):
		code = connect.CodeDataLoss
	}
	return connect.NewError(code, err)
}

func closed() error {
	return connect.NewError(connect.CodeUnavailable, errors.New("the worker is ending"))
}

func unrecorded(err error) error {
	return connect.NewError(connect.CodeDataLoss, fmt.Errorf("the build has no end: %w", err))
}
