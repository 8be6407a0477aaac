package promotion_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/internal/promotion"
)

// scene is a row of a table: a transcript in lines of commands, and the state after it.
type scene struct {
	name string // the first cell of the row of the design, and the case
	// Each line has commands of a transcript with "; " between them. After a line everything that is due is recorded.
	script []string
	want   []string // states of environments such as "prod b: Blocked Held", or "runs: a finished, b"
}

// Beginnings of scripts, at noon.
const (
	baseline = "see dev=a staging=a prod=a" // a has finished everywhere, in run 1
	released = "see dev=b"                  // run 2 carries b
	// Steps of the run: the proposal is made and merged, then the targets follow.
	stagingPromoted, stagingReady = "promoted staging", "see staging=b"
	prodPromoted, prodReady       = "promoted prod", "see prod=b"
)

// inStaging returns the script of b in staging, inProd that of b everywhere, with more lines.
func inStaging(more ...string) []string {
	return append([]string{baseline, released, stagingPromoted, stagingReady}, more...)
}

func inProd(more ...string) []string {
	return inStaging(append([]string{prodPromoted, prodReady}, more...)...)
}

// playScenes plays rows, each in a world of its own.
func playScenes(t *testing.T, rows []scene) {
	t.Helper()
	for _, c := range rows {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := &player{t: t, w: newWorld()}
			var log strings.Builder
			for _, line := range c.script {
				fmt.Fprintf(&log, "> %s\n%s", line, p.run(strings.Split(line, "; ")))
			}
			for _, want := range c.want {
				name, _, _ := strings.Cut(want, ":")
				if got := p.state(strings.Fields(name)[0]); got != want {
					t.Errorf("got  %s\nwant %s\n%s", got, want, log.String())
				}
			}
		})
	}
}

// state returns the state of an environment, the attempts that are live, or all runs.
func (p *player) state(name string) string {
	switch name {
	case "runs":
		return "runs: " + p.runs()
	case "live":
		return "live: " + p.live()
	}
	v := verdict(p.t, promotion.Decide(p.w.Input), promotion.EnvName(name))
	state := strings.Replace(fmt.Sprintf("%s %s: %s", v.Env, v.Want, codes(v)), " :", ":", 1)
	if do := steps(v); do != "" {
		state += " -> " + do
	}
	return state
}

// runs lists the runs: revision, environment and cause of a run of one environment, end, and the environments that it
// left.
func (p *player) runs() string {
	var list []string
	for _, r := range p.w.Runs {
		words := []string{string(r.Revision)}
		if r.Env != "" {
			words = append(words, string(r.Env), string(r.Cause))
		}
		if r.End != promotion.Running {
			words = append(words, string(r.End))
		}
		for _, f := range r.Facts {
			if f.Event == promotion.StageFailed {
				words = append(words, "left "+string(f.Env))
			}
		}
		list = append(list, strings.Join(words, " "))
	}
	return strings.Join(list, ", ")
}

// live lists the live attempts: operation, environment and run.
func (p *player) live() string {
	var list []string
	for key, a := range p.w.Attempts {
		if a.Status == promotion.AttemptLive {
			list = append(list, fmt.Sprintf("%s %s %d", key.Op, key.Env, key.Run))
		}
	}
	slices.Sort(list)
	return strings.Join(list, ", ")
}
