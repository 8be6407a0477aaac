package cli

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/results"
)

func (a *app) buildLogCommand() *cobra.Command {
	var follow, raw bool
	c := &cobra.Command{
		Use:   "log BUILD [STAGE/STEP]",
		Short: "Print what a build's steps printed",
		Long: `Prints the lines of a step, or of every step with the step in front. What a terminal would obey is
left out; on a terminal colours stay. With --raw a step's text is printed as it is: for files, or
for a terminal that you do not mind.`,
		Example:           examples("waybill build log 3 test/unit --follow"),
		ValidArgsFunction: a.completeBuilds,
		Args:              arguments(1, 2, "BUILD", "STAGE/STEP"),
		RunE: func(c *cobra.Command, given []string) error {
			if raw && (len(given) < 2 || a.json()) {
				return fault.New(fault.Invalid, "--raw prints one step as text").WithHint("waybill build log %s STAGE/STEP --raw", given[0])
			}
			return a.printBuildLog(c.Context(), given, follow, raw)
		},
	}
	c.Flags().BoolVar(&raw, "raw", false, "print one step's text as it is, control characters too")
	c.Flags().BoolVarP(&follow, "follow", "f", false, "go on until the step has ended")
	return c
}

// logLine is one entry of `waybill build log -o json`.
type logLine struct {
	Step    string    `json:"step"`
	ID      int64     `json:"logId"`
	At      time.Time `json:"at"`
	Stream  string    `json:"stream"` // stdout, stderr, waybill
	Partial bool      `json:"partial,omitempty"`
	Text    string    `json:"text"`
}

// printLog prints one step's log, or every step's in turn with the step in front.
func (a *app) printBuildLog(ctx context.Context, given []string, follow, raw bool) error {
	r, err := a.openBuild(given[0])
	if err != nil {
		return err
	}
	b, err := r.Build()
	if err != nil {
		return err
	}
	if len(given) == 2 {
		step, err := stepNamed(b.Plan, given[1])
		if err != nil {
			return err
		}
		return a.printStepLog(ctx, r, step, "", follow, raw)
	}
	for _, step := range b.Plan.Steps {
		if err := a.printStepLog(ctx, r, &step, step.Path()+" | ", follow, false); err != nil {
			return err
		}
	}
	return nil
}

// stepNamed finds a step by stage/step or by number; 0 is the build itself.
func stepNamed(p *build.Plan, name string) (*build.PlanStep, error) {
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

func (a *app) printStepLog(ctx context.Context, r *results.Reader, step *build.PlanStep, prefix string, follow, raw bool) error {
	var keep func(string) bool
	if onTerminal(a.out) {
		keep = build.IsColour // the user has asked for the log itself
	}
	out := ungated(a.out)
	var begun []byte
	return r.Log(ctx, step.ID, 0, follow, func(id int64, e build.Entry) error {
		if a.json() {
			return a.printJSONLine(logLine{Step: step.Path(), ID: id, At: e.At, Stream: streamOf(e), Partial: e.Partial,
				Text: string(bytes.ToValidUTF8(e.Text, []byte("\ufffd")))})
		}
		begun = append(begun, e.Text...)
		if e.Partial {
			return nil
		}
		text := string(begun)
		if !raw {
			text = closed(build.VisibleColours(begun, keep))
		}
		begun = begun[:0]
		_, err := fmt.Fprintln(out, prefix+text)
		return err
	})
}

func streamOf(e build.Entry) string {
	switch {
	case e.Waybill:
		return "waybill"
	case e.Stderr:
		return "stderr"
	}
	return "stdout"
}
