package cli

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/cli/show"
	"github.com/waybill-dev/waybill/internal/command"
	"github.com/waybill-dev/waybill/internal/docker"
	"github.com/waybill-dev/waybill/internal/fault"
)

// Values of --dry-run.
const (
	dryClient = "client" // nothing but the plan
	dryServer = "server" // what runs the steps is asked too
)

// dryRun is the flag --dry-run.
type dryRun string

func addDryRunOf(c *cobra.Command, value *dryRun) {
	f := c.Flags()
	f.StringVar((*string)(value), "dry-run", "", "print what would run, and run nothing; =server also asks what runs the steps: a cluster for each pod, Docker for the images")
	f.Lookup("dry-run").NoOptDefVal = dryClient
	offer(c, "dry-run", dryClient, dryServer)
}

// on reports whether nothing runs.
func (d dryRun) on() bool { return d != "" }

// preview is the answer to --dry-run=server.
type preview struct {
	*build.Plan
	Runner  string   `json:"runner"`
	Remarks []string `json:"remarks"`
}

// printPlan shows what a build would run, and with --dry-run=server what says its runner.
func (a *app) printPlan(ctx context.Context, j job) error {
	if j.flags.dryRun != dryServer {
		return a.printer().Answer(j.plan, show.BuildPlan(j.plan)...)
	}
	missing, err := a.giveSecrets(j.plan, j.flags)
	if err != nil {
		return err
	}
	word, remarks, problems, err := a.askRunner(ctx, j)
	if err != nil {
		return err
	}
	problems = append(missing, problems...)
	problems.Sort()
	a.printProblems(problems.Warnings())
	if err := problems.Err(); err != nil {
		return err
	}
	lines := append(show.BuildPlan(j.plan), "", word)
	for _, remark := range remarks {
		lines = append(lines, "  "+remark)
	}
	return a.printer().Answer(preview{j.plan, word, show.Items(remarks)}, lines...)
}

// askRunner asks what would run the steps of a plan whether it can, and changes nothing there.
func (a *app) askRunner(ctx context.Context, j job) (word string, remarks []string, problems fault.Problems, err error) {
	switch {
	case j.flags.runner == runnerKubernetes:
		r, err := a.newKubernetesRunner(j)
		if err != nil {
			return "", nil, nil, err
		}
		remarks, problems = r.Preview(ctx, j.plan.Steps)
		return "runner kubernetes (" + r.Where() + ")", remarks, problems, nil
	case j.flags.runner != runnerProcess && !j.flags.inPlace:
		engine, err := docker.Connect(ctx)
		if err == nil {
			config, err := a.containerConfig(j)
			if err == nil {
				remarks, problems = docker.Preview(ctx, engine, config, j.plan.Steps)
			}
			return dockerWord(engine), remarks, problems, errors.Join(err, engine.Close())
		}
		if j.flags.runner == runnerDocker {
			return "", nil, nil, fault.Wrap(fault.Unavailable, err)
		}
	}
	r := &command.Runner{}
	if r.Clusters, err = a.clusters(j.flags.clusters); err != nil {
		return "", nil, nil, err
	}
	if r.Certificates, err = a.certificates(j.flags); err != nil {
		return "", nil, nil, err
	}
	return "runner process", []string{"every program is there"}, r.Check(ctx, j.plan.Steps), nil
}
