package server

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/results"
)

// buildID is what a build may be called: one folder of the home's builds.
var buildID = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$`)

// buildLog serves what a build of this machine has printed as text: that of one step, or all of it with the step in front.
func (s *Server) buildLog(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("build")
	missing := fault.New(fault.NotFound, "build %s not found on this server", id).
		WithHint("its results are on the machine that built: waybill action show names it")
	if !buildID.MatchString(id) {
		WriteProblem(w, r, missing)
		return
	}
	reader, err := results.Open(results.RootAt(s.options.Builds).Dir(id))
	if fault.Is(err, fault.NotFound) {
		err = missing
	}
	if err != nil {
		WriteProblem(w, r, err)
		return
	}
	steps, err := stepsOf(reader, r.FormValue("step"))
	if err != nil {
		WriteProblem(w, r, err)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Content-Security-Policy", "sandbox") // it is foreign text on this origin
	for _, step := range steps {
		prefix := ""
		if len(steps) > 1 {
			prefix = step.Path() + " | "
		}
		if err := writeStepLog(r.Context(), w, reader, step.ID, prefix); err != nil {
			panic(http.ErrAbortHandler) // the status is sent: the client sees that the answer was cut
		}
	}
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
	err := fault.New(fault.NotFound, "the build has no step %q; it has %s", name, strings.Join(known, ", "))
	if near := fault.Nearest(name, known); near != "" {
		return nil, err.WithHint("%s", near)
	}
	return nil, err
}

// writeStepLog writes a step's lines as they were printed.
func writeStepLog(ctx context.Context, w io.Writer, r *results.Reader, step int, prefix string) error {
	begins := true
	return r.Log(ctx, step, 0, false, func(_ int64, e build.Entry) error {
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

// BuildLog returns what a build of the server's machine has printed; step "" is all of them. The caller closes it.
func (c *Client) BuildLog(ctx context.Context, id, step string) (io.ReadCloser, error) {
	q := request{method: http.MethodGet, path: at("builds", id, "log"), query: url.Values{}}
	if step != "" {
		q.query.Set("step", step)
	}
	response, err := c.send(ctx, q)
	if err != nil {
		return nil, fmt.Errorf("read the log of build %s: %w", id, err)
	}
	return response.Body, nil
}
