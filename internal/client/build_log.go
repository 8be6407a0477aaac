package client

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/operation"
	"github.com/waybill-dev/waybill/internal/results"
	"github.com/waybill-dev/waybill/internal/service/buildview"
)

// BuildEntries calls each for the entries of the input's step as they are stored, with the bytes that it printed. With
// follow it continues until the step has ended. The text of an entry is valid during the call.
func (c *Client) BuildEntries(ctx context.Context, in operation.BuildLogInput, follow bool, each func(build.Entry) error) error {
	in.Raw = "true"
	for offset := int64(0); ; {
		ended, err := stepEnded(ctx, c, in) // first, so that all of its log comes after its end was seen
		if err != nil {
			return err
		}
		read, err := c.entriesFrom(ctx, in, offset, each)
		if offset += read; err != nil || ended || !follow {
			return err
		}
		if err := buildview.PauseFor(ctx, followPause); err != nil {
			return err
		}
	}
}

// followPause is the interval at which a client polls a log of which it wants the exact bytes.
const followPause = 500 * time.Millisecond

// stepEnded reports whether a step, or its build, has ended.
func stepEnded(ctx context.Context, to operation.Caller, in operation.BuildLogInput) (bool, error) {
	view, err := operation.GetBuild.Call(ctx, to, in.BuildPath)
	if err != nil {
		return false, err
	}
	step, err := buildview.FindStep(view.Plan, in.Step)
	if err != nil {
		return false, err
	}
	updates := view.Done[step.ID]
	return view.Ended() || len(updates) > 0 && updates[len(updates)-1].Status.Ended(), nil
}

// entriesFrom gives the entries from a byte on to each, and returns their size.
func (c *Client) entriesFrom(ctx context.Context, in operation.BuildLogInput, offset int64,
	each func(build.Entry) error) (read int64, err error) {
	ask, err := newRequest(operation.Description(operation.ReadBuildLog), &in)
	if err != nil {
		return 0, err
	}
	ask.part = fmt.Sprintf("bytes=%d-", offset)
	response, err := c.sendRequest(ctx, ask)
	if err != nil {
		return 0, fmt.Errorf("read the log of build %s: %w", in.ID, err)
	}
	defer response.Body.Close()
	lines := bufio.NewReaderSize(response.Body, results.BatchSize)
	for {
		line, err := lines.ReadSlice('\n')
		if errors.Is(err, io.EOF) && len(line) == 0 {
			return read, nil
		} else if err != nil {
			return read, fault.New(fault.Unavailable, "read the log of build %s: %w", in.ID, err)
		}
		read += int64(len(line))
		if err := each(build.ParseEntry(line)); err != nil {
			return read, err
		}
	}
}
