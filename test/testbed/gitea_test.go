//go:build services

package testbed_test

import (
	"net/http"
	"testing"

	"github.com/waybill-dev/waybill/test/testbed"
)

func TestGiteaMergesAPullRequestOnceItsChecksPass(t *testing.T) {
	t.Parallel()
	host := testbed.Gitea(t)
	host.Organisation(t, "apps")
	fleet := host.Repository(t, "apps", "fleet")
	fleet.Protect(t, testbed.Protection{Branch: "main", Checks: []string{"lint"}})
	clone := fleet.Clone(t)
	head := clone.Push(t, "bump", "Raise the version", map[string]string{"clusters/prod/podinfo.yaml": "version: 6.6.0\n"})
	pull := fleet.OpenPull(t, "bump", "main", "Raise the version")
	if pull.Head.SHA != head || pull.Base.Name != "main" {
		t.Errorf("pull request: got %s onto %s, want %s onto main", pull.Head.SHA, pull.Base.Name, head)
	}

	host.Kill(t)
	host.Start(t)

	alice := host.As(t, "alice")
	fleet.Allow(t, "alice", "write")
	merge := map[string]any{"do": "squash", "head_commit_id": head}
	if err := alice.API(t.Context(), http.MethodPost, "/repos/apps/fleet/pulls/1/merge", merge, nil); err == nil {
		t.Fatal("merge before the check: got no error")
	}
	fleet.SetStatus(t, head, "lint", "success")
	fleet.As(alice).Merge(t, pull.Number, "squash")

	if got := fleet.Pull(t, pull.Number); !got.Merged || got.State != "closed" {
		t.Errorf("pull request: got %+v, want it merged", got)
	}
	if open := fleet.Pulls(t, "open"); len(open) != 0 {
		t.Errorf("open pull requests: got %d, want none", len(open))
	}
	if got, want := clone.Read(t, "main", "clusters/prod/podinfo.yaml"), "version: 6.6.0"; got != want {
		t.Errorf("file on main: got %q, want %q", got, want)
	}
}

func TestGiteaKeepsPullRequestsThatWereClosed(t *testing.T) {
	t.Parallel()
	host := testbed.Gitea(t)
	host.Organisation(t, "apps")
	fleet := host.Repository(t, "apps", "fleet")
	fleet.Clone(t).Push(t, "bump", "Raise the version", map[string]string{"a": "1\n"})
	pull := fleet.OpenPull(t, "bump", "main", "Raise the version")
	fleet.ClosePull(t, pull.Number)
	if got := fleet.Pulls(t, "all"); len(got) != 1 || got[0].Merged || got[0].State != "closed" {
		t.Errorf("pull requests: got %+v, want one that was closed", got)
	}
}

func TestGitServerTakesAPush(t *testing.T) {
	t.Parallel()
	server := testbed.GitHTTP(t)
	from := server.Repository(t, "fleet")
	commit := testbed.CloneFrom(t, from, "", "").Push(t, "main", "First", map[string]string{"a": "1\n"})

	server.Kill(t)
	server.Start(t)

	if got := testbed.CloneFrom(t, from, "", "").Git(t, "rev-parse", "HEAD"); got != commit {
		t.Errorf("cloned commit: got %s, want %s", got, commit)
	}
}
