package githost_test

import (
	"strings"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/githost"
	"github.com/waybill-dev/waybill/internal/githost/githosttest"
	"github.com/waybill-dev/waybill/internal/promotion"
)

// openToMerge returns a model GitHub with a proposal, and the action that merges it.
func openToMerge(t *testing.T, change func(h *githosttest.Host, w *promotion.Work)) (*githosttest.Host, *githost.Client, promotion.Work) {
	t.Helper()
	h := githosttest.New(t, githost.GitHub)
	host := h.Config(githosttest.Branch)
	w := githosttest.Work(host, 12, "6.6.0")
	r := mustAttempt(t, h, host, w)
	w.Number, w.Head = r.Proposal.Number, r.Proposal.Head
	change(h, &w)
	return h, h.Open(t, host), w
}

func TestGitHubMergesLater(t *testing.T) {
	t.Parallel()
	h, c, w := openToMerge(t, func(h *githosttest.Host, _ *promotion.Work) { h.MergeLater() })
	if _, err := c.Merge(t.Context(), w, githosttest.Trust); githost.Outcome(err).Kind != action.RetryAfter {
		t.Fatalf("got %v, want to come back", err)
	}
	r := untilMerged(t, c, w)
	if r.Proposal.State != promotion.Merged || h.Pulls(t)[0].State != githosttest.Merged {
		t.Errorf("got %+v", r)
	}
	submitted := 0
	for _, call := range h.Calls() {
		if strings.HasPrefix(call, "PUT ") {
			submitted++
		}
	}
	if submitted != 1 {
		t.Errorf("submitted %d times, want once", submitted)
	}
}

// TestGitHubFindsAMergeAfterARestart: a process without memory requests the merge again, and learns that it is running.
func TestGitHubFindsAMergeAfterARestart(t *testing.T) {
	t.Parallel()
	h, c, w := openToMerge(t, func(h *githosttest.Host, _ *promotion.Work) { h.MergeLater() })
	if _, err := c.Merge(t.Context(), w, githosttest.Trust); githost.Outcome(err).Kind != action.RetryAfter {
		t.Fatalf("got %v, want to come back", err)
	}
	h.Restart(t)
	r := untilMerged(t, h.Open(t, h.Config(githosttest.Branch)), w)
	if r.Proposal.State != promotion.Merged {
		t.Errorf("got %+v", r)
	}
}

func TestGitHubReportsAMergeThatFails(t *testing.T) {
	t.Parallel()
	_, c, w := openToMerge(t, func(h *githosttest.Host, _ *promotion.Work) { h.FailMerges() })
	var last error
	for range 5 {
		if _, last = c.Merge(t.Context(), w, githosttest.Trust); strings.Contains(last.Error(), "Required status check") {
			break
		}
	}
	if got := githost.Outcome(last); got.Kind != action.RetryAfter || got.Code != githost.CodeNotMergeable {
		t.Errorf("got %v, %+v; want to wait for the check", last, got)
	}
}

func TestGitHubMergeQueue(t *testing.T) {
	t.Parallel()
	for _, async := range []bool{true, false} {
		for _, merged := range []bool{true, false} {
			h, c, w := openToMerge(t, func(h *githosttest.Host, w *promotion.Work) {
				if async {
					h.MergeLater()
				}
				w.Host.Queue = true
			})
			for range 6 {
				if _, err := c.Merge(t.Context(), w, githosttest.Trust); githost.Outcome(err).Kind != action.RetryAfter {
					t.Fatalf("async %v: %v, want to wait for the queue", async, err)
				}
			}
			h.LeaveQueue(merged)
			r, err := c.Merge(t.Context(), w, githosttest.Trust)
			switch {
			case merged && (err != nil || r.Proposal.State != promotion.Merged):
				t.Errorf("async %v: %+v, %v; want merged", async, r, err)
			case !merged && githost.Outcome(err).Code != githost.CodeChecksFailed:
				t.Errorf("async %v: %v; want ChecksFailed", async, err)
			}
		}
	}
}

func TestGitHubAppsGetTokens(t *testing.T) {
	t.Parallel()
	h := githosttest.New(t, githost.GitHub)
	keys := h.AppKeys(t)
	host := h.Config(githosttest.Branch)
	c := h.OpenWith(t, host, keys)
	for range 3 {
		if _, err := c.Prepare(t.Context(), promotion.Work{}); err != nil {
			t.Fatal(err)
		}
	}
	if n := h.Issued(); n != 1 {
		t.Errorf("%d tokens, want one for all requests", n)
	}
	auth, err := c.GitAuth(t.Context())
	if err != nil || auth.Username != "x-access-token" || auth.Password != "ghs_1" {
		t.Errorf("for Git: %+v, %v", auth, err)
	}
	a, err := c.Check(t.Context())
	if err != nil || !a.Push || !a.Propose || !a.Merge || !a.Checks {
		t.Errorf("permissions %+v, %v", a, err)
	}
}

func TestGitHubAppsReplaceTokensThatEnd(t *testing.T) {
	t.Parallel()
	h := githosttest.New(t, githost.GitHub)
	keys := h.AppKeys(t)
	h.LimitTokens(time.Minute) // too short to be used again
	c := h.OpenWith(t, h.Config(githosttest.Branch), keys)
	for range 2 {
		if _, err := c.Prepare(t.Context(), promotion.Work{}); err != nil {
			t.Fatal(err)
		}
	}
	if n := h.Issued(); n != 2 {
		t.Errorf("%d tokens, want 2", n)
	}
}

func TestGitHubAppsNeedAKey(t *testing.T) {
	t.Parallel()
	h := githosttest.New(t, githost.GitHub)
	hosts := githost.NewHosts(githost.Options{PlainHTTP: true})
	for _, keys := range []map[string]string{
		{githost.KeyAppID: "12345"}, {githost.KeyAppID: "12345", githost.KeyAppPrivateKey: "secret-that-is-no-key"},
		{githost.KeyAppID: `1","x":"`, githost.KeyAppPrivateKey: "x"}, {},
	} {
		_, err := hosts.Open(h.Config(githosttest.Branch), keys)
		if err == nil || strings.Contains(err.Error(), "secret-that") {
			t.Errorf("keys %v: %v", keys, err)
		}
	}
}

func TestChecksThatCannotBeReadStayPending(t *testing.T) {
	t.Parallel()
	h := githosttest.New(t, githost.GitHub)
	host := h.Config(githosttest.Branch)
	r := mustAttempt(t, h, host, githosttest.Work(host, 12, "6.6.0"))
	h.SetCheck(t, r.Proposal.Head, "build", "success")
	h.Inject(githosttest.Fault{Match: "check-runs", Status: 403, Body: `{"message":"Resource not accessible by personal access token"}`})
	p, err := h.Open(t, host).Watch(t.Context(), r.Proposal.Number)
	if err != nil || p.Checks != promotion.ChecksPending {
		t.Errorf("got %q, %v; want pending", p.Checks, err)
	}
}
