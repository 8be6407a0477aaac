package worker_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/internal/build"
)

// TestAStepThatKillsItsSupervisorLeavesNoChild: without its supervisor nothing else knows a step's children.
func TestAStepThatKillsItsSupervisorLeavesNoChild(t *testing.T) {
	t.Parallel()
	result, r := fresh(t).run(t.Context(), `
nasty:
  killer:
    container: {image: x, cmds: ["setsid sleep 300 & a=$!; sleep 300 & echo $a $!; kill -9 $PPID; sleep 300"]}
`)
	if got := steps(t, r); result != build.Failed || got[0] != "killer Failed (exit status 137)" {
		t.Errorf("%s: %q", result, got)
	}
	words := strings.Fields(string(printed(t, r, 1, false)))
	if len(words) != 2 {
		t.Fatalf("the step printed %q", words)
	}
	for _, word := range words {
		pid, err := strconv.Atoi(word)
		if err != nil {
			t.Fatal(err)
		}
		gone(t, pid)
	}
}

// TestAStepMayRemoveItsWorkspace: it leaves no files, as in a container, and its exit status counts.
func TestAStepMayRemoveItsWorkspace(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	result, r := s.run(t.Context(), `
nasty:
  remover:
    artifacts: [out/*]
    test-results: {junit: [out/*.xml]}
    container: {image: x, cmds: ["rm -rf \"$PWD\"; echo removed"]}
`)
	if got := steps(t, r); result != build.Completed || got[0] != "remover Completed" {
		t.Errorf("%s: %q", result, got)
	}
	if log := strings.Join(notes(t, r, 1), "\n"); !strings.Contains(log, "artifacts: out/* matches no file") {
		t.Errorf("the log is %q", log)
	}
}
