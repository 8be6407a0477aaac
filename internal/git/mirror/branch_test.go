package mirror

import (
	"os/exec"
	"testing"

	"github.com/waybill-dev/waybill/internal/pipeline"
)

// Definitions and mirrors take the names of branches that git takes.
func TestBranchesAreThoseOfGit(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"main", "release/1.2", "a./b", "a.b", "ü", "x@y", "@", "HEAD", "-x", "a/-b", ".a", "a/.b", "a.lock", "a.lock/b", "a..b",
		"a@{b", "a/", "/a", "a//b", "a.", "a b", "a~b", "a^b", "a:b", "a?b", "a*b", "a[b", "a\\b", "a\tb", "a\x7fb", "promotion-apps-podinfo-prod"} {
		want := exec.CommandContext(t.Context(), "git", "check-ref-format", "--branch", name).Run() == nil && name != "@"
		if got := pipeline.IsBranch(name); got != want {
			t.Errorf("%q is a branch: %t, git says %t", name, got, want)
		}
	}
}
