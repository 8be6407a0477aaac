package show

import (
	"cmp"
	"fmt"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/service"
)

// History returns the deployments that started at a target of a pipeline, one a line.
func History(name string, passages []journal.Passage, now time.Time) []string {
	var t table
	t.add("DEPLOYMENT", "REVISION", "KIND", "STARTED", "TOOK", "OUTCOME")
	for _, p := range passages {
		end := p.EndedAt
		if end.IsZero() {
			end = now
		}
		ref := service.Ref{Pipeline: name, Number: p.Deployment}
		t.add(ref.String(), p.Label, p.Kind, Ago(now, p.StartedAt), service.Took(end.Sub(p.StartedAt)), passageOutcome(p))
	}
	return t.lines()
}

// passageOutcome returns how a passage ended, with its failures.
func passageOutcome(p journal.Passage) string {
	text := cmp.Or(p.Outcome, "running")
	switch {
	case p.Failures > 1:
		text += fmt.Sprintf(", failed %d times", p.Failures)
	case p.Failures == 1 && p.Outcome != "failed":
		text += ", failed once"
	}
	if p.Error != "" {
		text += ": " + p.Error
	}
	return text
}

// Target returns the state of a target and what is on its way to it.
func Target(name string, v service.TargetView, now time.Time) []string {
	var t table
	t.add("target", v.Target)
	t.add("current", reached(v.Current, now))
	if v.Highest != nil && v.Current != nil && v.Highest.Revision != v.Current.Revision {
		t.add("highest", reached(v.Highest, now))
	}
	if v.Runs != nil {
		t.add("runs", v.Runs.String())
	}
	t.add("last failed", reached(v.Failed, now))
	lines := t.lines()
	for _, open := range v.Open {
		ref := service.Ref{Pipeline: name, Number: open.Deployment}
		lines = append(lines, "", fmt.Sprintf("%s of %s has %s to do here", open.Label, ref, Count(open.Open, "step")))
		lines = append(lines, OpenSteps(open.Steps)...)
		if open.Open > len(open.Steps) {
			lines = append(lines, fmt.Sprintf("and %d more: waybill deployment why %s %s", open.Open-len(open.Steps), ref, v.Target))
		}
	}
	return lines
}

// reached returns a revision at a target, with its deployment and when that finished or failed.
func reached(r *service.Reached, now time.Time) string {
	switch {
	case r == nil:
		return "none"
	case r.Deployment == 0:
		return r.Label
	}
	return fmt.Sprintf("%s  #%d, %s", r.Label, r.Deployment, Ago(now, r.At))
}

// Targets returns a line for each target: its current revision, the last that failed there, and the deployments on
// their way there.
func Targets(views []service.TargetView, s Style, now time.Time) []string {
	t := table{Style: s}
	t.add("TARGET", "CURRENT", "LAST FAILED", "ON ITS WAY")
	for _, v := range views {
		current := reached(v.Current, now)
		if v.Runs != nil {
			current += "; runs " + v.Runs.String()
		}
		t.add(v.Target, current, reached(v.Failed, now), onItsWay(v))
	}
	return t.lines()
}

// onItsWay returns the active deployments with steps to do at a target, and why the first one does not continue.
func onItsWay(v service.TargetView) string {
	if len(v.Open) == 0 {
		return "none"
	}
	first := v.Open[0]
	text := fmt.Sprintf("%s  #%d", first.Label, first.Deployment)
	if more := len(v.Open) - 1 + v.More; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	if len(first.Steps) > 0 && first.Steps[0].Reason != "" {
		text += ": " + first.Steps[0].Reason
	}
	return text
}

// Metrics returns the four measures of each stage, and with weeks a line for each week of it.
func Metrics(stages []service.StageMetrics, weeks bool) []string {
	var t table
	t.add("STAGE", "DEPLOYMENTS", "A WEEK", "LEAD TIME P50", "P95", "FAILED", "RESTORED IN P50", "P95")
	for _, s := range stages {
		t.add(measures(s.Stage, s.All)...)
		if !weeks {
			continue
		}
		for _, w := range s.Weeks {
			t.add(measures("  "+w.From.Format(time.DateOnly), w.Measures)...)
		}
	}
	return t.lines()
}

// measures returns the cells of a row of Metrics.
func measures(name string, m service.Measures) []string {
	failed := "-"
	if m.Changes > 0 {
		failed = fmt.Sprintf("%d of %d (%.0f %%)", m.Failures, m.Changes, 100*m.FailureRate)
	}
	cells := []string{name, fmt.Sprint(m.Deployments), fmt.Sprintf("%.1f", m.PerWeek)}
	cells = append(cells, spread(m.LeadTime)...)
	return append(append(cells, failed), spread(m.Restore)...)
}

// spread returns the two cells of a spread.
func spread(s *service.Spread) []string {
	if s == nil {
		return []string{"-", "-"}
	}
	text := func(d action.Duration) string { return service.Took(time.Duration(d)) }
	return []string{text(s.P50), text(s.P95)}
}

// Difference returns which point is ahead, and the revisions that the other one does not have.
func Difference(v service.DifferenceView, now time.Time) []string {
	from, to := pointText(v.From), pointText(v.To)
	if v.Newer == "" {
		return []string{from + " and " + to + " are the same revision"}
	}
	if v.Newer == v.To.Name {
		from, to = to, from
	}
	lines := []string{fmt.Sprintf("%s has %s that %s has not", from, Count(len(v.Revisions), "revision"), to)}
	if v.More {
		lines[0] = fmt.Sprintf("%s has more than %s that %s has not; the newest are", from, Count(len(v.Revisions), "revision"), to)
	}
	var t table
	t.add("REVISION", "COMMIT", "COMMITTED", "SUBJECT")
	for _, r := range v.Revisions {
		at := "-"
		if !r.CommittedAt.IsZero() {
			at = Ago(now, r.CommittedAt)
		}
		t.add(r.Label, dash(r.Commit), at, dash(r.Subject))
	}
	return append(lines, t.lines()...)
}

// pointText returns a stage with its revision, or a revision.
func pointText(p service.DifferencePoint) string {
	if p.Deployment == 0 {
		return p.Label
	}
	return fmt.Sprintf("%s (%s of #%d)", p.Name, p.Label, p.Deployment)
}
