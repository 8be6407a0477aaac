package build

import (
	"context"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/cli/cmdline"
	"github.com/waybill-dev/waybill/internal/cli/show"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/operation"
	"github.com/waybill-dev/waybill/internal/service/buildview"
)

func buildLogCommand(a *cmdline.App) *cobra.Command {
	var follow, raw bool
	var since, before string
	var timeout time.Duration
	c := &cobra.Command{
		Use:   "log BUILD [STAGE/STEP]",
		Short: "Print what a build's steps printed",
		Long: `Prints the lines of a step, or of every step with the step in front. A step may also be named by its
number, by its name, or by the beginning of that, if no other step fits. What a terminal would obey
is left out; on a terminal colours stay. With --raw the bytes that a step printed are printed
unchanged, without remarks of Waybill: use it to write a file. When nothing has run, the standard
error says why; the status is 1 if it failed, and 4 if it was canceled. With --follow, Ctrl-C stops
the printing only, and so does --timeout, with status 124.`,
		Example: cmdline.Examples("waybill build log 3 test/unit --follow", "waybill build log 3 --since 10m",
			"waybill build log 01a1f866-0d10-7c55-9d3e-5b0c7c1a2f77.1 --server https://waybill.example.org"),
		ValidArgsFunction: completeBuilds(a),
		Args:              cmdline.Arguments(1, 2, "BUILD", "STAGE/STEP"),
		RunE: func(c *cobra.Command, given []string) error {
			if raw && (len(given) < 2 || a.JSON()) {
				return fault.New(fault.Invalid, "--raw prints one step as text").WithHint("waybill build log %s STAGE/STEP --raw", given[0])
			}
			o := buildLogOptions{Build: given[0], Step: cmdline.Optional(given, 1), Follow: follow, Raw: raw,
				Bytes: show.Ungated(a.Out), Colours: cmdline.OnTerminal(a.Out), Out: a.Printer()}
			var err error
			now := time.Now()
			if o.Since, err = cmdline.ReadPast("--since", since, now); err != nil {
				return err
			}
			if o.Before, err = cmdline.ReadPast("--before", before, now); err != nil {
				return err
			}
			if address := a.Flags.Server; address != "" {
				o.Server, o.Address = buildClient(a, address), address
			} else {
				o.Builds = shelfOf(a)
			}
			return cmdline.Within(c.Context(), timeout, func(ctx context.Context) error { return runBuildLog(ctx, o) })
		},
	}
	c.Flags().BoolVar(&raw, "raw", false, "print the exact bytes that one step printed, control characters too")
	c.Flags().StringVar(&since, "since", "", "only what was printed at this time (RFC 3339) or later, or at most this long ago, such as 10m")
	c.Flags().StringVar(&before, "before", "", "only what was printed before this time (RFC 3339), or longer ago, such as 10m")
	c.Flags().BoolVarP(&follow, "follow", "f", false, "print what is added until the step has ended")
	cmdline.AddTimeout(c, &timeout, "with --follow: "+cmdline.StopWatching)
	return c
}

type buildLogOptions struct {
	Server  buildLogServer // nil: the build is on this computer
	Address string         // URL of the server
	Builds  buildShelf
	Build   string
	Step    string // "": every step, with the step in front of each line
	Follow  bool
	Raw     bool      // print the bytes of one step unchanged
	Bytes   io.Writer // Out without its gate
	Colours bool      // whether colours of the log pass

	Since, Before time.Time // bounds of the printed entries' times; zero: any time
	Out           show.Printer
}

// buildLogServer reads the logs of builds on a server's machine.
type buildLogServer interface {
	operation.Caller
	FollowBuild(ctx context.Context, id, step string, each func(buildview.Line) error) error
	BuildEntries(ctx context.Context, in operation.BuildLogInput, follow bool, each func(build.Entry) error) error
}

// runBuildLog prints the log of one step, or of every step in turn. When there is none, it reports the build's
// result.
func runBuildLog(ctx context.Context, o buildLogOptions) error {
	read, empty := o.fromHere, true
	if o.Server != nil {
		read = o.fromServer
	}
	lines := &logPrinter{out: o.Out, bytes: o.Bytes, visible: show.LogText(o.Colours), named: o.Step == "", live: o.Follow && o.Colours}
	err := read(ctx, lines, func(at time.Time) bool {
		empty = false
		return !at.Before(o.Since) && (o.Before.IsZero() || at.Before(o.Before))
	})
	if o.Follow {
		err = cmdline.Unended(ctx, err, "build "+o.Build, "waybill build log "+o.Build+" --follow"+atServer(o.Address))
	}
	if empty && (err == nil || fault.Is(err, fault.NotFound)) {
		return o.explainEmpty(ctx, err)
	}
	return err
}

// atServer returns the connection of a command to a server.
func atServer(address string) string {
	if address == "" {
		return ""
	}
	return " --server " + address
}

// fromHere prints the log of a build of this computer. covers reports whether an entry of a time is printed.
func (o buildLogOptions) fromHere(ctx context.Context, lines *logPrinter, covers func(time.Time) bool) error {
	r, err := o.Builds.open(o.Build)
	if err != nil {
		return err
	}
	b, err := r.Build()
	if err != nil {
		return err
	}
	steps := b.Plan.Steps
	if o.Step != "" {
		step, err := buildview.FindStep(b.Plan, o.Step)
		if err != nil {
			return err
		}
		steps = []build.PlanStep{*step}
	}
	for i := range steps {
		if err := r.Log(ctx, steps[i].ID, o.Follow, func(l build.Line) error {
			switch {
			case !covers(l.At):
				return nil
			case o.Raw:
				return printRaw(o.Bytes, l.Entry)
			}
			return lines.print(buildview.LineOf(&steps[i], l))
		}); err != nil {
			return err
		}
	}
	return nil
}

// fromServer prints the log of a build of a server's machine, as fromHere does.
func (o buildLogOptions) fromServer(ctx context.Context, lines *logPrinter, covers func(time.Time) bool) error {
	in := operation.BuildLogInput{BuildPath: operation.BuildPath{ID: o.Build}, Step: o.Step}
	if o.Raw {
		return o.Server.BuildEntries(ctx, in, o.Follow, func(e build.Entry) error {
			if !covers(e.At) {
				return nil
			}
			return printRaw(o.Bytes, e)
		})
	}
	covered := func(line buildview.Line) error {
		if !covers(line.At) {
			return nil
		}
		return lines.print(line)
	}
	if o.Follow {
		return o.Server.FollowBuild(ctx, o.Build, o.Step, covered)
	}
	in.Since, in.Before = o.Since, o.Before
	return operation.EachLine(ctx, o.Server, in, covered)
}

// printRaw prints the output of the program.
func printRaw(w io.Writer, e build.Entry) error {
	_, err := w.Write(e.AppendPrinted(nil))
	return err
}

// logPrinter prints entries, and gathers those that are parts of one line. Those of several steps may come mixed.
type logPrinter struct {
	out     show.Printer
	bytes   io.Writer
	visible func([]byte) string
	named   bool              // each line has its step in front
	live    bool              // a terminal shows lines while they grow
	begun   map[string][]byte // by step, its line so far
	open    string            // the step whose line is printed in part; "": none
	shown   string            // printed part of its line, since the last piece
}

// pieceSize is the number of bytes of a line above which a piece is printed before the line is complete.
const pieceSize = 64 << 10

func (p *logPrinter) print(line buildview.Line) error {
	if p.out.JSON {
		return p.out.Line(line)
	}
	begun := append(p.begun[line.Step], line.Text...)
	piece := len(begun) >= pieceSize
	if line.Partial && !piece {
		if p.begun == nil {
			p.begun = map[string][]byte{}
		}
		if p.begun[line.Step] = begun; !p.live {
			return nil
		}
	} else {
		delete(p.begun, line.Step)
	}
	text := p.grown(line.Step, p.visible(begun))
	switch {
	case !line.Partial:
		p.open, p.shown = "", ""
		text += "\n"
	case piece:
		p.shown = ""
	}
	_, err := io.WriteString(p.bytes, text)
	return err
}

// grown returns a function that shows the text of a step's line after what is printed. A line that its step has
// replaced, such as one that shows progress, is replaced.
func (p *logPrinter) grown(step, text string) string {
	front := ""
	if p.named {
		front = build.VisibleText([]byte(step)) + " | "
	}
	was, open := p.shown, p.open
	p.shown, p.open = text, step
	switch rest, longer := strings.CutPrefix(text, was); {
	case open == "":
		return front + text
	case open != step:
		return "\n" + front + text
	case longer:
		return rest
	}
	return "\r\x1b[K" + front + text
}
