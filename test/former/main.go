// Command former compares the pipeline engine with the engine of an earlier commit, by what the two
// answer: random programs play both, and after every row the states, reasons, decisions and edits must be
// the same. The graph, the fold and the words inside an engine are its own.
//
//	go run ./test/former [-programs N] [-first SEED] [-seed SEED]
//
// The earlier engine is taken from the history of this repository and compiled beside today's, so the
// tree has no copy of it. Exit status 1 says that the engines differ, 2 that they could not be compared.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
)

// former is the commit of the other engine: the last one that changed on purpose what passes decide. What
// it decides and explains is what every later engine must still decide and explain, but for the rules in
// changes.
const former = "d3152859"

func main() {
	programs := flag.Int("programs", 1000, "how many random programs to play")
	first := flag.Uint64("first", 1, "seed of the first program")
	seed := flag.Uint64("seed", 0, "play the program with this seed only, and print its rows")
	workers := flag.Int("workers", 0, "programs that are played at a time; 0: one per processor")
	flag.Parse()
	if flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	status, err := run(ctx, "-programs", strconv.Itoa(*programs), "-first", strconv.FormatUint(*first, 10),
		"-seed", strconv.FormatUint(*seed, 10), "-workers", strconv.Itoa(*workers))
	if err != nil {
		fmt.Fprintf(os.Stderr, "compare with the engine of %s: %v\n", former, err)
	}
	os.Exit(status)
}

// run builds the program that has both engines, runs it, and returns the exit status.
func run(ctx context.Context, args ...string) (int, error) {
	dir, err := os.MkdirTemp("", "former")
	if err != nil {
		return 2, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	overlay, err := writeOverlay(ctx, dir, former)
	if err != nil {
		return 2, err
	}
	program := filepath.Join(dir, "compare")
	build := exec.CommandContext(ctx, "go", "build", "-overlay", overlay, "-o", program, "./test/former/compare")
	if out, err := build.CombinedOutput(); err != nil {
		return 2, fmt.Errorf("build: %w\n%s", err, out)
	}
	command := exec.CommandContext(ctx, program, args...)
	command.Stdout, command.Stderr = os.Stdout, os.Stderr
	err = command.Run()
	if ended, ok := errors.AsType[*exec.ExitError](err); ok && ended.ExitCode() > 0 {
		return ended.ExitCode(), nil
	}
	if err != nil {
		return 2, err
	}
	return 0, nil
}
