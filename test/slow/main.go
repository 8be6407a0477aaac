// Command slow reads what `go test -json` prints, passes on what go test would print without -json, and then prints the tests that
// took the longest, in seconds. The time in which a test waits for its turn to run in parallel does not count, nor do
// subtests that run in parallel. Exit status 1 means that a test failed.
package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

// longest is the number of tests that are printed.
const longest = 30

func main() {
	failed, err := report(os.Stdin, os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "slow:", err)
	}
	if failed || err != nil {
		os.Exit(1)
	}
}

// event is a line of `go test -json` (go doc test2json).
type event struct {
	Action, Package, Test, Output string
	Elapsed                       float64 // seconds
}

// report reads events and writes results of packages, output of failed tests, and the longest tests.
func report(in io.Reader, out io.Writer) (failed bool, err error) {
	var ended []event
	printed := map[[2]string]string{} // by package and test
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return failed, err
		}
		var e event
		if json.Unmarshal(line, &e) != nil { // from a program besides go test
			fmt.Fprintf(out, "%s", line)
			continue
		}
		test := [2]string{e.Package, e.Test}
		printed[test] += e.Output
		if e.Action == "pass" || e.Action == "fail" {
			ended = append(ended, e)
		}
		failed = failed || e.Action == "fail"
		if e.Test == "" || e.Action == "fail" {
			fmt.Fprint(out, printed[test])
			delete(printed, test)
		}
	}
	ended = slices.DeleteFunc(ended, func(e event) bool { return e.Test == "" })
	slices.SortStableFunc(ended, func(a, b event) int { return cmp.Compare(b.Elapsed, a.Elapsed) })
	for _, e := range ended[:min(longest, len(ended))] {
		_, folder, _ := strings.Cut(e.Package, "/waybill/")
		fmt.Fprintf(out, "%7.1f  %s %s\n", e.Elapsed, folder, e.Test)
	}
	return failed, nil
}
