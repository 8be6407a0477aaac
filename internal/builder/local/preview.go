package local

import (
	"context"
	"errors"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/command"
	"github.com/waybill-dev/waybill/internal/docker"
	"github.com/waybill-dev/waybill/internal/fault"
)

// preview is the plan of a build.
type preview struct {
	Plan    *build.Plan
	Asked   bool     // the runner of the steps was checked too
	Runner  string   // what runs the steps, for people
	Remarks []string // remarks of the runner
}

// Preview plans a build that does not run. With DryServer the runner checks whether it can run the steps.
func (b *Builder) Preview(ctx context.Context, folder string, flags Options) (p preview, err error) {
	j, end, err := b.prepare(ctx, folder, flags)
	if err != nil {
		return preview{}, err
	}
	defer func() { err = errors.Join(err, end()) }()
	if flags.DryRun != DryServer {
		return preview{Plan: j.plan}, nil
	}
	missing, err := b.giveSecrets(j.plan, j.flags)
	if err != nil {
		return preview{}, err
	}
	word, remarks, problems, err := b.askRunner(ctx, j)
	if err != nil {
		return preview{}, err
	}
	problems = append(missing, problems...)
	problems.Sort()
	b.Problems(problems.Warnings())
	return preview{Plan: j.plan, Asked: true, Runner: word, Remarks: remarks}, problems.Err()
}

// askRunner checks whether the runner of a plan can run its steps, and changes nothing there.
func (b *Builder) askRunner(ctx context.Context, j job) (word string, remarks []string, problems fault.Problems, err error) {
	switch {
	case j.flags.Runner == RunnerKubernetes:
		r, err := b.newKubernetesRunner(j)
		if err != nil {
			return "", nil, nil, err
		}
		remarks, problems = r.Preview(ctx, j.plan.Steps)
		return "runner kubernetes (" + r.Where() + ")", remarks, problems, nil
	case j.flags.Runner != RunnerProcess && !j.flags.InPlace:
		engine, err := docker.Connect(ctx)
		if err == nil {
			config, err := b.containerConfig(j)
			if err == nil {
				remarks, problems = docker.Preview(ctx, engine, config, j.plan.Steps)
			}
			return dockerWord(engine), remarks, problems, errors.Join(err, engine.Close())
		}
		if j.flags.Runner == RunnerDocker {
			return "", nil, nil, fault.Wrap(fault.Unavailable, err)
		}
	}
	r := &command.Runner{}
	if r.Clusters, err = b.clusters(j.flags.Clusters); err != nil {
		return "", nil, nil, err
	}
	if r.Certificates, err = b.certificates(j.flags); err != nil {
		return "", nil, nil, err
	}
	return "runner process", []string{"every program is there"}, r.Check(ctx, j.plan.Steps), nil
}
