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
	"github.com/waybill-dev/waybill/internal/results"
)

// buildID is what a build may be called: one folder of the home's builds.
var buildID = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$`)

// BuildLine is one entry of a build's log.
type BuildLine struct {
	Step    string    `json:"step"`
	ID      int64     `json:"logId"`
	At      time.Time `json:"at"`
	Stream  string    `json:"stream"`            // stdout, stderr, or waybill: what the worker said
	Partial bool      `json:"partial,omitempty"` // the line continues in the next entry
	Text    string    `json:"text"`              // bytes that are not UTF-8 are replaced
}

// LineOf returns an entry as it is sent and printed.
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

// buildLog serves what a build of this machine has printed: as text, that of one step, or all of it with the step in front; or
// as a stream of events, each of them a BuildLine.
func (s *Server) buildLog(w http.ResponseWriter, r *http.Request) {
	reader, steps, err := s.openLog(r)
	if err != nil {
		WriteProblem(w, r, err)
		return
	}
	follow := r.FormValue("follow") == "true"
	if wantsStream(r.Header.Get("Accept")) {
		from, after, err := parseLogCursor(r.Header.Get("Last-Event-ID"))
		if err != nil {
			WriteProblem(w, r, err)
			return
		}
		ServeEvents(w, r, func(ctx context.Context, events *EventStream) error {
			return sendLog(ctx, events, reader, laterSteps(steps, from), after, follow)
		})
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Content-Security-Policy", "sandbox") // it is foreign text on this origin
	var out io.Writer = w
	if follow {
		out = flushed{w, http.NewResponseController(w)}
	}
	for i := range steps {
		prefix := ""
		if len(steps) > 1 {
			prefix = steps[i].Path() + " | "
		}
		if err := writeStepLog(r.Context(), out, reader, steps[i].ID, prefix, follow); err != nil {
			panic(http.ErrAbortHandler) // the status is sent: the client sees that the answer was cut
		}
	}
}

// openLog finds the build and the steps that a request names.
func (s *Server) openLog(r *http.Request) (*results.Reader, []build.PlanStep, error) {
	id := r.PathValue("build")
	missing := fault.New(fault.NotFound, "build %s not found on this server", id).
		WithHint("its results are on the machine that built: waybill action show names it")
	if !buildID.MatchString(id) {
		return nil, nil, missing
	}
	reader, err := results.Open(results.RootAt(s.options.Builds).Dir(id))
	if fault.Is(err, fault.NotFound) {
		err = missing
	}
	if err != nil {
		return nil, nil, err
	}
	steps, err := stepsOf(reader, r.FormValue("step"))
	return reader, steps, err
}

// parseLogCursor reads the id of an event of a build's log, STEP:ENTRY; "" is its start.
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

// laterSteps returns the steps from the one with an id on; 0 is all of them.
func laterSteps(steps []build.PlanStep, from int) []build.PlanStep {
	for i := range steps {
		if steps[i].ID == from {
			return steps[i:]
		}
	}
	return steps
}

// sendLog sends the entries of steps, of the first one those behind after, then an event "end".
func sendLog(ctx context.Context, events *EventStream, r *results.Reader, steps []build.PlanStep, after int64, follow bool) error {
	for i := range steps {
		step := &steps[i]
		if err := r.Log(ctx, step.ID, after, follow, func(id int64, e build.Entry) error {
			return events.JSON(fmt.Sprintf("%d:%d", step.ID, id), "line", LineOf(step, id, e))
		}); err != nil {
			return err
		}
		after = 0
	}
	return events.JSON("", "end", struct{}{})
}

// flushed sends what is written at once.
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

// stepsOf returns the step that is named, or all steps.
func stepsOf(r *results.Reader, name string) ([]build.PlanStep, error) {
	b, err := r.Build()
	if err != nil || name == "" {
		return b.Plan.Steps, err
	}
	step, err := BuildStep(b.Plan, name)
	if err != nil {
		return nil, err
	}
	return []build.PlanStep{*step}, nil
}

// BuildStep finds a step by stage/step or by number; 0 is the build itself.
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

// writeStepLog writes a step's lines as they were printed.
func writeStepLog(ctx context.Context, w io.Writer, r *results.Reader, step int, prefix string, follow bool) error {
	begins := true
	return r.Log(ctx, step, 0, follow, func(_ int64, e build.Entry) error {
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

// BuildLog returns as text what a build of the server's machine has printed, and with follow also what it prints until it ends;
// step "" is all steps. The caller closes it.
func (c *Client) BuildLog(ctx context.Context, id, step string, follow bool) (io.ReadCloser, error) {
	response, err := c.sendRequest(ctx, request{method: http.MethodGet, path: apiPath("builds", id, "log"), query: logQuery(step, follow)})
	if err != nil {
		return nil, fmt.Errorf("read the log of build %s: %w", id, err)
	}
	return response.Body, nil
}

// BuildLines calls each for every entry that BuildLog would return. A cut connection is resumed without loss or repeat.
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
