package aggregator

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"time"

	"connectrpc.com/connect"

	workerv1 "github.com/waybill-dev/waybill/api/worker/v1"
	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/builds"
	"github.com/waybill-dev/waybill/internal/fault"
)

// reader reads the streams of one connection into the writer.
type reader struct {
	*follower
	client   *client
	writer   *writer
	patience time.Duration
	final    *builds.Event // the final marker, which is stored last
}

// stream is a stream of messages from a worker.
type stream[M any] struct {
	name string
	open func(context.Context) (*connect.ServerStreamForClient[M], error)
}

// receive gives the messages of the stream to take, until the stream ends on its own. A message must come within
// patience; the time that take needs does not count.
func (s stream[M]) receive(ctx context.Context, patience time.Duration, take func(context.Context, *M) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watch := time.AfterFunc(patience, func() { cancel(errSilence) })
	defer watch.Stop()
	stream, err := s.open(ctx)
	if err != nil {
		return fmt.Errorf("read %s: %w", s.name, silent(ctx, err))
	}
	defer stream.Close()
	for stream.Receive() {
		watch.Stop()
		if err := take(ctx, stream.Msg()); err != nil {
			return fmt.Errorf("read %s: %w", s.name, err)
		}
		watch.Reset(patience)
	}
	if err := stream.Err(); err != nil {
		return fmt.Errorf("read %s: %w", s.name, silent(ctx, err))
	}
	return nil
}

// silent returns the cause of an error, if that is the worker's silence.
func silent(ctx context.Context, err error) error {
	if errors.Is(context.Cause(ctx), errSilence) {
		return errSilence
	}
	return err
}

// events reads the changes of status. The final marker stays with the reader.
func (r *reader) events(ctx context.Context, after int64) error {
	asked := map[int]bool{} // steps whose tests were read: each ends once
	events := stream[workerv1.StatusEventsResponse]{"events",
		func(ctx context.Context) (*connect.ServerStreamForClient[workerv1.StatusEventsResponse], error) {
			return r.client.worker.StatusEvents(ctx, connect.NewRequest(&workerv1.StatusEventsRequest{AfterEventId: after}))
		}}
	return events.receive(ctx, r.patience, func(ctx context.Context, m *workerv1.StatusEventsResponse) error {
		if err := r.checkCount(len(m.GetEvents())); err != nil {
			return err
		}
		var batch item
		for _, e := range m.GetEvents() {
			event := eventOf(e)
			if event.Final != nil {
				if event.Step != 0 || !event.Status.Ended() {
					return fault.New(fault.Corrupt, "event %s has the final marker, and is not the end of the build", event.EventID)
				}
				r.final = &event
				continue
			}
			batch.events = append(batch.events, event)
			batch.size += itemSize + int64(len(event.Reason)+len(event.Message))
			if event.Step == 0 || !event.Status.Ended() || asked[event.Step] {
				continue
			}
			asked[event.Step] = true
			var err error
			if batch.tests, err = r.client.tests(ctx, event.Step); err != nil {
				return err
			}
			if len(batch.tests) == 0 {
				continue
			}
			if err := r.putTests(ctx, batch); err != nil {
				return err
			}
			batch = item{}
		}
		return r.put(ctx, batch)
	})
}

// itemSize is roughly how many bytes an event or artifact takes beside its texts.
const itemSize = 300

// put hands over an item that takes a part of the budget, up to a quarter.
func (r *reader) put(ctx context.Context, i item) error {
	size := min(i.size, mostOfOne/4)
	if err := r.writer.budget.take(ctx, size); err != nil {
		return err
	}
	return r.writer.put(ctx, i, size)
}

// putTests hands over events whose last one ends a step with test results. They are stored together, and take as much of the budget
// as they have bytes of text.
func (r *reader) putTests(ctx context.Context, batch item) error {
	for _, file := range batch.tests {
		for _, t := range file.Results {
			batch.size += int64(len(t.Suite) + len(t.Name) + len(t.Message) + len(t.File))
		}
	}
	return r.put(ctx, batch)
}

// checkCount refuses a message of more events or artifacts than any worker sends: each takes far more memory than its bytes.
func (r *reader) checkCount(n int) error {
	if n > mostListed {
		return fault.New(fault.Corrupt, "the worker of build %d sent %d events or artifacts at once; %d are allowed",
			r.worker.Build, n, mostListed)
	}
	return nil
}

// eventOf returns an event as it is stored. A status that this program does not know is never a change that is allowed.
func eventOf(e *workerv1.StatusEvent) builds.Event {
	event := builds.Event{Source: builds.Worker, EventID: strconv.FormatInt(e.GetEventId(), 10), Step: int(e.GetStepId()),
		Status:  build.Status(e.GetStatus().Name()),
		Attempt: int(e.GetAttempt()), Reason: e.GetReason(), Message: e.GetMessage(), At: e.GetAt().AsTime()}
	if e.ExitCode != nil {
		code := int(e.GetExitCode())
		event.ExitCode = &code
	}
	if t := e.GetTrailer(); t != nil {
		event.Trailer = &build.Trailer{Entries: t.GetEntries(), Bytes: t.GetBytes(), SHA256: hex.EncodeToString(t.GetSha256())}
	}
	if f := e.GetFinal(); f != nil {
		event.Final = &build.Final{Steps: int(f.GetSteps()), Events: f.GetEvents(), Artifacts: int(f.GetArtifacts())}
	}
	return event
}

// logs reads the entries of all steps.
func (r *reader) logs(ctx context.Context, after map[int]build.Position) error {
	request := &workerv1.LogsRequest{}
	for step, p := range after {
		request.After = append(request.After, &workerv1.Position{StepId: int32(step), LogId: p.ID, Offset: p.Offset})
	}
	logs := stream[workerv1.LogsResponse]{"logs",
		func(ctx context.Context) (*connect.ServerStreamForClient[workerv1.LogsResponse], error) {
			return r.client.worker.Logs(ctx, connect.NewRequest(request))
		}}
	return logs.receive(ctx, r.patience, func(ctx context.Context, m *workerv1.LogsResponse) error {
		if m.GetEntries() == 0 {
			return r.writer.put(ctx, item{}, 0)
		}
		batch := &builds.LogBatch{
			Step:    int(m.GetStepId()),
			Begin:   build.Position{ID: m.GetFirstLogId() - 1, Offset: m.GetOffset()},
			Entries: int(m.GetEntries()),
			Data:    m.GetData(),
		}
		size := int64(len(batch.Data))
		if err := r.writer.budget.take(ctx, size); err != nil {
			return err
		}
		if size >= packAlready {
			r.writer.pack(batch)
		}
		return r.writer.put(ctx, item{log: batch}, size)
	})
}

// artifacts reads the artifacts and stores their bytes.
func (r *reader) artifacts(ctx context.Context, after int) error {
	artifacts := stream[workerv1.ArtifactEventsResponse]{"artifacts",
		func(ctx context.Context) (*connect.ServerStreamForClient[workerv1.ArtifactEventsResponse], error) {
			return r.client.worker.ArtifactEvents(ctx, connect.NewRequest(&workerv1.ArtifactEventsRequest{AfterArtifactId: int32(after)}))
		}}
	return artifacts.receive(ctx, r.patience, func(ctx context.Context, m *workerv1.ArtifactEventsResponse) error {
		if err := r.checkCount(len(m.GetArtifacts())); err != nil {
			return err
		}
		for _, a := range m.GetArtifacts() {
			switch id := int(a.GetId()); {
			case id <= after:
				continue // what is stored under its key stays
			case id > after+1:
				return &builds.GapError{Build: r.worker.Build, What: "artifact", Got: build.Position{ID: int64(id - 1)},
					Want: build.Position{ID: int64(after)}}
			}
			stored, err := r.fetch(ctx, build.Artifact{ID: int(a.GetId()), Step: int(a.GetStepId()), Name: a.GetName(), Size: a.GetSize(),
				SHA256: hex.EncodeToString(a.GetSha256()), Kind: a.GetKind(), Executable: a.GetExecutable()})
			if err != nil {
				return err
			}
			if err := r.put(ctx, item{artifact: &stored, size: itemSize + int64(len(stored.Name)+len(stored.Kind))}); err != nil {
				return err
			}
			after++
		}
		return r.writer.put(ctx, item{}, 0)
	})
}
