package server

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/fault"
)

// buildID matches the name of a build, which is a folder of the home's builds.
var buildID = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$`)

// BuildLine is one entry of a build's log.
type BuildLine struct {
	Step    string    `json:"step"`
	ID      int64     `json:"logId"`
	At      time.Time `json:"at"`
	Stream  string    `json:"stream"`            // stdout, stderr, or waybill (a message of the worker)
	Partial bool      `json:"partial,omitempty"` // the line continues in the next entry
	Text    string    `json:"text"`              // bytes that are not UTF-8 are replaced
}

// LineOf returns an entry of a step's log in the form that is sent and printed.
func LineOf(step *build.PlanStep, id int64, e build.Entry) BuildLine {
	line := BuildLine{Step: step.Path(), ID: id, At: e.At, Stream: "stdout", Partial: e.Partial, Text: strings.ToValidUTF8(string(e.Text), "\ufffd")}
	switch {
	case e.Waybill:
		line.Stream = "waybill"
	case e.Stderr:
		line.Stream = "stderr"
	}
	return line
}

// buildLog serves the log of a build, of one step or of all. As text, the lines of several steps have the step's name in front. With
// raw=true the bytes of one step are those that it printed. As a stream, each event is a BuildLine.
func (s *Server) buildLog(w http.ResponseWriter, r *http.Request) {
	reader, state, err := s.service.BuildState(r.Context(), r.PathValue("build"))
	if err != nil {
		WriteProblem(w, r, err)
		return
	}
	steps, err := stepsOf(state.Plan, r.FormValue("step"))
	if err != nil {
		WriteProblem(w, r, err)
		return
	}
	source := stepLogs{reader, s.service.builds, r.FormValue("follow") == "true"}
	if wantsStream(r.Header.Get("Accept")) {
		from, after, err := parseLogCursor(r.Header.Get("Last-Event-ID"))
		if err != nil {
			WriteProblem(w, r, err)
			return
		}
		ServeEvents(w, r, func(ctx context.Context, events *EventStream) error {
			return sendLog(ctx, events, source, laterSteps(steps, from), after)
		})
		return
	}
	raw := r.FormValue("raw") == "true"
	if raw && len(steps) != 1 {
		WriteProblem(w, r, fault.New(fault.Invalid, "raw=true wants one step, such as step=test/unit"))
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if raw {
		w.Header().Set("Content-Type", "application/octet-stream")
	}
	w.Header().Set("Content-Security-Policy", "sandbox") // the text is foreign content on this origin
	var out io.Writer = w
	if source.follow {
		out = flushed{w, http.NewResponseController(w)}
	}
	for i := range steps {
		prefix := ""
		if len(steps) > 1 {
			prefix = steps[i].Path() + " | "
		}
		var err error
		if raw {
			err = source.each(r.Context(), steps[i].ID, 0, func(e BuildEntry) error {
				_, err := out.Write(e.AppendPrinted(nil))
				return err
			})
		} else {
			err = writeStepLog(r.Context(), out, source, steps[i].ID, prefix)
		}
		if err != nil {
			panic(http.ErrAbortHandler) // the status is sent: breaking the connection is the only way to report the error
		}
	}
}

// stepLogs reads the logs of a build's steps, and with follow what is added to each until the step has ended.
type stepLogs struct {
	reader BuildReader
	source BuildSource
	follow bool
}

// each gives the entries of a step whose log id is above after to visit.
func (l stepLogs) each(ctx context.Context, step int, after int64, visit func(BuildEntry) error) error {
	from, err := l.reader.Locate(ctx, step, LogPlace{After: after})
	if err != nil {
		return err
	}
	for {
		state, err := l.reader.State(ctx)
		if err != nil {
			return err
		}
		if from, err = ScanBuildLog(ctx, l.reader, step, from, visit); err != nil {
			return err
		}
		if !l.follow || state.Ended() || state.Last(step).Status.Ended() {
			return nil
		}
		if err := l.source.Pause(ctx); err != nil {
			return err
		}
	}
}

// parseLogCursor parses the id of an event of a build's log, STEP:ENTRY; "" is the start of the log.
func parseLogCursor(text string) (step int, after int64, err error) {
	if text == "" {
		return 0, 0, nil
	}
	number, entry, _ := strings.Cut(text, ":")
	step, err = strconv.Atoi(number)
	if err == nil {
		after, err = strconv.ParseInt(entry, 10, 64)
	}
	if err != nil {
		return 0, 0, fault.New(fault.Invalid, "Last-Event-ID: want STEP:ENTRY, found %q", text)
	}
	return step, after, nil
}

// laterSteps returns the steps from the one with an id on; 0 is all steps.
func laterSteps(steps []build.PlanStep, from int) []build.PlanStep {
	for i := range steps {
		if steps[i].ID == from {
			return steps[i:]
		}
	}
	return steps
}

// sendLog sends the entries of steps and then an event "end". Of the first step it sends only the entries after one.
func sendLog(ctx context.Context, events *EventStream, logs stepLogs, steps []build.PlanStep, after int64) error {
	for i := range steps {
		step := &steps[i]
		if err := logs.each(ctx, step.ID, after, func(e BuildEntry) error {
			return events.JSON(fmt.Sprintf("%d:%d", step.ID, e.ID), "line", LineOf(step, e.ID, e.Entry))
		}); err != nil {
			return err
		}
		after = 0
	}
	return events.JSON("", "end", struct{}{})
}

// flushed flushes each write to the client.
type flushed struct {
	io.Writer
	control *http.ResponseController
}

func (f flushed) Write(p []byte) (int, error) {
	n, err := f.Writer.Write(p)
	if err == nil {
		err = f.control.Flush()
	}
	return n, err
}

// stepsOf returns the step with a name, or all steps if it is "".
func stepsOf(p *build.Plan, name string) ([]build.PlanStep, error) {
	if name == "" {
		return p.Steps, nil
	}
	step, err := BuildStep(p, name)
	if err != nil {
		return nil, err
	}
	return []build.PlanStep{*step}, nil
}

// BuildStep returns the step named stage/step or by its number; 0 is the build itself.
func BuildStep(p *build.Plan, name string) (*build.PlanStep, error) {
	var known []string
	for i := range p.Steps {
		if step := &p.Steps[i]; step.Path() == name || strconv.Itoa(step.ID) == name {
			return step, nil
		}
		known = append(known, p.Steps[i].Path())
	}
	if name == "0" {
		return &build.PlanStep{}, nil
	}
	return nil, fault.New(fault.NotFound, "the build has no step %q; it has %s", name, strings.Join(known, ", ")).WithNearest(name, known)
}

// writeStepLog writes a step's lines as they were printed, each after the prefix.
func writeStepLog(ctx context.Context, w io.Writer, logs stepLogs, step int, prefix string) error {
	begins := true
	return logs.each(ctx, step, 0, func(e BuildEntry) error {
		text := e.Text
		if begins {
			text = append([]byte(prefix), text...)
		}
		if begins = !e.Partial; begins {
			text = append(text[:len(text):len(text)], '\n')
		}
		_, err := w.Write(text)
		return err
	})
}

// BuildLog returns the bytes that a step of a build of the server's machine printed. With follow it continues until the step ends. The
// caller closes it.
func (c *Client) BuildLog(ctx context.Context, id, step string, follow bool) (io.ReadCloser, error) {
	query := logQuery(step, follow)
	query.Set("raw", "true")
	response, err := c.sendRequest(ctx, request{method: http.MethodGet, path: apiPath("builds", id, "log"), query: query})
	if err != nil {
		return nil, fmt.Errorf("read the log of build %s: %w", id, err)
	}
	return response.Body, nil
}

// BuildLines calls each for every entry that BuildLog returns. A broken connection is resumed without loss or repetition.
func (c *Client) BuildLines(ctx context.Context, id, step string, follow bool, each func(BuildLine) error) error {
	ask := request{method: http.MethodGet, path: apiPath("builds", id, "log"), query: logQuery(step, follow), accept: "text/event-stream"}
	return c.followStream(ctx, ask, func(kind, data string) (bool, error) {
		if kind == "end" {
			return false, nil
		}
		var line BuildLine
		if err := json.Unmarshal([]byte(data), &line); err != nil {
			return false, fmt.Errorf("read the log of build %s: %w", id, err)
		}
		return true, each(line)
	})
}

func logQuery(step string, follow bool) url.Values {
	query := url.Values{}
	if step != "" {
		query.Set("step", step)
	}
	if follow {
		query.Set("follow", "true")
	}
	return query
}
