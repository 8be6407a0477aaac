//go:build services

package container_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/docker"
	"github.com/waybill-dev/waybill/test/testbed"
)

// BenchmarkStepOverhead measures an empty step on a small workspace beside a bare `docker run --rm`, in turn. The
// figures are medians. A build does not wait for the removal of a step's container before it begins the next one, so
// the overhead is without it.
func BenchmarkStepOverhead(b *testing.B) {
	engine := testbed.Docker(b)
	connected, err := docker.ConnectTo(b.Context(), engine.Host)
	if err != nil {
		b.Fatal(err)
	}
	defer connected.Close()
	tree := b.TempDir()
	for i := range 50 {
		if err := os.WriteFile(filepath.Join(tree, fmt.Sprint(i)), make([]byte, 4<<10), 0o600); err != nil {
			b.Fatal(err)
		}
	}
	scratch := b.TempDir()
	run := build.Run{Build: "bench", Step: build.PlanStep{ID: 1, Stage: "s", Name: "a",
		Spec: build.Spec{Image: testbed.Busybox, Argv: shell("true")}},
		Attempt: 1, Tree: tree, Scratch: scratch}
	workers := b.TempDir()
	var steps, removed, bare []time.Duration
	for b.Loop() {
		runner, _, err := docker.NewRunner(b.Context(), connected, docker.Config{Grace: time.Second, Pull: docker.PullNever, Workers: workers})
		if err != nil {
			b.Fatal(err)
		}
		began := time.Now()
		if exit, err := runner.Run(context.Background(), run, &heard{}); err != nil || exit.Code != 0 {
			b.Fatal(exit, err)
		}
		steps = append(steps, time.Since(began))
		if remarks, err := runner.Close(); err != nil || len(remarks) > 0 {
			b.Fatal(err, remarks)
		}
		removed = append(removed, time.Since(began))
		began = time.Now()
		command := exec.Command("docker", "run", "--rm", testbed.Busybox, "true")
		command.Env = append(os.Environ(), "DOCKER_HOST="+engine.Host)
		if out, err := command.CombinedOutput(); err != nil {
			b.Fatalf("%v\n%s", err, out)
		}
		bare = append(bare, time.Since(began))
	}
	median := func(all []time.Duration) float64 {
		slices.Sort(all)
		return float64(all[len(all)/2].Milliseconds())
	}
	b.ReportMetric(median(steps), "ms/step")
	b.ReportMetric(median(removed), "ms/step-removed")
	b.ReportMetric(median(bare), "ms/docker-run")
	b.ReportMetric(median(steps)-median(bare), "ms-overhead")
}
