package git_test

import (
	"os/exec"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/git"
)

// tag makes an annotated tag at a time.
func (f folder) tag(name, at string) {
	f.t.Helper()
	c := exec.Command("git", "tag", "-a", "-m", name, name)
	c.Dir = f.root
	c.Env = append(c.Environ(), "GIT_COMMITTER_DATE="+at)
	if out, err := c.CombinedOutput(); err != nil {
		f.t.Fatalf("git tag %s: %v\n%s", name, err, out)
	}
}

func (f folder) wantHead(want git.Head) {
	f.t.Helper()
	got, err := git.Open(f.dir).Head(f.t.Context())
	if err != nil {
		f.t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		f.t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestHead(t *testing.T) {
	t.Parallel()
	f := newFolder(t)
	f.write("service/main.go", "package main")
	f.wantHead(git.Head{Branch: "main"})
	f.git("checkout", "-q", "-b", "fix/42")
	f.git("remote", "add", "origin", "git@example.net:team/shop.git")
	f.git("remote", "add", "another", "git@example.net:team/other.git")
	f.commit("serve")
	origin := "git@example.net:team/shop.git"
	f.wantHead(git.Head{Branch: "fix/42", Origin: origin})
	f.git("tag", "light")
	f.wantHead(git.Head{Branch: "fix/42", Origin: origin, Tag: "light"})
	f.tag("v1.9", "2026-01-02T12:00:00Z")
	f.tag("rel/v1.10", "2026-01-03T12:00:00Z")
	f.tag("v1.8", "2026-01-01T12:00:00Z")
	f.wantHead(git.Head{Branch: "fix/42", Origin: origin, Tag: "rel/v1.10"})
	f.git("checkout", "-q", "--detach")
	f.wantHead(git.Head{Origin: origin, Tag: "rel/v1.10"})
	f.git("commit", "-q", "--allow-empty", "-m", "next")
	f.wantHead(git.Head{Origin: origin})
}

func TestHeadOutsideOfARepository(t *testing.T) {
	t.Parallel()
	folder{t: t, dir: t.TempDir()}.wantHead(git.Head{})
}

func TestDatesOfACommitKeepTheirOffsets(t *testing.T) {
	t.Parallel()
	f := newFolder(t)
	f.write("service/main.go", "package main")
	f.git("add", "-A")
	c := exec.Command("git", "commit", "-qm", "serve")
	c.Dir = f.root
	c.Env = append(c.Environ(), "GIT_AUTHOR_DATE=2026-01-02T12:00:00+02:00", "GIT_COMMITTER_DATE=2026-01-03T12:00:00-05:30")
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	commit, err := git.Open(f.dir).Last(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got := commit.AuthorDate + " " + commit.CommitterDate; got != "2026-01-02T12:00:00+02:00 2026-01-03T12:00:00-05:30" {
		t.Errorf("dates %s", got)
	}
}
