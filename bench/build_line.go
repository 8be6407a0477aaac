package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/builder/worker"
	"github.com/waybill-dev/waybill/internal/command"
	"github.com/waybill-dev/waybill/internal/results"
	"github.com/waybill-dev/waybill/internal/yamltree"
)

// lineCPU measures the CPU time that a line of a step costs its worker: read from the child, twenty secrets masked,
// stamped, and written. The rival reads the same child with bufio.Scanner and writes each line with its time by
// fmt.Fprintf.
func lineCPU(ctx context.Context, o Options) ([]Result, error) {
	dir, err := os.MkdirTemp("", "waybill-bench-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	lines := filepath.Join(dir, "lines")
	if err := writeLines(lines, o.N); err != nil {
		return nil, err
	}
	plan, err := secretPlan(lines)
	if err != nil {
		return nil, err
	}
	ours, scanner := Result{Bench: "build-line", Unit: "µs", Subject: "worker"}, Result{Bench: "build-line", Unit: "µs",
		Subject: "bufio.Scanner and Fprintf"}
	timed := func(once func(dir string) error) func(string) (Round, error) {
		return func(dir string) (Round, error) {
			start, cpu := time.Now(), ownCPU()
			err := once(dir)
			round := measured(o.N, start)
			round.ClientCPU = float64((ownCPU() - cpu).Microseconds()) / float64(o.N)
			return round, err
		}
	}
	if err := measureInTurn(o.Rounds, dir, map[*Result]func(string) (Round, error){
		&ours:    timed(func(dir string) error { return workOnce(ctx, dir, plan) }),
		&scanner: timed(func(dir string) error { return scanOnce(ctx, dir, lines) }),
	}); err != nil {
		return nil, err
	}
	for _, r := range []*Result{&ours, &scanner} {
		r.summarizeBy(func(r Round) float64 { return r.ClientCPU })
	}
	ours.Ratio, ours.Rival = ours.Median/scanner.Median, scanner.Subject
	ours.judge("at most 0.5 µs and a third of "+scanner.Subject, ours.Ratio <= 1.0/3 && ours.Median <= 0.5)
	return []Result{ours, scanner}, nil
}

// measureInTurn measures rounds of each subject in turn, in any order, each round in a folder of its own below dir, which is removed then.
func measureInTurn(rounds int, dir string, subjects map[*Result]func(dir string) (Round, error)) error {
	for range rounds {
		for subject, measure := range subjects {
			own, err := os.MkdirTemp(dir, "round-")
			if err != nil {
				return err
			}
			round, err := measure(own)
			if err != nil {
				return fmt.Errorf("%s: %w", subject.Subject, err)
			}
			subject.Rounds = append(subject.Rounds, round)
			if err := os.RemoveAll(own); err != nil {
				return err
			}
		}
	}
	return nil
}

// secretPlan returns the plan of a build that has twenty passwords and prints a file.
func secretPlan(lines string) (*build.Plan, error) {
	text, inputs := "inputs:\n", map[string]string{}
	for i := range 20 {
		name := fmt.Sprintf("password%d", i)
		text += fmt.Sprintf("- {name: %s, type: password}\n", name)
		inputs[name] = fmt.Sprintf("a secret with the number %d that is never printed", i)
	}
	node, problems := yamltree.Parse("f",
		[]byte(text+"test: {unit: {container: {image: none, cmds: ['exec cat "+lines+"']}}}\n"), yamltree.BuildFile)
	if err := problems.Err(); err != nil {
		return nil, err
	}
	file, problems := build.Parse(node)
	if err := problems.Err(); err != nil {
		return nil, err
	}
	plan, problems := build.MakePlan(file, build.Choice{Inputs: inputs, Timeout: time.Hour})
	if err := problems.Err(); err != nil {
		return nil, err
	}
	if n := len(plan.Secrets()); n != len(inputs) {
		return nil, fmt.Errorf("the plan has %d secrets, want %d", n, len(inputs))
	}
	return plan, nil
}

// superviseName makes this program a supervisor of steps.
const superviseName = "supervise"

// supervised returns a runner of steps under supervisors that are this program.
func supervised() (*command.Runner, error) {
	self, err := os.Executable()
	return &command.Runner{Supervisor: []string{self, superviseName}}, err
}

// workOnce runs the build. Its child's CPU time is not this process's.
func workOnce(ctx context.Context, dir string, plan *build.Plan) error {
	source, scratch := filepath.Join(dir, "source"), filepath.Join(dir, "scratch")
	store, err := results.Create(filepath.Join(dir, "results"), 1<<40)
	if err = errors.Join(err, os.MkdirAll(source, 0o700), os.MkdirAll(scratch, 0o700)); err != nil {
		return err
	}
	defer store.Close()
	if err := store.Describe(results.Build{ID: "1", Plan: plan}); err != nil {
		return err
	}
	runner, err := supervised()
	if err != nil {
		return err
	}
	defer runner.Close()
	status, err := worker.New(worker.Config{ID: "1", Plan: plan, Workspace: worker.Folder{Root: source}, Runner: runner, Store: store,
		Observer: unobserved{}, Scratch: scratch}).Run(ctx)
	if err == nil && status != build.Completed {
		err = fmt.Errorf("the build is %s", status)
	}
	return err
}

// scanOnce does what a simple program would.
func scanOnce(ctx context.Context, dir, lines string) error {
	file, err := os.Create(filepath.Join(dir, "output"))
	if err != nil {
		return err
	}
	defer file.Close()
	c := exec.CommandContext(ctx, "sh", "-c", "exec cat "+lines)
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		return err
	}
	for scanner := bufio.NewScanner(out); err == nil && scanner.Scan(); {
		_, err = fmt.Fprintf(file, "%s %s\n", time.Now().UTC().Format("2006-01-02T15:04:05.000000000Z"), scanner.Text())
	}
	return errors.Join(err, c.Wait())
}
