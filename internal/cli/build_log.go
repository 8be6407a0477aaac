package cli

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/cli/show"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/server"
)

func (a *app) buildLogCommand() *cobra.Command {
	var follow, raw bool
	c := &cobra.Command{
		Use:   "log BUILD [STAGE/STEP]",
		Short: "Print what a build's steps printed",
		Long: `Prints the lines of a step, or of every step with the step in front. What a terminal would obey is
left out; on a terminal colours stay. With --raw a step's text is printed unchanged: use it to
write a file.`,
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
	c.Flags().BoolVarP(&follow, "follow", "f", false, "print what is added until the step has ended")
	return c
}

// printBuildLog prints one step's log, or every step's in turn with the step in front: from this machine, or from a server's.
func (a *app) printBuildLog(ctx context.Context, given []string, follow, raw bool) error {
	lines := logPrinter{app: a, show: a.logText(), named: len(given) < 2}
	if address := a.Flags.Server; address != "" {
		client := server.NewClient(address, a.ClientToken(a.HomeOf(a.Dir), address), a.User())
		step := ""
		if len(given) == 2 {
			step = given[1]
		}
		if raw {
			return a.copyLog(ctx, client, given[0], step, follow)
		}
		return client.BuildLines(ctx, given[0], step, follow, lines.print)
	}
	r, err := a.openBuild(given[0])
	if err != nil {
		return err
	}
	b, err := r.Build()
	if err != nil {
		return err
	}
	steps := b.Plan.Steps
	if len(given) == 2 {
		step, err := server.BuildStep(b.Plan, given[1])
		if err != nil {
			return err
		}
		steps = []build.PlanStep{*step}
	}
	for i := range steps {
		if err := r.Log(ctx, steps[i].ID, 0, follow, func(id int64, e build.Entry) error {
			if raw {
				return a.printRaw(e)
			}
			return lines.print(server.LineOf(&steps[i], id, e))
		}); err != nil {
			return err
		}
	}
	return nil
}

// printRaw prints an entry as the program printed it.
func (a *app) printRaw(e build.Entry) error {
	text := e.Text
	if !e.Partial {
		text = append(text[:len(text):len(text)], '\n')
	}
	_, err := show.Ungated(a.out).Write(text)
	return err
}

// copyLog prints the bytes of a step from the machine of a server.
func (a *app) copyLog(ctx context.Context, client *server.Client, id, step string, follow bool) error {
	body, err := client.BuildLog(ctx, id, step, follow)
	if err != nil {
		return err
	}
	defer body.Close()
	if _, err := io.Copy(show.Ungated(a.out), body); err != nil {
		return fault.New(fault.Unavailable, "read the log of build %s: %w", id, err)
	}
	return nil
}

// logPrinter prints entries, and gathers those that are parts of one line.
type logPrinter struct {
	*app
	show  func([]byte) string
	named bool // each line has its step in front
	begun []byte
	inner bool // a piece of the line has been printed
}

// pieceSize is the number of bytes of a line above which a piece of it is printed before its end is there.
const pieceSize = 64 << 10

func (p *logPrinter) print(line server.BuildLine) error {
	if p.json() {
		return p.printer().Line(line)
	}
	p.begun = append(p.begun, line.Text...)
	if line.Partial && len(p.begun) < pieceSize {
		return nil
	}
	text := p.show(p.begun)
	if p.named && !p.inner {
		text = line.Step + " | " + text
	}
	if p.inner = line.Partial; !p.inner {
		text += "\n"
	}
	p.begun = p.begun[:0]
	_, err := io.WriteString(show.Ungated(p.out), text)
	return err
}

// logText returns how a piece of a log is printed: without what a terminal would obey.
func (a *app) logText() func([]byte) string {
	var keep func(string) bool
	if onTerminal(a.out) {
		keep = build.IsColour // the user has asked for the log itself
	}
	return func(text []byte) string { return show.EndColours(build.VisibleColours(text, keep)) }
}
