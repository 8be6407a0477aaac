package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/server"
)

// note prints a line of what ship says by itself: beside the entries when those are the output.
func (s *shipment) note(format string, args ...any) {
	out := s.out
	if s.json() {
		out = s.err
	}
	fmt.Fprintf(out, format+"\n", args...)
}

// header names the deployment that is shown below it.
func (s *shipment) header(v server.DeploymentView) {
	s.note("%s  revision %s  definition %d", s.style(s.out).bold(refOf(v.Deployment).String()), v.Label, v.State.Version)
}

func refOf(d journal.Deployment) server.Ref {
	return server.Ref{Pipeline: d.Pipeline, Number: d.Number}
}

// inProgress prints what a deployment that an earlier run left active continues with.
func (s *shipment) inProgress(ctx context.Context, d journal.Deployment) error {
	v, err := s.Deployment(ctx, refOf(d))
	if err != nil || v.State.Status != pipeline.StatusActive {
		return err
	}
	next := "resuming it"
	if v.State.Held != "" {
		next = "held " + v.State.Held + "; waiting for: " + v.State.Resume
	}
	s.note("%s is in progress: %d of %d done; %s", refOf(d), v.State.Done, v.State.Total, next)
	return nil
}

// nothingToDo prints that a revision has finished. When hosts differ from that, it offers at a terminal to deploy again.
func (s *shipment) nothingToDo(ctx context.Context, r pipeline.RegisteredRevision, next nextStep) (*journal.Deployment, error) {
	d := *next.deployment
	if s.json() {
		if err := s.printJSONLine(d); err != nil {
			return nil, err
		}
	}
	s.note("nothing to do: %s finished as %s, %s", d.Label, refOf(d), ago(time.Now(), d.EndedAt))
	for _, text := range next.differs {
		s.note("but %s", text)
	}
	if len(next.differs) > 0 && !s.json() && !s.flags.detach && s.ask(ctx, "deploy it again now?") {
		return s.deployAgain(ctx, r)
	}
	return nil, nil
}

// replacement is the newest deployment of another revision that is under way or has finished after d; nil without one.
func replacement(ctx context.Context, ops operations, d journal.Deployment) (*journal.Deployment, error) {
	recent, err := ops.Deployments(ctx, journal.DeploymentQuery{Pipeline: d.Pipeline, Limit: ancestryLimit})
	if err != nil {
		return nil, err
	}
	for _, other := range recent {
		if other.Number > d.Number && other.Revision != d.Revision && (other.Status == pipeline.StatusFinished || other.Status == pipeline.StatusActive) {
			return &other, nil
		}
	}
	return nil, nil
}

// stopped is the error for a deployment that is superseded or canceled.
func stopped(v server.DeploymentView) error {
	how := "was canceled"
	if v.State.Status == pipeline.StatusSuperseded {
		how = "was superseded"
		if v.State.By != 0 {
			how += " by " + server.Ref{Pipeline: v.Pipeline, Number: v.State.By}.String()
		}
	}
	switch {
	case strings.HasPrefix(v.State.Reason, "by "): // who asked for the cancel
		how += " " + v.State.Reason
	case v.State.Reason != "":
		how += ": " + v.State.Reason
	}
	return fault.New(fault.Canceled, "%s (%s) %s", refOf(v.Deployment), v.Label, how).
		WithHint("waybill ship --again, to deploy %s all the same", v.Label)
}

// outcome says how a deployment ended. again is true when somebody at the terminal asked for a retry.
func (s *shipment) outcome(ctx context.Context, v server.DeploymentView) (again bool, err error) {
	switch v.State.Status {
	case pipeline.StatusFinished:
		s.finished(v)
		return false, nil
	case pipeline.StatusFailed:
		return s.failed(ctx, v)
	case pipeline.StatusActive:
		s.halfway(v)
		return false, nil
	default:
		return false, stopped(v)
	}
}

// finished is the last line of a deployment that went through.
func (s *shipment) finished(v server.DeploymentView) {
	ran, stages, total := 0, 0, 0
	for _, stage := range v.Stages {
		before := ran
		for host := range hosts(stage) {
			total++
			if host.State == server.RunFinished {
				ran++
			}
		}
		if ran > before {
			stages++
		}
	}
	hosts := count(ran, "host")
	if ran < total {
		hosts = fmt.Sprintf("%d of %s", ran, count(total, "host"))
	}
	text := fmt.Sprintf("finished: %s runs on %s in %s", v.Label, hosts, count(stages, "stage"))
	if ran == 0 {
		text = "finished: " + v.Label
	}
	l := layout{style: s.style(s.out), columns: columnsOf(s.out)}
	s.note("%s", l.withDuration(strings.Replace(text, "finished", l.good("finished"), 1), v.State.EndedAt.Sub(v.CreatedAt)))
}

// failed says what failed, why, and what to do; at a terminal it offers the retry.
func (s *shipment) failed(ctx context.Context, v server.DeploymentView) (again bool, err error) {
	ref := refOf(v.Deployment)
	err = fault.New(fault.Failed, "%s failed: %s", ref, failureText(v)).WithHint("mend it and ship again, or: waybill deployment retry %s", ref)
	if s.json() || !onTerminal(s.out) || !s.canAsk() {
		return false, err
	}
	s.report(err)
	if !s.ask(ctx, "retry it now?") {
		return false, shown{err}
	}
	if err := s.Command(ctx, ref, server.Command{Kind: "retry", By: s.user()}); err != nil {
		return false, err
	}
	return true, nil
}

// failureText is one failure, or a list of several.
func failureText(v server.DeploymentView) string {
	if len(v.Failures) == 0 {
		return firstOf(v.State.Reason, "no reason is recorded")
	}
	var lines []string
	for _, f := range v.Failures {
		lines = append(lines, fmt.Sprintf("%s of %s: %s", server.StepName(f.Event), f.Target, strings.ReplaceAll(strings.TrimSpace(f.Why), "\n", "\n    ")))
	}
	if len(lines) == 1 {
		return lines[0]
	}
	return "\n  " + strings.Join(lines, "\n  ")
}
