package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/server"
)

func (a *app) statusCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Report whether everything keeps up, and if not, what is slow",
		Long: `Shows what waits that should not and why, the processes that run roles, what lives at each
handler, and what comes next. The exit status says only whether it could be read.`,
		Example: examples("waybill status", "waybill status --server http://127.0.0.1:7070 -o json"),
		Args:    arguments(0, 0),
		RunE: func(c *cobra.Command, _ []string) error {
			return a.withSession(c, func(ctx context.Context, s *session) error {
				v, err := s.Status(ctx)
				if err != nil {
					return err
				}
				if a.json() {
					return a.printJSON(v)
				}
				return a.showStatus(v)
			})
		},
	}
}

// showStatus prints the answer first, then what it rests on.
func (a *app) showStatus(v server.StatusView) error {
	fmt.Fprintln(a.out, headline(v))
	for _, t := range v.Troubles {
		since := ""
		if !t.Since.IsZero() {
			since = ", since " + clock(v.Now, t.Since)
		}
		sign := "!"
		if t.Warning {
			sign = "-"
		}
		fmt.Fprintf(a.out, "  %s %s%s\n", sign, oneLine(t.Text), since)
		if t.Hint != "" {
			fmt.Fprintf(a.out, "    %s\n", t.Hint)
		}
	}
	if err := a.showProcesses(v); err != nil {
		return err
	}
	if err := a.showHandlers(v); err != nil {
		return err
	}
	if !v.NextDue.IsZero() {
		fmt.Fprintf(a.out, "\nnext due %s\n", clock(v.Now, v.NextDue))
	}
	if len(v.Rescues) > 0 {
		var parts []string
		for _, code := range slices.Sorted(maps.Keys(v.Rescues)) {
			parts = append(parts, fmt.Sprintf("%d %s", v.Rescues[code], code))
		}
		fmt.Fprintf(a.out, "taken back from dead processes in the last hour: %s\n", strings.Join(parts, ", "))
	}
	return nil
}

// headline is the answer in one line.
func headline(v server.StatusView) string {
	live, oldest := 0, time.Duration(0)
	for _, h := range v.Handlers {
		live += h.Live()
		if h.Ready > 0 {
			oldest = max(oldest, v.Now.Sub(h.Oldest))
		}
	}
	text := "keeping up: "
	if !v.KeepsUp {
		text = "not keeping up: "
	}
	switch {
	case live == 0 && len(v.Troubles) > 0:
		return text + "no live action, " + troubleCounts(v.Troubles)
	case live == 0:
		return text + "nothing to do"
	case oldest == 0 && !v.KeepsUp:
		return text + count(live, "live action")
	case oldest == 0:
		return text + count(live, "live action") + ", none is ready and waits"
	}
	return text + fmt.Sprintf("%s, the oldest ready one waits %s", count(live, "live action"), server.Took(oldest))
}

// troubleCounts is "1 problem, 2 warnings".
func troubleCounts(troubles []server.Trouble) string {
	problems := 0
	for _, t := range troubles {
		if !t.Warning {
			problems++
		}
	}
	var parts []string
	if problems > 0 {
		parts = append(parts, count(problems, "problem"))
	}
	if warnings := len(troubles) - problems; warnings > 0 {
		parts = append(parts, count(warnings, "warning"))
	}
	return strings.Join(parts, ", ")
}

func (a *app) showProcesses(v server.StatusView) error {
	if len(v.Processes) == 0 {
		fmt.Fprintln(a.out, "\nno process runs roles")
		return nil
	}
	fmt.Fprintln(a.out)
	var t table
	t.add("PROCESS", "STATE", "GUARD", "ROLES", "SINCE", "VERSION", "CONFIGURATION")
	for _, p := range v.Processes {
		t.add(p.Name, p.State, p.Guard, strings.Join(p.Roles, " "), clock(v.Now, p.Since), p.Version, reloadText(p, v.Now))
	}
	return t.write(a.out)
}

// reloadText is since when a process goes by its configuration, and whether the file says something else.
func reloadText(p server.InstanceView, now time.Time) string {
	switch {
	case p.Reload == nil:
		return "-"
	case len(p.Reload.Faults) > 0:
		return "of " + clock(now, p.Reload.Since) + "; refused at " + clock(now, p.Reload.TriedAt)
	}
	return "of " + clock(now, p.Reload.Since)
}

func (a *app) showHandlers(v server.StatusView) error {
	if len(v.Handlers) == 0 {
		return nil
	}
	fmt.Fprintln(a.out)
	var t table
	t.add("HANDLER", "SERVED BY", "READY", "OLDEST", "PENDING", "QUEUED", "RUNNING", "BACKOFF")
	for _, h := range v.Handlers {
		oldest := "-"
		if h.Ready > 0 {
			oldest = server.Took(v.Now.Sub(h.Oldest))
		}
		row := []string{h.Handler, number(h.Served), number(h.Ready), oldest}
		for status := action.Pending; status.Live(); status++ {
			row = append(row, number(h.Counts[status]))
		}
		t.add(row...)
	}
	return t.write(a.out)
}

// number is a count; none is a dash, so that eyes find the others.
func number(n int) string {
	if n == 0 {
		return "-"
	}
	return fmt.Sprint(n)
}
