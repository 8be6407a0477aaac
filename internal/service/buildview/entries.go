package buildview

import (
	"bytes"
	"context"
	"errors"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/results"
)

// Bounds of a request for a log.
const (
	MostEntries    = 10_000 // entries of one answer in JSON
	DefaultEntries = 1000   // entries of one answer, unless the request names a number
)

// LogEntry is a line of a build's log as JSON.
type LogEntry struct {
	ID         int64     `json:"logId"` // counts from 1 in each step
	BuildID    string    `json:"buildId"`
	StepID     int       `json:"stepId"`
	Message    string    `json:"message"` // bytes that are not UTF-8 are replaced
	Timestamp  time.Time `json:"timestamp"`
	Partial    bool      `json:"partial,omitempty"` // the line continues in the next entry
	Stream     string    `json:"stream"`            // stdout, stderr, or waybill (a message of the worker)
	LineEnding string    `json:"lineEnding"`        // \n or \r\n; "": the line continues in the next entry, or the output ended without one
}

func LogEntryOf(buildID string, l build.Line) LogEntry {
	return LogEntry{
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

// LogQuery selects entries of the logs of steps.
type LogQuery struct {
	Steps  []int     // ascending
	From   int       // step to begin with; 0: the first
	After  int64     // id of an entry of the first step: only later entries are sent
	Since  time.Time // only entries that are not older
	Before time.Time // only older entries
	Limit  int       // 0: all
	Tail   int       // only so many last entries of each step; 0: all
}

// ErrEnough stops a scan without being an error.
var ErrEnough = errors.New("enough")

// scanBuildLog gives the entries of a step after a place to visit, as far as the log goes now, and returns the place after the
// last entry that visit has taken. The text of an entry is valid until visit returns. The error ErrEnough of visit is not returned.
func scanBuildLog(ctx context.Context, r Reader, step int, from build.Position, visit func(build.Line) error) (build.Position, error) {
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
			if errors.Is(err, ErrEnough) {
				return from, nil
			} else if err != nil {
				return from, err
			}
			from = from.After(line)
		}
	}
}

// EachEntry gives the entries that a query selects to visit, step by step.
func EachEntry(ctx context.Context, r Reader, q LogQuery, visit func(build.Line) error) error {
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
				return ErrEnough
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
func (q LogQuery) begin(ctx context.Context, r Reader, step int) (build.Position, error) {
	var places []LogPlace
	if step == max(q.From, q.Steps[0]) && q.After > 0 {
		places = append(places, LogPlace{After: q.After})
	}
	if !q.Since.IsZero() {
		places = append(places, LogPlace{Since: q.Since})
	}
	if q.Tail > 0 {
		end, err := r.Locate(ctx, step, q.TailEnd())
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

// TailEnd names the place after the last entry that counts for Tail.
func (q LogQuery) TailEnd() LogPlace {
	if q.Before.IsZero() {
		return LogPlace{After: math.MaxInt64}
	}
	return LogPlace{Since: q.Before}
}

// ReadLogQuery reads the parameters step, after, since, before, limit and tail. after is the id of an entry, with its step in
// front where several steps are asked for: 3:120.
func ReadLogQuery(state State, query url.Values) (LogQuery, error) {
	q := LogQuery{Steps: []int{0}}
	for i := range state.Plan.Steps {
		q.Steps = append(q.Steps, state.Plan.Steps[i].ID)
	}
	var err error
	if name := query.Get("step"); name != "" {
		step, err := FindStep(state.Plan, name)
		if err != nil {
			return q, err
		}
		q.Steps = []int{step.ID}
	}
	if text := query.Get("after"); text != "" {
		if q.From, q.After, err = ParseEntryPlace(text, q.Steps); err != nil {
			return q, err
		}
	}
	if err := ReadTimes(query, map[string]*time.Time{"since": &q.Since, "before": &q.Before}); err != nil {
		return q, err
	}
	for name, into := range map[string]*int{"limit": &q.Limit, "tail": &q.Tail} {
		if text := query.Get(name); text != "" {
			if *into, err = strconv.Atoi(text); err != nil || *into < 0 || *into > MostEntries {
				return q, fault.New(fault.Invalid, "%s: want a number up to %d, found %q", name, MostEntries, fault.Clip(text))
			}
		}
	}
	return q, nil
}

// ReadTimes reads parameters that are times.
func ReadTimes(query url.Values, times map[string]*time.Time) (err error) {
	for name, into := range times {
		if text := query.Get(name); text != "" {
			if *into, err = time.Parse(time.RFC3339Nano, text); err != nil {
				return fault.New(fault.Invalid, "%s: want a time such as 2026-01-02T15:04:05Z, found %q", name, fault.Clip(text))
			}
		}
	}
	return nil
}

// ParseEntryPlace reads STEP:ENTRY, or ENTRY if there is one step.
func ParseEntryPlace(text string, steps []int) (step int, id int64, err error) {
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

// stepIDs returns the steps that a request requests with step=; nil: all.
func stepIDs(state State, query url.Values) ([]int, error) {
	q, err := ReadLogQuery(state, url.Values{"step": query["step"]})
	if err != nil || query.Get("step") == "" {
		return nil, err
	}
	return q.Steps, nil
}

// wants reports whether a step is one of those that are requested.
func wants(steps []int, id int) bool { return steps == nil || slices.Contains(steps, id) }
