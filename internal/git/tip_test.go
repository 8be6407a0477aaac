package git_test

import (
	"testing"

	"github.com/waybill-dev/waybill/internal/git"
)

func TestTheTipOfABranchIsFound(t *testing.T) {
	t.Parallel()
	origin, first, second := upstream(t)
	origin.git("branch", "old", first)
	origin.git("update-ref", "refs/heads/refs/heads/old", second) // which a pattern finds, too
	own := origin.ask("symbolic-ref", "--short", "HEAD")
	for branch, want := range map[string]git.Clone{"": {Branch: own, Commit: second}, "old": {Branch: "old", Commit: first}} {
		got, ok, err := git.Clone{URL: origin.root, Branch: branch}.AtTip(t.Context())
		if err != nil || !ok || got.Branch != want.Branch || got.Commit != want.Commit {
			t.Errorf("%q: %+v, %v, %v", branch, got, ok, err)
		}
	}
	if got, ok, err := (git.Clone{URL: origin.root, Branch: "none"}).AtTip(t.Context()); ok || err != nil {
		t.Errorf("%+v, %v, %v", got, ok, err)
	}
	for _, c := range []git.Clone{{URL: t.TempDir()}, {URL: "ext::sh -c true"}, {URL: origin.root, Branch: "--upload-pack=x"}, {URL: "-x"}} {
		if got, ok, err := c.AtTip(t.Context()); ok || err == nil {
			t.Errorf("%+v: %+v", c, got)
		}
	}
}
