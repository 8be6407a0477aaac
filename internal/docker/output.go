package docker

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/moby/moby/api/pkg/stdcopy"
	"github.com/moby/moby/client"

	"github.com/waybill-dev/waybill/internal/attempt"
	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/mask"
)

// chunk is the result of one read of one output from the connection.
type chunk struct {
	stderr bool
	data   []byte
}

// Bounds on reading ahead of a slow disk, which lets the Engine go on at the end of a step.
const (
	chunksAhead = 256
	chunkSize   = 32 << 10 // size of the Engine's frames
)

// settle bounds the time between the end of the output and the end of the container. Without it, the connection
// broke.
const settle = time.Second

// A connection that breaks looks like the end of the output. So the log is read once more at the end of a step if it is short, else
// its last messages.
const (
	checkedWhole = 4 << 20 // bytes
	checkedTail  = 1000    // messages
	keptTail     = 1 << 20 // bytes that are compared of each output
)

// outputs carries both outputs of a container to a sink.
type outputs struct {
	api *client.Client
	id  string
	to  [2]*attempt.Output
	at  [2]position
	all int64 // bytes taken

	last [2][]byte // up to twice keptTail
}

func newOutputs(api *client.Client, id string, sink build.Sink, secrets *mask.Set) *outputs {
	return &outputs{api: api, id: id, to: [2]*attempt.Output{attempt.NewOutput(sink, false, secrets), attempt.NewOutput(sink, true, secrets)}}
}

// attach connects to the outputs of a container that has not started.
func (o *outputs) attach(ctx context.Context) (client.HijackedResponse, error) {
	attached, err := persist(ctx, func(ctx context.Context) (client.ContainerAttachResult, error) {
		return o.api.ContainerAttach(ctx, o.id, client.ContainerAttachOptions{Stream: true, Stdout: true, Stderr: true})
	})
	return attached.HijackedResponse, err
}

// follow hands everything that the container prints on until it has ended, which closes exited. An error is that of
// the sink, or reports that the log cannot be read.
func (o *outputs) follow(ctx context.Context, attached client.HijackedResponse, exited <-chan struct{}) error {
	stop := context.AfterFunc(ctx, attached.Close)
	defer stop()
	defer attached.Close()
	lost, err := o.copy(ctx, attached.Reader, [2]skipper{})
	if err != nil {
		return err
	}
	ended := endedWithin(ctx, exited, settle)
	if !ended || lost != nil || o.all <= checkedWhole || !o.hasTail(ctx) {
		err = o.readLog(ctx, exited, ended)
	}
	for _, to := range o.to {
		err = errors.Join(err, to.Close())
	}
	return err
}

func endedWithin(ctx context.Context, exited <-chan struct{}, within time.Duration) bool {
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case <-exited:
		return true
	case <-ctx.Done():
	case <-timer.C:
	}
	select {
	case <-exited:
		return true
	default:
		return false
	}
}

// readLog reads the container's log until it has been read to its end after the container's. The part that was taken
// is skipped.
func (o *outputs) readLog(ctx context.Context, exited <-chan struct{}, ended bool) error {
	var away outage
	for {
		began, before := time.Now(), o.all
		lost, err := o.readLogOnce(ctx, !ended)
		switch {
		case err != nil:
			return err
		case lost == nil && ended:
			return nil
		case lost == nil:
			ended = endedWithin(ctx, exited, settle) // the log is read once more, since its end may have been the Engine's
			continue
		}
		if o.all > before {
			away = outage{} // it was there
		}
		if !away.again(ctx, began, lost) {
			return lost
		}
		ended = ended || endedWithin(ctx, exited, 0)
	}
}

// readLogOnce returns as lost why the log was not read to its end, and as err that of the sink.
func (o *outputs) readLogOnce(ctx context.Context, follow bool) (lost, err error) {
	log, err := o.api.ContainerLogs(ctx, o.id, client.ContainerLogsOptions{ShowStdout: true, ShowStderr: true, Follow: follow})
	if err != nil {
		return err, nil
	}
	defer log.Close()
	return o.copy(ctx, log, [2]skipper{o.at[0].skipper(), o.at[1].skipper()})
}

// hasTail reports whether the part that was taken ends as the log does. It reports false if that does not prove that
// nothing is missing, since the output repeats itself.
func (o *outputs) hasTail(ctx context.Context) bool {
	log, err := o.api.ContainerLogs(ctx, o.id, client.ContainerLogsOptions{ShowStdout: true, ShowStderr: true,
		Tail: strconv.Itoa(checkedTail)})
	if err != nil {
		return false
	}
	defer log.Close()
	var tails [2]bytes.Buffer // tails of messages, which are short
	if _, err := stdcopy.StdCopy(&tails[0], &tails[1], log); err != nil {
		return false
	}
	for i := range tails {
		tail := tails[i].Bytes()
		tail = tail[max(0, len(tail)-keptTail):]
		line := tail[bytes.LastIndexByte(bytes.TrimSuffix(tail, []byte("\n")), '\n')+1:]
		if !bytes.HasSuffix(o.last[i], tail) || len(line) > 0 && bytes.Count(tail, line) > 1 {
			return false
		}
	}
	return true
}

// copy hands on the content of a multiplexed stream. It returns as lost the reason of the stream's end, nil at its
// end, and as err that of the sink.
func (o *outputs) copy(ctx context.Context, stream io.Reader, skip [2]skipper) (lost, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	chunks, ended := make(chan chunk, chunksAhead), make(chan error, 1)
	go func() {
		_, err := stdcopy.StdCopy(chunkWriter{ctx, false, chunks}, chunkWriter{ctx, true, chunks}, stream)
		close(chunks)
		ended <- err
	}()
	silence := time.NewTimer(attempt.OutputPause)
	defer silence.Stop()
	for {
		select {
		case c, more := <-chunks:
			if !more {
				return <-ended, nil
			}
			i := 0
			if c.stderr {
				i = 1
			}
			if err := o.take(i, skip[i].rest(c.data)); err != nil {
				return nil, err
			}
			silence.Reset(attempt.OutputPause)
		case <-silence.C:
			if err := errors.Join(o.to[0].Flush(), o.to[1].Flush()); err != nil {
				return nil, err
			}
		}
	}
}

func (o *outputs) take(i int, data []byte) error {
	o.at[i].add(data)
	o.all += int64(len(data))
	if o.last[i] = append(o.last[i], data...); len(o.last[i]) > 2*keptTail {
		o.last[i] = append(o.last[i][:0], o.last[i][len(o.last[i])-keptTail:]...)
	}
	_, err := o.to[i].Write(data)
	return err
}

// chunkWriter sends its input, until ctx ends.
type chunkWriter struct {
	ctx    context.Context //nolint:containedctx // of one call of copy
	stderr bool
	chunks chan<- chunk
}

func (w chunkWriter) Write(data []byte) (int, error) {
	for part := range slices.Chunk(data, chunkSize) {
		select {
		case w.chunks <- chunk{w.stderr, slices.Clone(part)}:
		case <-w.ctx.Done():
			return 0, context.Cause(w.ctx)
		}
	}
	return len(data), nil
}
