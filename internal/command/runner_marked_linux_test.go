package command

import (
	"os/exec"
	"slices"
	"testing"
)

// TestAProcessThatHasNoEnvironmentYetIsLookedAtAgain: between fork and the first instruction of its program a process has none.
func TestAProcessThatHasNoEnvironmentYetIsLookedAtAgain(t *testing.T) {
	t.Parallel()
	const mark = "WAYBILL_TEST_MARK=here"
	start := func(environ []string) int {
		child := exec.CommandContext(t.Context(), "cat")
		child.Env = environ
		in, err := child.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = in.Close()
			_ = child.Wait()
		})
		return child.Process.Pid
	}
	pid := start([]string{mark})
	start([]string{}) // never gets one
	if marked, begin := markedProcesses(mark); !begin || !slices.Contains(marked, pid) {
		t.Errorf("found %d, begin %t; process %d has the mark", marked, begin, pid)
	}
}
