package turn

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/goldentest"
)

// TestTranscripts plays testdata/*.txt. A block is a line of commands, then "----" and the output; lines that begin
// with "#" are remarks.
//
//	workers N          there are so many; first in a file
//
// lane NAME N so many of a lane are ready, and a signal announces it
//
//	next               the turn to make, which then is in progress; or when to look again
//	claimed            the answer to the oldest turn: what it claimed
//	found, granted     the answer to the oldest search or ask
//	failed             the oldest turn was not made, or its answer was lost
//	ended NAME [KIND]  the oldest attempt of a lane ends
//	DURATION later     time passes
//	guard on|off       attempts may begin, or may not
//	drain              nothing more is claimed
//	slots HANDLER N    a reload allows so many attempts of a lane at a time
func TestTranscripts(t *testing.T) {
	t.Parallel()
	goldentest.Play(t, "testdata/*.txt", play)
}

// play returns a transcript with the present output of its commands.
func play(t *testing.T, text string) string {
	t.Helper()
	w := newWorld(Config{Workers: 2, Rows: 1000}, map[string]Limits{"free": {},
		"slow": {Limits: action.Limits{Lane: action.Limit{Slots: 1}}}, "away": {HandOff: true},
		"metered": {Limits: action.Limits{Lane: action.Limit{Rate: 100}}}})
	return goldentest.Blocks(text, func(block []string) string {
		var out strings.Builder
		for command := range strings.SplitSeq(strings.Join(block, "; "), "; ") {
			if said := w.command(t, strings.Fields(command)); said != "" {
				out.WriteString(said + "\n")
			}
		}
		if problem := w.check(); problem != "" {
			t.Errorf("after %q: %s", block, problem)
		}
		return out.String()
	})
}

// command makes one event happen, and returns its lines in the transcript.
func (w *world) command(t *testing.T, words []string) string {
	t.Helper()
	before := len(w.running)
	switch words[0] {
	case "workers":
		w.s.cfg.Workers, _ = strconv.Atoi(words[1])
	case "lane":
		n, _ := strconv.Atoi(words[2])
		w.add(words[1], n)
	case "next":
		next, at := w.step()
		return w.began(before) + printed(next, at, w.now)
	case "claimed", "found", "granted":
		w.answer(0, false)
		return strings.TrimSuffix(w.began(before), ", ")
	case "failed":
		w.answer(0, true)
	case "ended":
		i := slices.IndexFunc(w.running, func(c *Claim) bool { return c.Lane == words[1] })
		o := action.Outcome{Kind: action.Done}
		if len(words) > 2 {
			o = action.Outcome{Kind: action.Throttle, Error: words[2]}
		}
		w.end(i, o, time.Millisecond)
		w.begin()
		return strings.TrimSuffix(w.began(before-1), ", ")
	case "guard":
		w.s.Allow(words[1] == "on")
	case "slots":
		n, _ := strconv.Atoi(words[2])
		w.limits[words[1]] = Limits{Limits: action.Limits{Lane: action.Limit{Slots: n}}}
		w.s.Configure(w.limits, w.now)
	case "drain":
		w.s.Drain(w.now)
	default:
		d, err := time.ParseDuration(words[0])
		if err != nil {
			t.Fatalf("%v is not a command", words)
		}
		w.now = w.now.Add(d)
	}
	return ""
}

// began names the lanes of which attempts began.
func (w *world) began(before int) string {
	text := ""
	for _, c := range w.running[min(before, len(w.running)):] {
		text += "begin " + c.Lane + ", "
	}
	return text
}

// printed returns a turn as a line of a transcript.
func printed(t Turn, at, now time.Time) string {
	var parts []string
	switch {
	case t.Empty() && at.IsZero():
		return "wait"
	case t.Empty():
		return "wait " + at.Sub(now).String()
	case t.Search:
		return strings.TrimSpace("search " + t.After)
	case t.Ask:
		return "ask"
	case t.Recover:
		return "recover"
	}
	if t.Record > 0 {
		parts = append(parts, fmt.Sprintf("record %d", t.Record))
	}
	if len(t.GiveBack) > 0 {
		parts = append(parts, fmt.Sprintf("give back %d", len(t.GiveBack)))
	}
	for _, want := range t.Want {
		parts = append(parts, fmt.Sprintf("want %s %d", want.Lane, want.N))
	}
	return strings.Join(parts, ", ")
}
