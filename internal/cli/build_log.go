package cli

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/results"
	"github.com/waybill-dev/waybill/internal/server"
)

func (a *app) buildLogCommand() *cobra.Command {
	var follow, raw bool
	c := &cobra.Command{
		Use:   "log BUILD [STAGE/STEP]",
		Short: "Print what a build's steps printed",
		Long: `Prints the lines of a step, or of every step with the step in front. What a terminal would obey is
left out; on a terminal colours stay. With --raw a step's text is printed as it is: for files, or
for a terminal that you do not mind.`,
		Example:           examples("waybill build log 3 test/unit --follow", "waybill build log 01a1f866-0d10-7c55-9d3e-5b0c7c1a2f77.1 --server https://waybill.example.org"),
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
	if a.flags.server != "" {
		return a.printServedLog(ctx, given, follow, raw)
	}
	r, err := a.openBuild(given[0])
	if err != nil {
		return err
	}
	b, err := r.Build()
	if err != nil {
		return err
	}
	if len(given) == 2 {
		step, err := server.BuildStep(b.Plan, given[1])
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

func (a *app) printStepLog(ctx context.Context, r *results.Reader, step *build.PlanStep, prefix string, follow, raw bool) error {
	show, out := a.logText(raw), ungated(a.out)
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
		text := show(begun)
		begun = begun[:0]
		_, err := fmt.Fprintln(out, prefix+text)
		return err
	})
}

// logText returns how a piece of a log is printed: as it is when raw, else without what a terminal would obey.
func (a *app) logText(raw bool) func([]byte) string {
	if raw {
		return func(text []byte) string { return string(text) }
	}
	var keep func(string) bool
	if onTerminal(a.out) {
		keep = build.IsColour // the user has asked for the log itself
	}
	return func(text []byte) string { return closed(build.VisibleColours(text, keep)) }
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

// pieceSize bounds how much of a line of a served log is held at a time.
const pieceSize = 64 << 10

// printServedLog prints a log from the machine of a server.
func (a *app) printServedLog(ctx context.Context, given []string, follow, raw bool) error {
	if follow || a.json() {
		return fault.New(fault.Invalid, "--follow and -o json have no effect on a server's log: it is text, as far as it has been printed").WithHint("leave them out")
	}
	step := ""
	if len(given) == 2 {
		step = given[1]
	}
	address := a.flags.server
	body, err := server.NewClient(address, a.clientToken(a.homeOf(a.dir), address), a.user()).BuildLog(ctx, given[0], step)
	if err != nil {
		return err
	}
	defer body.Close()
	show, out, lines := a.logText(raw), ungated(a.out), bufio.NewReaderSize(body, pieceSize)
	for {
		piece, err := lines.ReadSlice('\n')
		text, whole := bytes.CutSuffix(piece, []byte("\n"))
		shown := show(text)
		if whole {
			shown += "\n"
		}
		if _, err := io.WriteString(out, shown); err != nil {
			return err
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil && !errors.Is(err, bufio.ErrBufferFull):
			return fault.New(fault.Unavailable, "read the log of build %s: %w", given[0], err)
		}
	}
}
