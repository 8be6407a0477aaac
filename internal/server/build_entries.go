package server

import (
	"bytes"
	"context"
	"errors"
	"math"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/results"
)

// Bounds of a request for a log.
const (
	mostEntries    = 10_000 // entries of one answer in JSON
	defaultEntries = 1000   // entries of one answer, unless the request names a number
)

// BuildLogEntry is a line of a build's log as JSON.
type BuildLogEntry struct {
	ID         int64     `json:"logId"` // counts from 1 in each step
	BuildID    string    `json:"buildId"`
	StepID     int       `json:"stepId"`
	Message    string    `json:"message"` // bytes that are not UTF-8 are replaced
	Timestamp  time.Time `json:"timestamp"`
	Partial    bool      `json:"partial,omitempty"` // the line continues in the next entry
	Stream     string    `json:"stream"`            // stdout, stderr, or waybill (a message of the worker)
	LineEnding string    `json:"lineEnding"`        // \n or \r\n; "": the line continues in the next entry, or the output ended without one
}

func logEntryOf(buildID string, l build.Line) BuildLogEntry {
	return BuildLogEntry{
		ID:         l.ID,
		BuildID:    buildID,
		StepID:     l.Step,
		Message:    l.ValidText(),
		Timestamp:  l.At,
		Partial:    l.Partial,
		Stream:     l.Stream(),
		LineEnding: l.Ending(),
	}
}

// BuildLogQuery selects entries of the logs of steps.
type BuildLogQuery struct {
	Steps  []int     // ascending
	From   int       // step to begin with; 0: the first
	After  int64     // of the first step, only entries with a greater id
	Since  time.Time // only entries that are not older
	Before time.Time // only older entries
	Limit  int       // 0: all
	Tail   int       // only so many last entries of each step; 0: all
}

// errEnough stops a scan without being an error.
var errEnough = errors.New("enough")

// scanBuildLog gives the entries of a step after a place to visit, as far as the log goes now, and returns the place after the
// last entry that visit has taken. The text of an entry is valid until visit returns. The error errEnough of visit is not returned.
func scanBuildLog(ctx context.Context, r BuildReader, step int, from build.Position, visit func(build.Line) error) (build.Position, error) {
	buffer := make([]byte, results.BatchSize)
	for {
		if err := ctx.Err(); err != nil {
			return from, context.Cause(ctx)
		}
		size, err := r.ReadLog(ctx, step, from.Offset, buffer)
		if err != nil || size == 0 {
			return from, err
		}
		for line := range bytes.Lines(buffer[:size]) {
			err := visit(build.Line{Step: step, ID: from.ID + 1, Entry: build.ParseEntry(line)})
			if errors.Is(err, errEnough) {
				return from, nil
			} else if err != nil {
				return from, err
			}
			from = from.After(line)
		}
	}
}

// EachBuildEntry gives the entries that a query selects to visit, step by step.
func EachBuildEntry(ctx context.Context, r BuildReader, q BuildLogQuery, visit func(build.Line) error) error {
	count := 0
	for _, step := range q.Steps {
		if step < q.From {
			continue
		}
		from, err := q.begin(ctx, r, step)
		if err != nil {
			return err
		}
		if _, err := scanBuildLog(ctx, r, step, from, func(e build.Line) error {
			if q.Limit > 0 && count == q.Limit || !q.Before.IsZero() && !e.At.Before(q.Before) {
				return errEnough
			}
			count++
			return visit(e)
		}); err != nil {
			return err
		}
		if q.Limit > 0 && count == q.Limit {
			return nil
		}
	}
	return nil
}

// begin returns where the entries of a step begin that the query selects.
func (q BuildLogQuery) begin(ctx context.Context, r BuildReader, step int) (build.Position, error) {
	var places []LogPlace
	if step == max(q.From, q.Steps[0]) && q.After > 0 {
		places = append(places, LogPlace{After: q.After})
	}
	if !q.Since.IsZero() {
		places = append(places, LogPlace{Since: q.Since})
	}
	if q.Tail > 0 {
		end, err := r.Locate(ctx, step, q.tailEnd())
		if err != nil {
			return build.Position{}, err
		}
		places = append(places, LogPlace{After: max(0, end.ID-int64(q.Tail))})
	}
	var begin build.Position
	for _, place := range places {
		at, err := r.Locate(ctx, step, place)
		if err != nil {
			return begin, err
		}
		if at.ID > begin.ID {
			begin = at
		}
	}
	return begin, nil
}

// tailEnd names the place after the last entry that counts for Tail.
func (q BuildLogQuery) tailEnd() LogPlace {
	if q.Before.IsZero() {
		return LogPlace{After: math.MaxInt64}
	}
	return LogPlace{Since: q.Before}
}

// readLogQuery reads the parameters step, after, since, before, limit and tail. after is the id of an entry, with its step in
// front where several steps are asked for: 3:120.
func readLogQuery(state BuildState, query url.Values) (BuildLogQuery, error) {
	q := BuildLogQuery{Steps: []int{0}}
	for i := range state.Plan.Steps {
		q.Steps = append(q.Steps, state.Plan.Steps[i].ID)
	}
	var err error
	if name := query.Get("step"); name != "" {
		step, err := BuildStep(state.Plan, name)
		if err != nil {
			return q, err
		}
		q.Steps = []int{step.ID}
	}
	if text := query.Get("after"); text != "" {
		if q.From, q.After, err = parseEntryPlace(text, q.Steps); err != nil {
			return q, err
		}
	}
	if err := readTimes(query, map[string]*time.Time{"since": &q.Since, "before": &q.Before}); err != nil {
		return q, err
	}
	for name, into := range map[string]*int{"limit": &q.Limit, "tail": &q.Tail} {
		if text := query.Get(name); text != "" {
			if *into, err = strconv.Atoi(text); err != nil || *into < 0 || *into > mostEntries {
				return q, fault.New(fault.Invalid, "%s: want a number up to %d, found %q", name, mostEntries, fault.Clip(text))
			}
		}
	}
	return q, nil
}

// readTimes reads parameters that are times.
func readTimes(query url.Values, times map[string]*time.Time) (err error) {
	for name, into := range times {
		if text := query.Get(name); text != "" {
			if *into, err = time.Parse(time.RFC3339Nano, text); err != nil {
				return fault.New(fault.Invalid, "%s: want a time such as 2026-01-02T15:04:05Z, found %q", name, fault.Clip(text))
			}
		}
	}
	return nil
}

// parseEntryPlace reads STEP:ENTRY, or ENTRY if there is one step.
func parseEntryPlace(text string, steps []int) (step int, id int64, err error) {
	number, entry, both := strings.Cut(text, ":")
	if !both {
		number, entry = strconv.Itoa(steps[0]), text
	}
	step, err = strconv.Atoi(number)
	if err == nil {
		id, err = strconv.ParseInt(entry, 10, 64)
	}
	if err != nil || step < 0 || id < 0 || !both && len(steps) > 1 {
		return 0, 0, fault.New(fault.Invalid, "after: want STEP:ENTRY, or with step ENTRY, found %q", fault.Clip(text))
	}
	return step, id, nil
}
