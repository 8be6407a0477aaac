package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// stepCPU measures the CPU time that a step of a build costs on the process runner, and that of a build of one step: all processes of
// `waybill run`. The rival starts the step's program, sh -c true, and does nothing else.
func stepCPU(ctx context.Context, o Options) ([]Result, error) {
	if o.N < 1 {
		return nil, fmt.Errorf("--n: want at least 1 step, not %d", o.N)
	}
	dir, err := os.MkdirTemp("", "waybill-bench-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	waybill := filepath.Join(dir, "waybill")
	made := exec.CommandContext(ctx, "go", "build", "-o", waybill, "./cmd/waybill")
	made.Dir, made.Stderr = "..", os.Stderr
	if err := made.Run(); err != nil {
		return nil, fmt.Errorf("build waybill: %w", err)
	}
	build := func(dir string, steps int) (time.Duration, error) { return buildOnce(ctx, waybill, dir, steps) }
	step := Result{Bench: "build-step", Unit: "ms", Subject: "a further step"}
	whole := Result{Bench: "build-step", Unit: "ms", Subject: "a build of one step"}
	program := Result{Bench: "build-step", Unit: "ms", Subject: "sh -c true"}
	if err := measureInTurn(o.Rounds, dir, map[*Result]func(string) (Round, error){
		&step: func(dir string) (Round, error) {
			one, err := build(dir, 1)
			if err != nil {
				return Round{}, err
			}
			more, err := build(dir, 1+o.N)
			return cpuOfSteps(more-one, o.N), err
		},
		&whole: func(dir string) (Round, error) {
			cpu, err := build(dir, 1)
			return cpuOfSteps(cpu, 1), err
		},
		&program: func(dir string) (Round, error) {
			var cpu time.Duration
			for range o.N {
				one, err := cpuOf(exec.CommandContext(ctx, "sh", "-c", "true"), dir)
				if err != nil {
					return Round{}, err
				}
				cpu += one
			}
			return cpuOfSteps(cpu, o.N), nil
		},
	}); err != nil {
		return nil, err
	}
	for _, r := range []*Result{&step, &whole, &program} {
		r.summarizeBy(func(r Round) float64 { return r.ClientCPU / 1000 })
	}
	step.judge("at most 20 ms more than "+program.Subject, step.Median <= program.Median+20)
	return []Result{step, whole, program}, nil
}

// cpuOfSteps returns a round of CPU time, for each step.
func cpuOfSteps(cpu time.Duration, steps int) Round {
	return Round{Ops: steps, ClientCPU: float64(cpu.Microseconds()) / float64(steps)}
}

// buildOnce builds a folder of its own below dir whose stages have one step each, and returns the CPU time of the build.
func buildOnce(ctx context.Context, waybill, dir string, steps int) (time.Duration, error) {
	source, err := os.MkdirTemp(dir, "source-")
	if err != nil {
		return 0, err
	}
	var file strings.Builder
	for i := range steps {
		fmt.Fprintf(&file, "s%d: {unit: {container: {image: none, cmds: ['true']}}}\n", i)
	}
	if err := os.WriteFile(filepath.Join(source, ".wharf-ci.yml"), []byte(file.String()), 0o600); err != nil {
		return 0, err
	}
	return cpuOf(exec.CommandContext(ctx, waybill, "run", "--runner", "process", source), dir)
}

// cpuOf runs a program that has dir for all that it keeps, and returns the CPU time of the program and of what it has started.
func cpuOf(c *exec.Cmd, dir string) (time.Duration, error) {
	c.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "TMPDIR=" + dir}
	if said, err := c.CombinedOutput(); err != nil {
		return 0, fmt.Errorf("%s: %w: %s", c, err, said)
	}
	return c.ProcessState.UserTime() + c.ProcessState.SystemTime(), nil
}
