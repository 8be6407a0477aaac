package githost_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/githost"
	"github.com/waybill-dev/waybill/internal/githost/githosttest"
	"github.com/waybill-dev/waybill/internal/promotion"
)

// attempt makes one attempt at promoting a revision, as the handler does: look, push, ensure.
func attempt(t *testing.T, h *githosttest.Host, host promotion.Host, w promotion.Work) (githost.Result, error) {
	t.Helper()
	c := h.Open(t, host)
	r, err := c.Prepare(t.Context(), w)
	if err != nil || r.Change == githost.Merged {
		return r, err
	}
	h.Push(t, host.Branch, githosttest.Message(w))
	return c.Ensure(t.Context(), w, c.Describe(w, githosttest.Lines(w)))
}

func mustAttempt(t *testing.T, h *githosttest.Host, host promotion.Host, w promotion.Work) githost.Result {
	t.Helper()
	r, err := attempt(t, h, host, w)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestLostResponsesLeaveOneEffect: whichever write loses its answer after its effect, and whether or not it takes effect,
// the next attempts end with one proposal that is right.
func TestLostResponsesLeaveOneEffect(t *testing.T) {
	t.Parallel()
	forEachVendor(t, func(t *testing.T, vendor string) {
		for _, f := range []githosttest.Fault{{After: true}, {}, {Half: true, After: true}} {
			h := githosttest.New(t, vendor)
			host := h.Config(githosttest.Branch)
			host.Close, host.Labels, host.Assignees = true, []string{"promotion"}, []string{"ann"}
			mustAttempt(t, h, host, githosttest.Work(host, 12, "6.6.0"))
			h.Calls()
			w := githosttest.Work(host, 13, "6.7.0")
			f.Match = "^(POST|PUT|PATCH|DELETE) "
			h.Inject(f)
			failures := 0
			for range 12 {
				r, err := attempt(t, h, host, w)
				if err == nil {
					if r.Proposal.Revision != "6.7.0" || r.Proposal.State != promotion.Open {
						t.Errorf("%+v: got %+v", f, r)
					}
					if len(h.Writes()) == 0 {
						break // settled, and every write has lost its answer once
					}
					h.Inject(f)
					continue
				}
				failures++
				if kind := githost.Outcome(err).Kind; kind != action.Retry && kind != action.Throttle {
					t.Fatalf("%+v: %v is %s", f, err, kind)
				}
			}
			if failures == 0 {
				t.Errorf("%+v: no attempt failed", f)
			}
			open := 0
			for _, p := range h.Pulls(t) {
				if p.State == githosttest.Open {
					open++
				}
				if n := count(p.Comments, "6.7.0"); p.State == githosttest.Closed && n != 1 {
					t.Errorf("%+v: proposal %d has %d comments about its end: %q", f, p.Number, n, p.Comments)
				}
			}
			if open != 1 || len(h.Pulls(t)) != 2 {
				t.Errorf("%+v: pull requests %+v, want an open and a closed one", f, h.Pulls(t))
			}
		}
	})
}

func count(texts []string, part string) (n int) {
	for _, text := range texts {
		if strings.Contains(text, part) {
			n++
		}
	}
	return n
}

func TestLostMergeIsFoundMerged(t *testing.T) {
	t.Parallel()
	forEachVendor(t, func(t *testing.T, vendor string) {
		h := githosttest.New(t, vendor)
		host := h.Config(githosttest.Branch)
		host.Unguarded = true
		w := githosttest.Work(host, 12, "6.6.0")
		r := mustAttempt(t, h, host, w)
		w.Number, w.Head = r.Proposal.Number, r.Proposal.Head
		h.Inject(githosttest.Fault{Match: "^(PUT|POST|PATCH) ", After: true})
		if _, err := h.Open(t, host).Merge(t.Context(), w, githosttest.Trust); githost.Outcome(err).Kind != action.Retry {
			t.Fatalf("got %v, want another attempt", err)
		}
		merged := untilMerged(t, h.Open(t, host), w)
		if merged.Proposal.State != promotion.Merged || len(h.Pulls(t)) != 1 {
			t.Errorf("got %+v", merged)
		}
	})
}

// untilMerged repeats a merge while the host wants that.
func untilMerged(t *testing.T, c *githost.Client, w promotion.Work) githost.Result {
	t.Helper()
	for range 20 {
		r, err := c.Merge(t.Context(), w, githosttest.Trust)
		if err == nil {
			return r
		}
		if kind := githost.Outcome(err).Kind; kind != action.RetryAfter {
			t.Fatalf("%v is %s", err, kind)
		}
	}
	t.Fatal("it is not merged after 20 attempts")
	return githost.Result{}
}

func TestStaleListsEndInTheProposalThatExists(t *testing.T) {
	t.Parallel()
	forEachVendor(t, func(t *testing.T, vendor string) {
		h := githosttest.New(t, vendor)
		host := h.Config(githosttest.Branch)
		w := githosttest.Work(host, 12, "6.6.0")
		first := mustAttempt(t, h, host, w)
		h.HideNewest(4)
		second := mustAttempt(t, h, host, w)
		if second.Proposal.Number != first.Proposal.Number || len(h.Pulls(t)) != 1 {
			t.Errorf("got %+v, want proposal %d", second, first.Proposal.Number)
		}
		h.HideNewest(1000)
		if _, err := attempt(t, h, host, w); githost.Outcome(err).Kind != action.Retry {
			t.Errorf("lists that stay stale: %v, want another attempt later", err)
		}
	})
}

// Gitea lists the commits of refs/pull/NUMBER/head, which it updates some time after the branch.
func TestAListWithoutTheHeadHidesNoCommit(t *testing.T) {
	t.Parallel()
	h := githosttest.New(t, githost.Gitea)
	host := h.Config(githosttest.Branch)
	w := githosttest.Work(host, 12, "6.6.0")
	r := mustAttempt(t, h, host, w)
	h.Append(t, githosttest.Branch, "Fix a typo by hand")
	h.Inject(githosttest.Fault{Match: "GET .*/commits", Status: 200,
		Body: fmt.Sprintf(`[{"sha": %q, "commit": {"message": %q}}]`, r.Proposal.Head, githosttest.Message(w))})
	c := h.Open(t, host)
	if seen, err := c.Watch(t.Context(), r.Proposal.Number); githost.Outcome(err).Kind != action.RetryAfter {
		t.Errorf("a list without the head: %+v, %v, want another attempt later", seen, err)
	}
	if seen, err := c.Watch(t.Context(), r.Proposal.Number); err != nil || !seen.Foreign {
		t.Errorf("then: %+v, %v, want foreign commits", seen, err)
	}
}

func TestAllPagesAreRead(t *testing.T) {
	t.Parallel()
	forEachVendor(t, func(t *testing.T, vendor string) {
		h := githosttest.New(t, vendor)
		host := h.Config(githosttest.Branch)
		w := githosttest.Work(host, 12, "6.6.0")
		first := mustAttempt(t, h, host, w)
		h.Fork(githosttest.Branch)
		for _, branch := range []string{"a", "b", "c"} {
			other := h.Config(branch)
			mustAttempt(t, h, other, githosttest.Work(other, 12, "6.6.0"))
		}
		h.SetPageSize(1)
		if again := mustAttempt(t, h, host, w); again.Change != githost.Unchanged || again.Proposal.Number != first.Proposal.Number {
			t.Errorf("got %+v, want proposal %d unchanged", again, first.Proposal.Number)
		}
	})
}

func TestNothingToDoWritesNothing(t *testing.T) {
	t.Parallel()
	forEachVendor(t, func(t *testing.T, vendor string) {
		h := githosttest.New(t, vendor)
		host := h.Config(githosttest.Branch)
		host.Labels, host.Reviewers, host.Assignees = []string{"promotion"}, []string{h.Person("ann")}, []string{h.Person("bob")}
		w := githosttest.Work(host, 12, "6.6.0")
		mustAttempt(t, h, host, w)
		h.Edit(func(p *githosttest.Pull) { p.Body = strings.ReplaceAll(p.Body, "\n", "\r\n") + "\r\n" })
		h.Calls()
		if r := mustAttempt(t, h, host, w); r.Change != githost.Unchanged || len(r.Warnings) > 0 {
			t.Errorf("got %+v, want unchanged", r)
		}
		if writes := h.Writes(); len(writes) > 0 {
			t.Errorf("writes %q, want none", writes)
		}
	})
}

func TestErrorsAreClassified(t *testing.T) {
	t.Parallel()
	soon := map[string]string{"Retry-After": "120"}
	rows := []struct {
		name   string
		fault  githosttest.Fault
		kind   action.OutcomeKind
		atomic time.Duration // the earliest time from now; 0: none is given
	}{
		{"429", githosttest.Fault{Status: 429, Header: soon}, action.Throttle, 2 * time.Minute},
		{"429 without a time", githosttest.Fault{Status: 429}, action.Throttle, 0},
		{"403 with Retry-After", githosttest.Fault{Status: 403, Header: soon}, action.Throttle, 2 * time.Minute},
		{"403 secondary limit", githosttest.Fault{Status: 403, Body: `{"message":"You have exceeded a secondary rate limit."}`},
			action.Throttle, time.Minute},
		{"403", githosttest.Fault{Status: 403, Body: `{"message":"Resource not accessible by integration"}`}, action.Fatal, 0},
		{"401", githosttest.Fault{Status: 401}, action.Fatal, 0},
		{"404", githosttest.Fault{Status: 404}, action.Fatal, 0},
		{"422", githosttest.Fault{Status: 422}, action.Fatal, 0},
		{"500", githosttest.Fault{Status: 500}, action.Retry, 0},
		{"502", githosttest.Fault{Status: 502}, action.Throttle, 0},
		{"503", githosttest.Fault{Status: 503, Header: soon}, action.Throttle, 2 * time.Minute},
		{"504", githosttest.Fault{Status: 504}, action.Throttle, 0},
		{"409 of Git", githosttest.Fault{Status: 409, Body: `{"message":"cannot lock ref 'refs/heads/main'"}`}, action.Retry, 0},
		{"redirect", githosttest.Fault{Status: 301, Header: map[string]string{"Location": "https://elsewhere.example.com/"}},
			action.Fatal, 0},
		{"connection lost", githosttest.Fault{}, action.Retry, 0},
		{"not JSON", githosttest.Fault{Status: 200, Body: `[{"number":`}, action.Retry, 0},
	}
	forEachVendor(t, func(t *testing.T, vendor string) {
		for _, row := range rows {
			h := githosttest.New(t, vendor)
			host := h.Config(githosttest.Branch)
			row.fault.Match, row.fault.Times = "^GET ", 1000
			h.Inject(row.fault)
			start := time.Now()
			_, err := h.Open(t, host).Prepare(t.Context(), promotion.Work{})
			got := githost.Outcome(err)
			if err == nil || got.Kind != row.kind {
				t.Errorf("%s: %v is %s, want %s", row.name, err, got.Kind, row.kind)
			}
			if row.atomic > 0 && (got.At.Before(start.Add(row.atomic-2*time.Second)) ||
				got.At.After(time.Now().Add(row.atomic+2*time.Second))) {
				t.Errorf("%s: not before %s, want in %s", row.name, got.At, row.atomic)
			}
			if strings.Contains(got.Error, githosttest.Token) || len(got.Error) > 1000 {
				t.Errorf("%s: error %q", row.name, got.Error)
			}
		}
	})
}

func TestALimitStopsFurtherRequests(t *testing.T) {
	t.Parallel()
	h := githosttest.New(t, githost.Gitea)
	host := h.Config(githosttest.Branch)
	h.Inject(githosttest.Fault{Match: "^GET ", Status: 429, Header: map[string]string{"Retry-After": "120"}})
	c := h.Open(t, host)
	for range 3 {
		if _, err := c.Prepare(t.Context(), promotion.Work{}); githost.Outcome(err).Kind != action.Throttle {
			t.Errorf("got %v, want throttle", err)
		}
	}
	if calls := h.Calls(); len(calls) != 1 {
		t.Errorf("requests %q, want one", calls)
	}
}

func TestSecretsLeaveNoMessage(t *testing.T) {
	t.Parallel()
	h := githosttest.New(t, githost.Gitea)
	h.Inject(githosttest.Fault{Match: "^GET ", Status: 422, Body: `{"message":"bad token ` + githosttest.Token + `"}`})
	_, err := h.Open(t, h.Config(githosttest.Branch)).Prepare(t.Context(), promotion.Work{})
	if err == nil || strings.Contains(err.Error(), githosttest.Token) || !strings.Contains(err.Error(), "bad token") {
		t.Errorf("got %v", err)
	}
}

func TestACanceledAttemptSaysWhy(t *testing.T) {
	t.Parallel()
	h := githosttest.New(t, githost.Gitea)
	never := make(chan struct{})
	h.Inject(githosttest.Fault{Match: "^GET ", Until: never})
	cause := errors.New("no longer wanted")
	ctx, cancel := context.WithCancelCause(t.Context())
	done := make(chan error)
	go func() {
		_, err := h.Open(t, h.Config(githosttest.Branch)).Prepare(ctx, promotion.Work{})
		done <- err
	}()
	for len(h.Calls()) == 0 {
		select {
		case err := <-done:
			t.Fatal(err)
		case <-time.After(time.Millisecond):
		}
	}
	cancel(cause)
	if err := <-done; !errors.Is(err, cause) {
		t.Errorf("got %v, want %v", err, cause)
	}
}

func TestUnchangedProposalsAreNotSentAgain(t *testing.T) {
	t.Parallel()
	h := githosttest.New(t, githost.Gitea)
	host := h.Config(githosttest.Branch)
	r := mustAttempt(t, h, host, githosttest.Work(host, 12, "6.6.0"))
	h.ConfirmUnchanged()
	c := h.Open(t, host)
	for range 3 {
		if p, err := c.Watch(t.Context(), r.Proposal.Number); err != nil || p.Number != r.Proposal.Number || p.Revision != "6.6.0" {
			t.Fatalf("got %+v, %v", p, err)
		}
	}
	if n := h.NotModified(); n != 4 { // the proposal and its checks, twice
		t.Errorf("%d answers were %d, want 4", n, http.StatusNotModified)
	}
	h.Edit(func(p *githosttest.Pull) { p.Conflict = true })
	h.CloseByPerson(t, r.Proposal.Number)
	if p, err := c.Watch(t.Context(), r.Proposal.Number); err != nil || p.State != promotion.Closed {
		t.Errorf("after a change: %+v, %v", p, err)
	}
}

func TestWatchingUsesAFifthOfTheBudget(t *testing.T) {
	t.Parallel()
	h := githosttest.New(t, githost.Gitea)
	host := h.Config(githosttest.Branch)
	w := githosttest.Work(host, 12, "6.6.0")
	r := mustAttempt(t, h, host, w)
	reset := time.Now().Add(time.Hour).Truncate(time.Second)
	h.Report(50, reset) // ten requests are a fifth
	c := h.Open(t, host)
	var last error
	for range 20 {
		if _, last = c.Watch(t.Context(), r.Proposal.Number); last != nil {
			break
		}
	}
	if got := githost.Outcome(last); got.Kind != action.Throttle || !got.At.Equal(reset) {
		t.Errorf("got %v until %s, want throttle until %s", last, got.At, reset)
	}
	if r := mustAttempt(t, h, host, w); r.Change != githost.Unchanged {
		t.Errorf("promoting is limited too: %+v", r)
	}
}

// TestRetargetedProposalsAreLeftAlone: a proposal that a person gave another base cannot be found, and the next attempt
// makes a new one.
func TestRetargetedProposalsAreLeftAlone(t *testing.T) {
	t.Parallel()
	forEachVendor(t, func(t *testing.T, vendor string) {
		h := githosttest.New(t, vendor)
		host := h.Config(githosttest.Branch)
		w := githosttest.Work(host, 12, "6.6.0")
		first := mustAttempt(t, h, host, w)
		h.Push(t, "release", "Another base")
		h.Edit(func(p *githosttest.Pull) { p.Base = "release" })
		if p, err := h.Open(t, host).Watch(t.Context(), first.Proposal.Number); err != nil || p.State != promotion.Closed || !p.ClosedByUs {
			t.Errorf("got %+v, %v; want one that ended, and not declined", p, err)
		}
		if r := mustAttempt(t, h, host, w); r.Change != githost.Created {
			t.Errorf("got %+v, want a new proposal", r)
		}
	})
}
