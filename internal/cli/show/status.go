package show

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/service"
)

// Status returns whether everything keeps up, then the facts behind that answer.
func Status(v service.StatusView) []string {
	lines := []string{headline(v)}
	for _, t := range v.Troubles {
		lines = append(lines, troubleLines(t, v.Now)...)
	}
	lines = append(lines, "")
	lines = append(lines, instanceLines(v)...)
	if len(v.Handlers) > 0 {
		lines = append(lines, "")
		lines = append(lines, handlerLines(v)...)
	}
	if !v.NextDue.IsZero() {
		lines = append(lines, "", "next due "+In(v.Now, v.NextDue))
	}
	if len(v.Rescues) > 0 {
		var parts []string
		for _, code := range slices.Sorted(maps.Keys(v.Rescues)) {
			parts = append(parts, fmt.Sprintf("%d %s", v.Rescues[code], code))
		}
		lines = append(lines, "taken back from dead processes in the last hour: "+strings.Join(parts, ", "))
	}
	return lines
}

func troubleLines(t service.Trouble, now time.Time) []string {
	since := ""
	if !t.Since.IsZero() {
		since = ", since " + Clock(now, t.Since)
	}
	sign := "!"
	if t.Warning {
		sign = "-"
	}
	lines := []string{"  " + sign + " " + OneLine(t.Text) + since}
	if t.Hint != "" {
		for hint := range strings.SplitSeq(t.Hint, "\n") {
			lines = append(lines, "    "+hint)
		}
	}
	return lines
}

// headline returns the answer in one line.
func headline(v service.StatusView) string {
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
		return text + Count(live, "live action")
	case oldest == 0:
		return text + Count(live, "live action") + ", none is waiting to start"
	}
	return text + fmt.Sprintf("%s, the oldest ready one waits %s", Count(live, "live action"), service.Took(oldest))
}

// troubleCounts returns the number of problems and of warnings: 1 problem, 2 warnings.
func troubleCounts(troubles []service.Trouble) string {
	problems := 0
	for _, t := range troubles {
		if !t.Warning {
			problems++
		}
	}
	var parts []string
	if problems > 0 {
		parts = append(parts, Count(problems, "problem"))
	}
	if warnings := len(troubles) - problems; warnings > 0 {
		parts = append(parts, Count(warnings, "warning"))
	}
	return strings.Join(parts, ", ")
}

func instanceLines(v service.StatusView) []string {
	if len(v.Processes) == 0 {
		return []string{"no process runs roles"}
	}
	var t table
	t.add("PROCESS", "STATE", "GUARD", "LEASE", "ROLES", "SINCE", "VERSION", "CONFIGURATION")
	for _, p := range v.Processes {
		t.add(p.Name, p.State, p.Guard, cmp.Or(p.Lease(v.Now), "-"), strings.Join(p.Roles, " "), Ago(v.Now, p.Since),
			p.Version, reloadText(p, v.Now))
	}
	lines := t.lines()
	for _, p := range v.Processes {
		if p.Broker != "" {
			lines = append(lines, "service broker of "+p.Name+": "+p.Broker)
		}
	}
	return lines
}

// reloadText returns when an instance put its configuration in force, and when it refused a newer one.
func reloadText(p service.InstanceView, now time.Time) string {
	switch {
	case p.Reload == nil:
		return "-"
	case len(p.Reload.Faults) > 0:
		return "read " + Ago(now, p.Reload.Since) + "; a newer one refused " + Ago(now, p.Reload.TriedAt)
	}
	return "read " + Ago(now, p.Reload.Since)
}

func handlerLines(v service.StatusView) []string {
	var t table
	t.add("HANDLER", "SERVED BY", "READY", "OLDEST", "PENDING", "QUEUED", "RUNNING", "BACKOFF")
	for _, h := range v.Handlers {
		oldest := "-"
		if h.Ready > 0 {
			oldest = service.Took(v.Now.Sub(h.Oldest))
		}
		row := []string{h.Handler, number(h.Served), number(h.Ready), oldest}
		for status := action.Pending; status.Live(); status++ {
			row = append(row, number(h.Counts[status]))
		}
		t.add(row...)
	}
	return t.lines()
}

// number returns a count. Zero is a dash, so that other counts are easy to find.
func number(n int) string {
	if n == 0 {
		return "-"
	}
	return fmt.Sprint(n)
}
