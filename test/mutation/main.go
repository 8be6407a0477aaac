// Command mutation switches off the rules of the pipeline engine and of promotions, one in each test build, and runs
// the tests of the package: some test must fail. A rule that no test misses could be lost unseen. For promotions the
// failure must name the property that the mutation breaks.
//
//	go run ./test/mutation [-only TEXT] [-run PATTERN]
//
// Exit status 1 says that a mutation survived, 2 that one could not be tested or a flag is wrong.
package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// limit bounds one test run. A run that meets it says nothing of the rule.
const limit = 10 * time.Minute

func main() {
	only := flag.String("only", "", "run the mutations whose rule contains this text")
	tests := flag.String("run", "",
		"run the tests that match this pattern, as go test does; a mutation that survives may be caught by others")
	flag.Parse()
	if flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, *only, *tests))
}

// run tests every mutation whose rule contains a text, by the tests that match a pattern, and returns the exit status.
func run(ctx context.Context, only, tests string) int {
	survived, tried := 0, 0
	for _, m := range trials() {
		if !strings.Contains(m.rule, only) {
			continue
		}
		tried++
		begin := time.Now()
		test, err := m.test(ctx, cmp.Or(tests, m.tests))
		took := time.Since(begin).Round(time.Second)
		switch {
		case err != nil:
			fmt.Fprintf(os.Stderr, "%s: %v\n", m.rule, err)
			return 2
		case test == "":
			survived++
			fmt.Printf("SURVIVED  %s (%s)\n", m.rule, took)
		default:
			fmt.Printf("caught    %s by %s (%s)\n", m.rule, test, took)
		}
	}
	fmt.Printf("%d mutations, %d survived\n", tried, survived)
	if tried == 0 || survived > 0 {
		return 1
	}
	return 0
}

// test runs the tests of the package that match a pattern with the mutation, and returns the name of a test that
// fails; "" if none does, or none names the property. The tree stays as it is, because the mutated file is an overlay of
// the build.
func (m trial) test(ctx context.Context, tests string) (string, error) {
	dir, err := os.MkdirTemp("", "mutation")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	overlay, err := m.overlay(dir)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit+time.Minute, errors.New("the test run does not end"))
	defer cancel()
	arguments := append([]string{"test", "-vet=off", "-overlay", overlay, "-failfast", "-timeout", limit.String(), "-run",
		tests, "./" + m.dir, "-rapid.nofailfile", "-rapid.shrinktime=1ms"}, m.flags...)
	out, err := exec.CommandContext(ctx, "go", arguments...).CombinedOutput()
	switch {
	case ctx.Err() != nil:
		return "", context.Cause(ctx)
	case err == nil:
		return "", nil
	case bytes.Contains(out, []byte("[build failed]")):
		return "", fmt.Errorf("build: %s", out)
	case bytes.Contains(out, []byte("panic: test timed out")):
		return "", fmt.Errorf("the tests take longer than %s", limit)
	case !bytes.Contains(out, []byte(m.property)):
		return "", nil
	}
	return failed(string(out)), nil
}

// overlay writes the mutated file and the description of the overlay to a folder, and returns the
// path of the description.
func (m trial) overlay(dir string) (string, error) {
	text, err := m.apply()
	if err != nil {
		return "", err
	}
	mutated, description := filepath.Join(dir, "mutated.go"), filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(mutated, text, 0o600); err != nil {
		return "", err
	}
	path, err := filepath.Abs(m.path())
	if err != nil {
		return "", err
	}
	replace, err := json.Marshal(map[string]map[string]string{"Replace": {path: mutated}})
	if err != nil {
		return "", err
	}
	return description, os.WriteFile(description, replace, 0o600)
}

// failed returns the name of the first test that an output of go test says has failed.
func failed(out string) string {
	for line := range strings.Lines(out) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "--- FAIL: "); ok {
			return strings.Fields(name)[0]
		}
	}
	return "a crash"
}
