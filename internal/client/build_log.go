package client

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/results"
	"github.com/waybill-dev/waybill/internal/service/buildview"
)

// BuildLogRange selects what BuildLines gives.
type BuildLogRange struct {
	Step          string    // STAGE/STEP or its number; "": all
	Since, Before time.Time // bounds of the entries' times; zero: any time
}

// BuildLines calls each for the entries of a build's steps as far as they go now, step by step.
func (c *Client) BuildLines(ctx context.Context, id string, in BuildLogRange, each func(buildview.Line) error) error {
	view, err := c.Build(ctx, id)
	if err != nil {
		return err
	}
	query := numberQuery("limit", int64(buildview.MostEntries))
	addTexts(query, "step", in.Step)
	for name, at := range map[string]time.Time{"since": in.Since, "before": in.Before} {
		if !at.IsZero() {
			query.Set(name, at.Format(time.RFC3339Nano))
		}
	}
	for {
		var entries []buildview.LogEntry
		if err := c.getBuild(ctx, apiPath(id, "log"), query, &entries); err != nil {
			return err
		}
		for _, e := range entries {
			if e.StepID == 0 && in.Step == "" {
				continue // Waybill's own notes are not a step's
			}
			if err := each(lineOf(e, view)); err != nil {
				return err
			}
		}
		if len(entries) == 0 {
			return nil
		}
		last := entries[len(entries)-1]
		query.Set("after", fmt.Sprintf("%d:%d", last.StepID, last.ID))
	}
}

// BuildEntries calls each for the entries of a step as they are stored, with the bytes that it printed. With follow it continues until the
// step has ended. The text of an entry is valid during the call.
func (c *Client) BuildEntries(ctx context.Context, id, step string, follow bool, each func(build.Entry) error) error {
	for offset := int64(0); ; {
		ended, err := c.stepEnded(ctx, id, step) // first, so that all of its log comes after its end was seen
		if err != nil {
			return err
		}
		read, err := c.entriesFrom(ctx, id, step, offset, each)
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
func (c *Client) stepEnded(ctx context.Context, id, name string) (bool, error) {
	view, err := c.Build(ctx, id)
	if err != nil {
		return false, err
	}
	step, err := buildview.FindStep(view.Plan, name)
	if err != nil {
		return false, err
	}
	updates := view.Done[step.ID]
	return view.Ended() || len(updates) > 0 && updates[len(updates)-1].Status.Ended(), nil
}

// entriesFrom gives the entries from a byte on to each, and returns their size.
func (c *Client) entriesFrom(ctx context.Context, id, step string, offset int64, each func(build.Entry) error) (read int64, err error) {
	query := url.Values{"raw": {""}, "step": {step}}
	response, err := c.sendRequest(ctx, request{method: http.MethodGet, root: true, path: "/api/build" + apiPath(id, "log"), query: query,
		part: fmt.Sprintf("bytes=%d-", offset)})
	if err != nil {
		return 0, fmt.Errorf("read the log of build %s: %w", id, err)
	}
	defer response.Body.Close()
	lines := bufio.NewReaderSize(response.Body, results.BatchSize)
	for {
		line, err := lines.ReadSlice('\n')
		if errors.Is(err, io.EOF) && len(line) == 0 {
			return read, nil
		} else if err != nil {
			return read, fault.New(fault.Unavailable, "read the log of build %s: %w", id, err)
		}
		read += int64(len(line))
		if err := each(build.ParseEntry(line)); err != nil {
			return read, err
		}
	}
}
