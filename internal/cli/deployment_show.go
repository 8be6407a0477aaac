package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/server"
)

func (a *app) deploymentShowCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "show DEPLOYMENT",
		Short: "Show where a deployment stands: its stages, hosts and steps; what failed, why, and what to do",
		Example: examples("waybill deployment show greeter#7", "waybill deployment show greeter   # its newest",
			"waybill deployment show greeter#7 -o json | jq .failures"),
		Args:              arguments(1, 1, "DEPLOYMENT"),
		ValidArgsFunction: a.completeDeployments,
		RunE: a.withDeployment(func(ctx context.Context, s *session, ref server.Ref, _ []string) error {
			v, err := s.Deployment(ctx, ref)
			if err != nil {
				return err
			}
			if a.json() {
				return a.printJSON(v)
			}
			if v.State.Status == pipeline.StatusActive {
				s.warnIfIdle(ctx, a)
			}
			return a.showDeployment(v)
		}),
	}
}

// showDeployment prints the board, then what failed or what it waits for.
func (a *app) showDeployment(v server.DeploymentView) error {
	s := a.style(a.out)
	fmt.Fprintf(a.out, "%s  revision %s  definition %d  %s\n", s.bold(refOf(v.Deployment).String()), v.Label, v.State.Version, a.standing(v, s))
	for _, text := range (layout{style: s}).render(boardLines(v)) {
		fmt.Fprintln(a.out, text)
	}
	for _, f := range v.Failures {
		fmt.Fprintf(a.out, "%s %s of %s\n", s.bad("failed:"), server.StepName(f.Event), f.Target)
		fmt.Fprintf(a.out, "  why: %s\n", indentAfterFirst(f.Why, "       "))
		fmt.Fprintf(a.out, "  do:  %s\n", f.Todo)
		if !f.Action.IsZero() {
			fmt.Fprintf(a.out, "  all attempts: waybill action show %s\n", f.Action)
		}
	}
	for _, stage := range v.Stages {
		for host := range hosts(stage) {
			if host.Runs != nil {
				fmt.Fprintf(a.out, "%s %s%s\n", s.warn("still runs:"), strings.TrimPrefix(host.Target, v.Pipeline+"/"), doubtText(host.Runs))
			}
		}
	}
	if reason := waitingFor(v); reason != "" {
		fmt.Fprintf(a.out, "%s %s\n", s.warn("waiting:"), reason)
	}
	return nil
}

// doubtText is why a release that runs is not one to trust: ", untested".
func doubtText(r *server.Running) string {
	if r.Doubt == "" {
		return ""
	}
	return ", " + r.Doubt
}

// standing is a deployment's status in words, with times.
func (a *app) standing(v server.DeploymentView, s style) string {
	text := paintStatus(s, v.State.Status)
	if v.State.Status == pipeline.StatusSuperseded && v.State.By != 0 {
		text += " by " + server.Ref{Pipeline: v.Pipeline, Number: v.State.By}.String()
	}
	switch {
	case v.State.Status == pipeline.StatusActive:
		text += fmt.Sprintf(", %d of %d done", v.State.Done, v.State.Total)
	case !v.State.EndedAt.IsZero():
		text += fmt.Sprintf(" %s, after %s", ago(time.Now(), v.State.EndedAt), server.Took(v.State.EndedAt.Sub(v.CreatedAt)))
	}
	if v.State.Status == pipeline.StatusActive && v.State.Until != "" {
		text += ", until " + v.State.Until
	}
	if v.State.Held != "" {
		text += ", " + s.warn("held "+v.State.Held)
	}
	return text
}

// indentAfterFirst indents the lines of a text that follow its first.
func indentAfterFirst(text, indent string) string {
	return strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n"+indent)
}
