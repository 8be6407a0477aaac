package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/waybill-dev/waybill/internal/loop"
)

// originalRounds measures the original controller beside the same fleet: until all statuses are written.
func originalRounds(ctx context.Context, o Options) ([]Result, error) {
	const name = "original controller"
	results := []Result{{Subject: name + ", cold start until all statuses are written", Unit: "s"},
		{Subject: name + ", resident memory after it", Unit: "MiB"},
		{Subject: name + ", every application changes: all statuses written", Unit: "s"}}
	for range o.Rounds {
		cold, all, err := originalRound(ctx, o)
		if err != nil {
			return nil, err
		}
		for i, round := range []Round{cold, cold, all} {
			results[i].Rounds = append(results[i].Rounds, round)
		}
	}
	for i := range results {
		results[i].Bench, results[i].Version = "promotion-fleet", "2ca1d66"
		results[i].summarizeBy(func(r Round) float64 {
			if i == 1 {
				return r.HeapMB * 1e6 / (1 << 20)
			}
			return r.Seconds
		})
	}
	return results, nil
}

// original is the original controller beside a fleet.
type original struct {
	*clusters
	size    fleetSize
	process *exec.Cmd
	began   time.Time
	folder  string
}

// startOriginal starts the clusters and then the original controller.
func startOriginal(ctx context.Context, o Options) (*original, error) {
	f := &original{size: fleetSize{Pipelines: o.Pipelines, Leaves: o.Leaves}}
	var err error
	if f.clusters, err = startFleet(ctx, f.size); err != nil {
		return nil, err
	}
	if err = f.start(ctx, o.Original); err != nil {
		f.end()
		return nil, err
	}
	return f, nil
}

// start starts the controller.
func (f *original) start(ctx context.Context, program string) (err error) {
	if f.folder, err = os.MkdirTemp("", "waybill-bench"); err != nil {
		return err
	}
	path := filepath.Join(f.folder, "kubeconfig")
	if err := os.WriteFile(path, f.management, 0o600); err != nil {
		return err
	}
	c := exec.CommandContext(ctx, program, "--enable-level-triggered", "--metrics-bind-address=0", "--health-probe-bind-address=0",
		"--promotion-hook-bind-address=127.0.0.1:0", "--log-level=error")
	c.Env = append(os.Environ(), "KUBECONFIG="+path)
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	f.began = time.Now()
	if err := c.Start(); err != nil {
		return err
	}
	f.process = c
	return nil
}

// end ends the controller and the clusters.
func (f *original) end() {
	if f.process != nil {
		_ = f.process.Process.Kill()
		_ = f.process.Wait()
	}
	f.stop()
	_ = os.RemoveAll(f.folder)
}

// originalRound measures both once.
func originalRound(ctx context.Context, o Options) (cold, all Round, err error) {
	f, err := startOriginal(ctx, o)
	if err != nil {
		return cold, all, err
	}
	defer f.end()
	if cold, err = f.reported(ctx, f.began, firstRevision); err != nil {
		return cold, all, err
	}
	answer, err := f.do(fleetOrder{Do: "revise", Revision: "6.1.0"})
	if err != nil {
		return cold, all, err
	}
	all, err = f.reported(ctx, answer.At, "6.1.0")
	return cold, all, err
}

// originalIdle returns the share of a core that the original controller uses at the events of promotion-idle, and its
// patches of statuses.
func originalIdle(ctx context.Context, o Options) (percent, patches float64, err error) {
	f, err := startOriginal(ctx, o)
	if err != nil {
		return 0, 0, err
	}
	defer f.end()
	if _, err = f.reported(ctx, f.began, firstRevision); err != nil {
		return 0, 0, err
	}
	before, err := f.do(fleetOrder{Do: "count"})
	if err != nil {
		return 0, 0, err
	}
	for _, order := range []fleetOrder{{Do: "metadata", Rate: metadataRate * float64(o.Leaves)},
		{Do: "recheck", Rate: float64(f.size.applications()) / recheckEvery.Seconds()}} {
		if _, err := f.do(order); err != nil {
			return 0, 0, err
		}
	}
	began, _ := processOf(f.process.Process.Pid)
	pause(ctx, o.For)
	ended, _ := processOf(f.process.Process.Pid)
	after, err := f.do(fleetOrder{Do: "count"})
	const statuses = "patch pipelines/status"
	return 100 * float64(ended.own-began.own) / float64(o.For), float64(after.Requests[statuses] - before.Requests[statuses]), err
}

// reported waits until all statuses have a revision. It returns the time, and the CPU time and the memory of the controller.
func (f *original) reported(ctx context.Context, since time.Time, revision string) (Round, error) {
	pid, want := f.process.Process.Pid, f.size.Pipelines
	ctx, cancel := context.WithTimeout(ctx, 4*time.Minute)
	defer cancel()
	used, _ := processOf(pid)
	for {
		answer, err := f.do(fleetOrder{Do: "reported", Revision: revision})
		if err != nil {
			return Round{}, err
		}
		if answer.Reported >= want {
			now, _ := processOf(pid)
			r := measured(want, since)
			r.ClientCPU = float64(now.own-used.own) / float64(time.Microsecond) / float64(want)
			r.HeapMB = residentMB(pid)
			return r, nil
		}
		if !loop.Pause(ctx, time.Second) {
			return Round{}, fmt.Errorf("%d of %d statuses have revision %s after four minutes", answer.Reported, want, revision)
		}
	}
}

// residentMB returns the resident memory of a process.
func residentMB(pid int) float64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0
	}
	var size, resident float64
	if _, err := fmt.Sscan(string(text), &size, &resident); err != nil {
		return 0
	}
	return resident * float64(os.Getpagesize()) / 1e6
}
