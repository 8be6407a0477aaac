package pullrequest

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/conductor"
	"github.com/waybill-dev/waybill/internal/githost"
	"github.com/waybill-dev/waybill/internal/githost/githosttest"
	"github.com/waybill-dev/waybill/internal/promotion"
)

func TestProposeOpensAPullRequest(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	out := w.done(w.work(12, "6.6.0"))
	p := out.Proposal
	if p == nil || p.Number != 1 || p.Revision != "6.6.0" || p.Run != 12 || p.State != promotion.Open || p.Foreign || p.Head != w.git.Tip(branch) ||
		p.Base != w.git.Tip("main") {
		t.Errorf("the proposal is %+v", p)
	}
	pulls := w.model.Pulls(t)
	if len(pulls) != 1 || pulls[0].Title != "Promote apps/podinfo in prod to 6.6.0" || !strings.Contains(pulls[0].Body, file+":1") ||
		!strings.Contains(pulls[0].Body, "apps/podinfo/prod") || pulls[0].SHA != p.Head {
		t.Errorf("the pull requests are %+v", pulls)
	}
	if got := w.git.Read(branch, file); got != "version: 6.6.0"+mark+"\n" {
		t.Errorf("the file is %q", got)
	}
}

func TestARepetitionChangesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.done(w.work(12, "6.6.0"))
	w.restart()
	w.model.Calls()
	second := w.done(w.work(12, "6.6.0"))
	if writes := w.model.Writes(); len(writes) > 0 || second.Proposal.Head != first.Proposal.Head || second.Proposal.Number != first.Proposal.Number {
		t.Errorf("%v %+v", writes, second.Proposal)
	}
}

func TestCrashesBetweenTheStepsAreAdopted(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]githosttest.Fault{
		"the branch is pushed, no pull request is made": {Match: "^POST .*/pulls$", Status: 500},
		"the response of the creation is lost":          {Match: "^POST .*/pulls$", After: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.model.Inject(f)
			o := w.do(w.work(12, "6.6.0"))
			if o.Kind != action.Retry && o.Kind != action.Throttle && o.Kind != action.Done {
				t.Fatalf("the first attempt ends %s: %s", o.Kind, o.Error)
			}
			pushed := w.git.Tip(branch)
			w.restart()
			out := w.done(w.work(12, "6.6.0"))
			if len(w.model.Pulls(t)) != 1 || out.Proposal.Head != pushed {
				t.Errorf("%+v", w.model.Pulls(t))
			}
		})
	}
}

// A process is stopped right before it creates the pull request. A second process has the claim by then, and a person merges its pull
// request, whose branch stays. The first process wakes up.
func TestAStoppedProcessMakesNoSecondPullRequest(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	stopped := w.Handler
	w.restart()
	work := w.work(12, "6.6.0")
	looks := 0
	o := w.doBy(t.Context(), stopped, work, func() bool {
		looks++
		w.done(work)
		w.model.MergeByPerson(t, 1)
		return false
	})
	w.want(o, action.GivenBack, githost.CodeClaimLost)
	if pulls := w.model.Pulls(t); len(pulls) != 1 || pulls[0].State != githosttest.Merged || looks != 1 {
		t.Errorf("after %d looks at the claim the pull requests are %+v", looks, pulls)
	}
	if out := w.done(work); out.Proposal.State != promotion.Merged || len(w.model.Pulls(t)) != 1 {
		t.Errorf("a repetition: %+v", out.Proposal)
	}
}

func TestNothingToPropose(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.want(w.do(w.work(12, "6.5.4")), action.Done, string(promotion.ErrAlreadyAsked))
	other := w.work(12, "6.6.0")
	other.Env = "production"
	w.want(w.do(other), action.Fatal, string(promotion.ErrNoMarkers))
	w.git.Write(map[string]string{file: "version: |" + mark + "\n  6.5.4\n"})
	w.git.Commit("main")
	w.want(w.do(w.work(12, "6.6.0")), action.Fatal, "MarkerUnusable")
	if pulls := w.model.Pulls(t); len(pulls) > 0 {
		t.Errorf("%+v", pulls)
	}
}

func TestADeclinedRevisionIsNotProposedAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.done(w.work(12, "6.6.0"))
	w.model.CloseByPerson(t, 1)
	w.git.Git(w.git.Dir, "update-ref", "-d", "refs/heads/"+branch)
	w.want(w.do(w.work(12, "6.6.0")), action.Fatal, string(promotion.ErrDeclined))
	if w.git.Tip(branch) != "" {
		t.Error("the branch is pushed all the same")
	}
	again := w.work(13, "6.6.0")
	again.Repeats = true
	if out := w.done(again); out.Proposal.Number != 2 {
		t.Errorf("%+v", out.Proposal)
	}
}

func TestAMergedRevisionIsNotProposedAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.done(w.work(12, "6.6.0"))
	w.model.MergeByPerson(t, 1)
	if out := w.done(w.work(12, "6.6.0")); out.Proposal == nil || out.Proposal.State != promotion.Merged {
		t.Errorf("%+v", out.Proposal)
	}
}

func TestANewerRevisionTakesOver(t *testing.T) {
	t.Parallel()
	for _, closes := range []bool{false, true} {
		w := newWorld(t)
		w.done(w.work(12, "6.6.0"))
		w.host.Close = closes
		out := w.done(w.work(13, "6.7.0"))
		pulls := w.model.Pulls(t)
		switch {
		case out.Proposal.Revision != "6.7.0" || out.Proposal.Head != w.git.Tip(branch):
			t.Errorf("%+v", out.Proposal)
		case !closes && (len(pulls) != 1 || !strings.HasSuffix(pulls[0].Title, "6.7.0")):
			t.Errorf("it is not updated: %+v", pulls)
		case closes && (len(pulls) != 2 || pulls[0].State != githosttest.Closed || pulls[1].State != githosttest.Open):
			t.Errorf("it is not closed: %+v", pulls)
		}
	}
}

func TestCommitsOfOthersAreReported(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.done(w.work(12, "6.6.0"))
	w.git.Git(w.git.Work, "fetch", "--quiet", "origin", branch)
	w.git.Git(w.git.Work, "checkout", "--quiet", "FETCH_HEAD")
	w.git.Write(map[string]string{"migration.yaml": "a: b\n"})
	person := w.git.Commit(branch)
	out := w.done(w.work(12, "6.6.0"))
	if !out.Proposal.Foreign || out.Proposal.Head != person {
		t.Errorf("%+v", out.Proposal)
	}
}

// A branch with commits of others is made again from its base once these were merged, wherever the host left it: else every later proposal would
// have them, on an old base, and a person would have to merge it. As long as they were not merged, nothing of others is lost.
func TestCommitsOfOthersStayUntilTheyAreMerged(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		end   func(w *world)
		isNew bool
	}{
		"merged":   {func(w *world) { w.model.MergeByPerson(t, 1) }, true},
		"declined": {func(w *world) { w.model.CloseByPerson(t, 1) }, false},
		"pushed after the merge": {func(w *world) {
			w.model.MergeByPerson(t, 1)
			w.git.Write(map[string]string{"more.yaml": "a: b\n"})
			w.git.Commit(branch)
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.done(w.work(12, "6.6.0"))
			w.git.Git(w.git.Work, "fetch", "--quiet", "origin", branch)
			w.git.Git(w.git.Work, "checkout", "--quiet", "FETCH_HEAD")
			w.git.Write(map[string]string{"migration.yaml": "a: b\n"})
			w.git.Commit(branch)
			if out := w.done(w.work(12, "6.6.0")); !out.Proposal.Foreign {
				t.Fatalf("the commit of a person is not seen: %+v", out.Proposal)
			}
			c.end(w)
			out := w.done(w.work(13, "6.7.0"))
			if out.Proposal.Foreign == c.isNew || out.Proposal.Number != 2 {
				t.Errorf("the next proposal is %+v", out.Proposal)
			}
			if parent := w.git.Git(w.git.Dir, "rev-parse", branch+"^"); (parent == w.git.Tip("main")) != c.isNew {
				t.Errorf("the next commit is on %s, main at %s", parent, w.git.Tip("main"))
			}
		})
	}
}

func TestMergeAtTheDecidedHead(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.done(w.work(12, "6.6.0")).Proposal
	merge := w.work(12, "6.6.0")
	merge.Op, merge.Number, merge.Head = promotion.OpMerge, p.Number, strings.Repeat("ab", 20)
	w.want(w.do(merge), action.Fatal, string(promotion.ErrHeadMoved))
	merge.Head = p.Head
	if out := w.done(merge); out.Proposal.State != promotion.Merged || w.git.Tip(branch) != "" {
		t.Errorf("%+v, the branch is at %q", out.Proposal, w.git.Tip(branch))
	}
	w.restart()
	if out := w.done(merge); out.Proposal.State != promotion.Merged {
		t.Errorf("a repetition: %+v", out.Proposal)
	}
}

// A person who may push the branch, and not merge, gives the head a message and an author of Waybill's.
func TestChangesOfOthersAreNotMergedWhateverTheirMessageSays(t *testing.T) {
	t.Parallel()
	for name, forge := range map[string]func(w *world){
		"in the commit": func(w *world) { w.git.Git(w.git.Work, "commit", "--quiet", "--amend", "--no-edit") },
		"in one more":   func(w *world) { w.git.Git(w.git.Work, "commit", "--quiet", "--reuse-message=HEAD") },
		"in one before": func(w *world) {
			w.git.Git(w.git.Work, "commit", "--quiet", "--reuse-message=HEAD")
			w.git.Git(w.git.Work, "-c", "sequence.editor=sed -i '1!G;h;$!d'", "rebase", "--quiet", "--interactive", "HEAD~2")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			p := w.done(w.work(12, "6.6.0")).Proposal
			w.git.Git(w.git.Work, "fetch", "--quiet", "origin", branch)
			w.git.Git(w.git.Work, "checkout", "--quiet", "--detach", "FETCH_HEAD")
			w.git.Write(map[string]string{"clusters/prod/admin.yaml": "kind: ClusterRoleBinding\n"})
			w.git.Git(w.git.Work, "add", "--all")
			forge(w)
			w.git.Git(w.git.Work, "push", "--quiet", "--force", "origin", "HEAD:"+branch)
			merge := w.work(12, "6.6.0")
			merge.Op, merge.Number, merge.Head = promotion.OpMerge, p.Number, w.git.Tip(branch)
			w.want(w.do(merge), action.Fatal, githost.CodeForeign)
			if pulls := w.model.Pulls(t); pulls[0].State != githosttest.Open || merge.Head == p.Head {
				t.Errorf("%+v", pulls)
			}
		})
	}
}

func TestCloseComments(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.done(w.work(12, "6.6.0")).Proposal
	end := w.work(12, "6.6.0")
	end.Op, end.Number, end.Reason = promotion.OpClose, p.Number, "superseded by 6.7.0"
	if out := w.done(end); out.Proposal.State != promotion.Closed || !out.Proposal.ClosedByUs {
		t.Errorf("%+v", out.Proposal)
	}
	if pulls := w.model.Pulls(t); pulls[0].State != githosttest.Closed || len(pulls[0].Comments) != 1 {
		t.Errorf("%+v", pulls)
	}
}

func TestFaultsHaveTheirOutcome(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.model.Inject(githosttest.Fault{Match: "/pulls", Status: 429, Header: map[string]string{"Retry-After": "30"}})
	if o := w.do(w.work(12, "6.6.0")); o.Kind != action.Throttle || time.Until(o.At) < 20*time.Second {
		t.Errorf("429: %+v", o)
	}
	w.restart() // the account remembers the limit
	w.model.Inject(githosttest.Fault{Match: "/pulls", Status: 500})
	if o := w.do(w.work(12, "6.6.0")); o.Kind != action.Retry {
		t.Errorf("500: %+v", o)
	}
	w.git.Hook("pre-receive", "echo protected >&2; exit 1\n")
	w.want(w.do(w.work(12, "6.6.0")), action.Fatal, "Refused")
	w.keys = nil
	w.want(w.do(w.work(12, "6.6.0")), action.Fatal, codeSecret)
	w.keys = map[string][]byte{"caFile": w.git.CA()}
	w.want(w.do(w.work(12, "6.6.0")), action.Fatal, codeSecret)
	w.want(w.do(promotion.Work{}), action.BadInput, codeWork)
	bad := w.work(12, "6.6.0")
	w.keys, bad.Op = map[string][]byte{"token": []byte("x"), "caFile": w.git.CA()}, promotion.OpGate
	w.want(w.do(bad), action.BadInput, codeWork)
}

func TestAWrongTokenIsPermanent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.keys["token"] = []byte("another")
	if o := w.do(w.work(12, "6.6.0")); o.Kind != action.Fatal || !strings.HasPrefix(o.Code, "http_40") {
		t.Errorf("%+v", o)
	}
}

func TestAShutdownGivesTheAttemptBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(conductor.ErrShutdown)
	w.want(w.doIn(ctx, w.work(12, "6.6.0")), action.GivenBack, "")
	ctx, cancel = context.WithCancelCause(t.Context())
	cancel(conductor.ErrCanceled)
	w.want(w.doIn(ctx, w.work(12, "6.6.0")), action.Retry, "")
}

func TestTheEvidenceHasNoSecrets(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	o := w.do(w.work(12, "6.6.0"))
	stored, _, err := w.blobs.Get(t.Context(), o.Ref)
	if err != nil {
		t.Fatal(err)
	}
	defer stored.Close()
	text, err := io.ReadAll(stored)
	if err != nil || !strings.Contains(string(text), `"revision": "6.6.0"`) || strings.Contains(string(text), githosttest.Token) {
		t.Errorf("%s %v", text, err)
	}
}
