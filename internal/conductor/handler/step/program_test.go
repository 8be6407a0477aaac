package step

import (
	"strings"
	"testing"
)

// TestAnAnswerIsBounded: a host's report about itself is kept in the log and shown, and the host need not run the
// host program.
func TestAnAnswerIsBounded(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 1<<20)
	r := parseReport("folder=" + long + "\n" + strings.Repeat("changed="+long+"\n", 30) +
		strings.Repeat("log=line\n", 1000) + "log=" + long[:mostPrinted-4] + "\nlog=last\n")
	if got := r.first("folder"); len(got) != maxPath {
		t.Errorf("a value of %d bytes", len(got))
	}
	if got := r.paths("changed"); len(got) != mostPaths || len(got[0]) != maxPath {
		t.Errorf("%d paths", len(got))
	}
	if got := r.printed(); len(got) != 2 || got[1] != "last" {
		t.Errorf("%d lines that were printed", len(got))
	}
	if got := parseReport(strings.Repeat("log=line\n", 1000)).printed(); len(got) != mostLines {
		t.Errorf("%d lines that were printed", len(got))
	}
}
