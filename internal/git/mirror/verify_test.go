package mirror

import (
	"errors"
	"net/http"
	"testing"
)

func TestVerifyComparesTheContent(t *testing.T) {
	t.Parallel()
	h := newHost(t, fleet())
	made := propose(t, open(t), h.request("6.6.0")).Head
	verify := func(what string, r Request, commit string, want bool) {
		t.Helper()
		for _, s := range []*Store{open(t), open(t)} {
			if same, err := s.Verify(t.Context(), r, commit); err != nil || same != want {
				t.Errorf("%s: got %v, %v", what, same, err)
			}
		}
	}
	verify("as proposed", h.request("6.6.0"), made, true)
	verify("a short hash", h.request("6.6.0"), made[:12], true)
	verify("another revision", h.request("6.7.0"), made, false)
	h.Write(map[string]string{"README.md": "changed\n"})
	h.Commit("main")
	verify("a moved base", h.request("6.6.0"), made, true)
	h.Intercept(func(_ http.ResponseWriter, r *http.Request) bool {
		r.Header.Del("Git-Protocol") // the newer protocol gives out every commit
		return false
	})
	verify("a host that gives out branches only", h.request("6.6.0"), made, true)
	h.Intercept(nil)

	h.Git(h.Work, "fetch", "--quiet", "origin", head)
	h.Git(h.Work, "checkout", "--quiet", "--detach", "FETCH_HEAD")
	h.Git(h.Work, "commit", "--quiet", "--allow-empty", "--reuse-message=HEAD")
	h.Git(h.Work, "push", "--quiet", "origin", "HEAD:"+head)
	verify("an empty commit", h.request("6.6.0"), h.Tip(head), false)
	_, err := open(t).Verify(t.Context(), h.request("6.6.0"), made)
	if e, ok := errors.AsType[*Error](err); !ok || e.Reason != HeadMoved || e.Class != Fatal {
		t.Errorf("a head that moved: %v", err)
	}
	h.Git(h.Work, "merge", "--quiet", "--no-edit", "origin/main")
	h.Git(h.Work, "push", "--quiet", "origin", "HEAD:"+head)
	verify("a merge", h.request("6.6.0"), h.Tip(head), false)
}
