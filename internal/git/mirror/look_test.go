package mirror

import (
	"strings"
	"testing"
)

func TestLookReportsTheBranches(t *testing.T) {
	t.Parallel()
	h := newHost(t, fleet())
	s := open(t)
	look := func() Branches {
		t.Helper()
		found, err := s.Look(t.Context(), h.request("6.6.0"))
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	if found := look(); found.Head != "" || found.Foreign || found.Base != h.Tip("main") {
		t.Errorf("without a head: %+v", found)
	}
	r := propose(t, s, h.request("6.6.0"))
	if found := look(); found.Head != r.Head || found.Foreign || found.LinesChanged ||
		found.Trailers != (Trailers{"apps/podinfo", "prod", "6.6.0", "run-12"}) {
		t.Errorf("after a proposal: %+v", found)
	}
	h.Write(map[string]string{"README.md": "changed\n",
		"clusters/prod/podinfo.yaml": "# a new line\nspec:\r\n  version: \"6.5.4\"" + m + "\r\n"})
	h.Commit("main")
	if found := look(); found.LinesChanged {
		t.Errorf("other lines changed: %+v", found)
	}
	h.Write(map[string]string{"clusters/prod/podinfo.yaml": "spec:\r\n  version: \"6.5.5\"" + m + "\r\n"})
	h.Commit("main")
	if found := look(); !found.LinesChanged {
		t.Errorf("a marked line changed: %+v", found)
	}
	s = open(t) // the commit that the proposal was made from has to be fetched
	if found := look(); !found.LinesChanged {
		t.Errorf("with a new mirror: %+v", found)
	}
}

func TestValuesAtACommitAndABranch(t *testing.T) {
	t.Parallel()
	h := newHost(t, fleet())
	s := open(t)
	first := h.Tip("main")
	h.Write(map[string]string{"clusters/prod/podinfo.yaml": "version: 6.7.0" + m + "\n"})
	h.Commit("main")
	for at, want := range map[string]string{first: "6.5.4 6.5.4", "main": "6.5.4 6.7.0"} {
		lines, err := s.Values(t.Context(), h.request(""), at)
		var values []string
		for _, l := range lines {
			values = append(values, l.Old)
		}
		if got := strings.Join(values, " "); err != nil || got != want {
			t.Errorf("at %s: %s, %v", at, got, err)
		}
	}
	_, err := s.Values(t.Context(), h.request(""), strings.Repeat("ab", 20))
	if ClassOf(err) != Fatal {
		t.Errorf("an unknown commit: %v", err)
	}
	if _, err := s.Values(t.Context(), h.request(""), "none"); ClassOf(err) != Fatal {
		t.Errorf("an unknown branch: %v", err)
	}
}

func TestPreviewChangesNothing(t *testing.T) {
	t.Parallel()
	h := newHost(t, fleet())
	r, err := open(t).Preview(t.Context(), h.request("6.6.0"))
	if err != nil || len(r.Lines) != 2 || r.AlreadyAsked || h.Tip(head) != "" {
		t.Errorf("%+v %v", r, err)
	}
}

func TestDeleteLeavesABranchThatMoved(t *testing.T) {
	t.Parallel()
	h := newHost(t, fleet())
	s := open(t)
	r := propose(t, s, h.request("6.6.0"))
	h.Write(map[string]string{"more": "x"})
	moved := h.Commit(head + "-other")
	h.Git(h.Dir, "update-ref", "refs/heads/"+head, moved)
	if gone, err := s.Delete(t.Context(), h.remote(), head, r.Head); gone || err != nil || h.Tip(head) != moved {
		t.Errorf("a moved branch: %t %v", gone, err)
	}
	if gone, err := s.Delete(t.Context(), h.remote(), head, moved); !gone || err != nil || h.Tip(head) != "" {
		t.Errorf("the branch: %t %v", gone, err)
	}
	if gone, err := s.Delete(t.Context(), h.remote(), head, moved); !gone || err != nil {
		t.Errorf("a branch that is gone: %t %v", gone, err)
	}
}
