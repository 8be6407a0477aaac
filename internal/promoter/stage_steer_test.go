package promoter_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/admission"
	"github.com/waybill-dev/waybill/internal/cron"
	"github.com/waybill-dev/waybill/internal/kube/kubetest"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/promotion"
	"github.com/waybill-dev/waybill/internal/queue"
)

// awaitPhase waits until the promoter sees the environment in a phase.
func (w *stageWorld) awaitPhase(wanted promotion.Phase) {
	w.t.Helper()
	w.until(string(wanted), func() bool {
		view, err := w.ledger.Promotions.View(w.t.Context(), "waybill.yaml:shop")
		return err == nil && phase(view, "prod") == wanted
	})
}

// wantNothing reports attempts at the Git host.
func (w *stageWorld) wantNothing(when string) {
	w.t.Helper()
	if got := w.attempts(); len(got) > 0 {
		w.t.Errorf("%s: attempts %q", when, got)
	}
}

// A window, an approval or a hold that delays the stage keeps its revision out of the environment.
func TestNothingIsProposedBeforeTheStageStarts(t *testing.T) {
	t.Parallel()
	closed := []admission.Window{{Kind: cron.Deny, Schedule: "* * * * *", Duration: action.Duration(24 * time.Hour), Timezone: "UTC"}}
	for name, c := range map[string]struct {
		change func(*pipeline.Stage)
		begin  func(*stageWorld) // runs after the start of the deployment
		end    func(*stageWorld)
	}{
		"window": {
			change: func(s *pipeline.Stage) { s.Windows = closed },
			end:    func(w *stageWorld) { w.edit(2, func(s *pipeline.Stage) { s.Windows = nil }) },
		},
		"approval": {
			change: func(s *pipeline.Stage) { s.Approval = &admission.Approval{Count: 1} },
			end: func(w *stageWorld) {
				w.command(pipeline.Command{Kind: pipeline.ApprovalGiven, Deployment: 1, Target: "shop/prod", By: "ana"})
			},
		},
		"hold": {
			change: func(s *pipeline.Stage) { s.Approval = &admission.Approval{Count: 1} },
			begin: func(w *stageWorld) {
				w.command(pipeline.Command{Kind: pipeline.HoldSet, Deployment: 1, Target: "shop", By: "ana", Reason: "wait"})
				w.command(pipeline.Command{Kind: pipeline.ApprovalGiven, Deployment: 1, Target: "shop/prod", By: "ana"})
			},
			end: func(w *stageWorld) {
				w.command(pipeline.Command{Kind: pipeline.HoldCleared, Deployment: 1, Target: "shop", By: "ana"})
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newStageWorld(t, c.change)
			w.health("6.5.4", "True")
			w.deploy("6.6.0")
			stop := w.start()
			w.awaitEntry("1 shop pipeline-started")
			if c.begin != nil {
				c.begin(w)
			}
			stop() // a whole pass has ended
			w.start()()
			w.wantNothing("before the stage may start")
			if slices.Contains(w.entries(), "1 prod stage-started") {
				t.Fatalf("the stage has started: %q", w.entries())
			}
			w.start()
			c.end(w)
			w.awaitAttempt("propose 6.6.0")
			w.health("6.6.0", "True")
			w.awaitEntry("1 shop pipeline-finished-successfully")
		})
	}
}

// While a deployment is inside, its application and targets stay, and the conditions of readiness may be edited.
func TestEditsOfAStageWithADeploymentInside(t *testing.T) {
	t.Parallel()
	w := newStageWorld(t, func(s *pipeline.Stage) { s.Environment.Soak = action.Duration(24 * time.Hour) })
	w.health("6.5.4", "True")
	w.start()
	w.deploy("6.6.0")
	w.awaitAttempt("propose 6.6.0")
	w.health("6.6.0", "True")
	w.awaitPhase(promotion.PhaseSoaking)
	was := w.stage
	for name, change := range map[string]func(*pipeline.Environment){
		"app": func(v *pipeline.Environment) { v.App.Name = "other" },
		"targets": func(v *pipeline.Environment) {
			v.Targets = append(slices.Clone(v.Targets), pipeline.Target{Cluster: "eu", Namespace: "more"})
		},
	} {
		refused := w.edit(2, func(s *pipeline.Stage) { change(s.Environment) })
		if err := refused.Err(); err == nil || !strings.Contains(err.Error(), "app and targets of prod cannot change while shop#1 is inside") {
			t.Errorf("an edit of %s: %v", name, err)
		}
		w.stage = was
	}
	if refused := w.edit(2, func(s *pipeline.Stage) { s.Environment.Soak = 0 }); len(refused) > 0 {
		t.Fatal(refused)
	}
	w.awaitEntry("1 shop pipeline-finished-successfully")
}

// A notification is an action of its own. The environment is promoted once it is announced, and the change is another's.
func TestAStagePromotesByANotification(t *testing.T) {
	t.Parallel()
	w := newStageWorld(t, func(s *pipeline.Stage) {
		s.Environment.Strategy = pipeline.Strategy{Notification: &pipeline.Notification{URL: "https://ci.example.com/promote", Secret: "ci"}}
	})
	w.health("6.5.4", "True")
	stop := w.start()
	w.deploy("6.6.0")
	w.awaitPhase(promotion.PhaseRollingOut)
	stop()
	w.start()
	w.health("6.6.0", "False")
	w.awaitEntry("1 shop pipeline-failed")
	w.command(pipeline.Command{Kind: pipeline.RetryRequested, Deployment: 1, Target: "shop", By: "ana"})
	w.health("6.5.4", "True")
	w.until("it is announced again", func() bool { return len(w.attempts()) == 2 })
	w.health("6.6.0", "True")
	w.awaitEntry("1 shop pipeline-finished-successfully")
	if got := w.attempts(); !slices.Equal(got, []string{"notify 6.6.0", "notify 6.6.0"}) {
		t.Errorf("attempts %q", got)
	}
	if got := w.work[0]; got.Sink == nil || got.Sink.URL != "https://ci.example.com/promote" || got.Sink.Secret != "ci" || got.Was != "6.5.4" {
		t.Errorf("the work is %+v", got)
	}
}

// A cluster that does not answer fails nothing, however long that lasts; a cluster that returns is promoted to.
func TestAStageWaitsForAClusterThatIsAway(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]struct{ begin, end func(*kubetest.Server) }{
		"stopped": {(*kubetest.Server).Stop, (*kubetest.Server).Start},
		"frozen":  {(*kubetest.Server).Freeze, (*kubetest.Server).Thaw},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newStageWorld(t, func(s *pipeline.Stage) { s.Environment.Rollout = action.Duration(time.Second) })
			w.health("6.5.4", "True")
			fault.begin(w.leaf)
			w.start()
			w.deploy("6.6.0")
			w.awaitPhase(promotion.PhaseUnknown)
			w.wantNothing("to a cluster that is not known")
			w.health("6.6.0", "True")
			fault.end(w.leaf)
			w.awaitEntry("1 shop pipeline-finished-successfully")
		})
	}
}

// A promotion whose strategy was edited closes the pull request of the one before where it is, and only then opens its own. The process
// that closes it knows the old place from the log.
func TestAProposalOfAStageThatIsElsewhereIsClosed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*pipeline.Strategy)
		next   string // the attempt after the closing; "": none, since others promote
	}{
		"base branch": {func(s *pipeline.Strategy) { s.PullRequest.Base = "release" }, "propose 6.7.0"},
		"head branch": {func(s *pipeline.Strategy) { s.PullRequest.Branch = "next" }, "propose 6.7.0"},
		"repository":  {func(s *pipeline.Strategy) { s.PullRequest.URL = "https://git.example.com/apps/other" }, "propose 6.7.0"},
		"another way": {func(s *pipeline.Strategy) {
			*s = pipeline.Strategy{Notification: &pipeline.Notification{URL: "https://ci.example.com/promote", Secret: "ci"}}
		}, "notify 6.7.0"},
		"no way": {func(s *pipeline.Strategy) { *s = pipeline.Strategy{} }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newStageWorld(t, func(s *pipeline.Stage) { s.Queue = pipeline.Latest })
			w.health("6.5.4", "True")
			stop := w.start()
			w.deploy("6.6.0")
			w.awaitAttempt("propose 6.6.0")
			w.until("the proposal is stored", func() bool {
				state, err := w.ledger.Promotions.Load(t.Context(), "waybill.yaml:shop", "")
				return err == nil && state.Proposals["prod"].State == promotion.Open
			})
			stop()
			w.edit(2, func(s *pipeline.Stage) {
				pull := *s.Environment.Strategy.PullRequest
				s.Environment.Strategy.PullRequest = &pull
				c.change(&s.Environment.Strategy)
			})
			w.command(pipeline.Command{Kind: pipeline.PipelineCanceled, Deployment: 1, Target: "shop", By: "ana"})
			w.deploy("6.7.0")
			stop = w.serve(w.engine()) // the next look finds the one promotion ended and the other begun
			w.until("the next promotion", func() bool {
				live, err := w.ledger.Actions(t.Context(), queue.ActionQuery{Handler: promotion.HandlerEnvironment, Pipeline: "shop", LiveOnly: true})
				return err == nil && len(live) == 1 && live[0].Step.Deployment == 2 && live[0].Thread.Status == action.Queued
			})
			stop()
			w.start()
			w.awaitAttempt("close 6.6.0")
			want := []string{"propose 6.6.0", "close 6.6.0"}
			if c.next != "" {
				w.awaitAttempt(c.next)
				want = append(want, c.next)
			}
			w.health("6.7.0", "True")
			w.awaitEntry("2 shop pipeline-finished-successfully")
			if got := w.attempts(); !slices.Equal(got[:len(want)], want) {
				t.Errorf("attempts %q, want %q first", got, want)
			}
			w.mu.Lock()
			defer w.mu.Unlock()
			closed := w.work[1]
			if closed.Reason != "the pipeline promotes to prod in another way" || !closed.Host.HasSamePlace(*w.work[0].Host) {
				t.Errorf("it is closed at %+v with the reason %q", closed.Host, closed.Reason)
			}
		})
	}
}
