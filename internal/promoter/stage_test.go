package promoter_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/blob"
	"github.com/waybill-dev/waybill/internal/conductor"
	"github.com/waybill-dev/waybill/internal/conductor/handler/environment"
	"github.com/waybill-dev/waybill/internal/conductor/handler/gate"
	"github.com/waybill-dev/waybill/internal/deployer"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/kube/kubetest"
	"github.com/waybill-dev/waybill/internal/kube/pool"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/promoter"
	"github.com/waybill-dev/waybill/internal/promotion"
	"github.com/waybill-dev/waybill/internal/promotions"
	"github.com/waybill-dev/waybill/internal/queue"
	"github.com/waybill-dev/waybill/internal/sqlite"
	"github.com/waybill-dev/waybill/internal/sqlite/sqlitetest"
	"github.com/waybill-dev/waybill/internal/store"
)

// stageWorld is a leaf, a model of a Git host, and a log with the pipeline shop of a waybill.yaml, whose stage prod is on the leaf.
type stageWorld struct {
	*world
	stage pipeline.Stage // as it was defined last
	keep  pipeline.Keep
	blobs blob.Store // receives archives; nil: there are none
	mu    sync.Mutex
	work  []promotion.Work // attempts of the handler pull-request
	open  *promotion.Proposal
}

func newStageWorld(t *testing.T, change func(*pipeline.Stage), options ...sqlite.Option) *stageWorld {
	apps := kubetest.Kind{GroupVersionResource: kustomizations, Kind: "Kustomization", Unconditional: true}
	w := &stageWorld{world: &world{t: t, ledger: ledger.New(sqlitetest.Open(t, t.TempDir()+"/waybill.db", options...), ledger.Options{}),
		leaf: kubetest.NewServer(t, kubetest.Open(apps))}}
	t.Cleanup(func() {
		if err := w.ledger.Close(); err != nil {
			t.Error(err)
		}
	})
	prod := stageProd()
	if change != nil {
		change(&prod)
	}
	w.stage = prod
	if refused := w.apply(pipeline.New("shop"), 1); len(refused) > 0 {
		t.Fatal(refused)
	}
	return w
}

// stageProd returns the stage prod with one target.
func stageProd() pipeline.Stage {
	return pipeline.Stage{Name: "prod", Kind: pipeline.EnvironmentStage, Queue: pipeline.FIFO, OnFailure: pipeline.Release,
		Environment: &pipeline.Environment{App: pipeline.App{APIVersion: "kustomize.toolkit.fluxcd.io/v1", Kind: "Kustomization", Name: "podinfo"},
			Targets: []pipeline.Target{{Cluster: "eu", Namespace: "prod"}}, MinReady: pipeline.Limit{N: 100, Percent: true},
			Strategy: pipeline.Strategy{PullRequest: &pipeline.PullRequest{Type: "gitea", URL: "https://git.example.com/apps/fleet", Base: "main"}},
			Source:   pipeline.Source{Type: "revision"}, Rollout: action.Duration(30 * time.Minute)}}
}

// apply stores the stage as the next version of the pipeline, unless that is refused.
func (w *stageWorld) apply(engine *pipeline.Engine, version int) (refused fault.Problems) {
	w.t.Helper()
	d := pipeline.Definition{Pipeline: "shop", Order: pipeline.Runnable, Stages: []pipeline.Stage{w.stage}, Keep: w.keep}
	plan, problems := pipeline.Compile(d)
	if err := problems.Err(); err != nil {
		w.t.Fatal(err)
	}
	_, err := w.ledger.Define(w.t.Context(), "shop", engine.Seq(), func(locked journal.Locked) (journal.Change, error) {
		edit := engine.Edit(version, plan, 0, locked.Now)
		if refused = edit.Refused; len(refused) > 0 {
			return journal.Change{}, nil
		}
		return journal.Change{Definition: &d, Entries: edit.Entries}, nil
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return refused
}

// edit changes the stage by the next version of the pipeline.
func (w *stageWorld) edit(version int, change func(*pipeline.Stage)) (refused fault.Problems) {
	w.t.Helper()
	v := *w.stage.Environment
	w.stage.Environment = &v
	change(&w.stage)
	engine, err := deployer.Fold(w.t.Context(), w.ledger, "shop")
	if err != nil {
		w.t.Fatal(err)
	}
	return w.apply(engine, version)
}

// Do serves the handler pull-request on a model of a Git host with one proposal at a time.
func (w *stageWorld) Do(_ context.Context, a conductor.Attempt) action.Outcome {
	var work promotion.Work
	if err := json.Unmarshal(a.Action.Parameters, &work); err != nil {
		return action.Outcome{Kind: action.BadInput, Error: err.Error()}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.work = append(w.work, work)
	if work.Op == promotion.OpNotify {
		return action.Outcome{Kind: action.Done}
	}
	p := promotion.Proposal{Number: int64(len(w.work)), URL: "https://git.example.com/apps/fleet/pulls/1", Revision: work.Revision, Run: work.Run,
		State: promotion.Open, At: time.Now().UTC(), Base: "b", Head: "h", Host: work.Host.Place()}
	if work.Op == promotion.OpClose {
		p = *w.open
		p.State, p.ClosedByUs = promotion.Closed, true
	}
	w.open = &p
	output, _ := json.Marshal(promotions.Output{Proposal: &p})
	return action.Outcome{Kind: action.Done, Output: output}
}

// attempts lists the attempts so far, such as "propose 6.6.0".
func (w *stageWorld) attempts() (list []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, work := range w.work {
		list = append(list, fmt.Sprint(work.Op, " ", work.Revision))
	}
	return list
}

// start runs a deployer, a conductor and a promoter without a management cluster until stop is called, or the test ends.
func (w *stageWorld) start() (stop func()) {
	w.t.Helper()
	return w.serve(append(w.engine(), w.promoter()))
}

// role is the work of one role of a process.
type role = func(context.Context) error

// promoter returns the role promoter without a management cluster.
func (w *stageWorld) promoter() role {
	w.t.Helper()
	config, err := pool.ParseKubeconfig(w.leaf.Kubeconfig("leaf", "root"))
	if err != nil {
		w.t.Fatal(err)
	}
	log := w.ledger.NewWaiter()
	return promoter.New(log, log.Promotions, promoter.Config{Changes: waiters(w.t, log),
		Clusters: map[string]*rest.Config{"eu": config}, Dial: w.dial,
		ProposalsEvery: 24 * time.Hour}).Run // the model has no API
}

// engine returns the roles deployer and conductor.
func (w *stageWorld) engine() []role {
	c := conductor.New(w.ledger.NewWaiter(), conductor.Config{Workers: 4, Handlers: map[string]conductor.Handler{
		promotion.HandlerEnvironment: environment.Handler{}, promotion.HandlerPullRequest: w, promotion.HandlerExpression: gate.Expression{},
		promotion.HandlerNotification: w}})
	return []role{c.Run, deployer.New(w.ledger.NewWaiter(), deployer.Config{Blobs: w.blobs, FirstArchive: time.Millisecond}).Run}
}

// serve runs roles until stop is called, or the test ends.
func (w *stageWorld) serve(works []role) (stop func()) {
	w.t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(w.t.Context()))
	var roles sync.WaitGroup
	for _, run := range works {
		roles.Go(func() {
			if err := run(ctx); err != nil {
				w.t.Errorf("role: %v", err)
			}
		})
	}
	stop = sync.OnceFunc(func() {
		cancel()
		roles.Wait()
	})
	w.t.Cleanup(stop)
	return stop
}

// deploy registers a revision and deploys it.
func (w *stageWorld) deploy(label string) {
	w.t.Helper()
	if _, err := w.ledger.Register(w.t.Context(), pipeline.RegisteredRevision{Pipeline: "shop", Label: label}, true, ""); err != nil {
		w.t.Fatal(err)
	}
}

// health has the application report a revision and a Ready condition.
func (w *stageWorld) health(revision, ready string) {
	w.t.Helper()
	w.healthIn("prod", revision, ready)
}

func (w *stageWorld) healthIn(namespace, revision, ready string) {
	w.t.Helper()
	app := w.object(`{apiVersion: kustomize.toolkit.fluxcd.io/v1, kind: Kustomization, metadata: {name: podinfo, namespace: ` + namespace + `, generation: 1},
		status: {observedGeneration: 1, lastAppliedRevision: "` + revision + `", lastAttemptedRevision: "` + revision + `",
		conditions: [{type: Ready, status: "` + ready + `", reason: Test, message: "as the test wants"}]}}`)
	apps := w.leaf.Resource(kustomizations).Namespace(namespace)
	if _, err := apps.Get(w.t.Context(), "podinfo", metav1.GetOptions{}); err != nil {
		w.leaf.Add(kustomizations, app)
	} else if _, err := apps.Update(w.t.Context(), app, metav1.UpdateOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

// until waits until something is so.
func (w *stageWorld) until(what string, wanted func() bool) {
	w.t.Helper()
	log := w.ledger.NewWaiter()
	for deadline := time.Now().Add(patience); !wanted(); {
		if time.Now().After(deadline) {
			view, err := log.Promotions.View(w.t.Context(), "waybill.yaml:shop")
			w.t.Fatalf("%s: not in time; attempts %q, the log is\n%s\nthe view %+v, %v", what, w.attempts(),
				strings.Join(w.entries(), "\n"),
				view, err)
		}
		_ = log.Wait(w.t.Context(), store.TopicAction, time.Now().Add(200*time.Millisecond))
	}
}

// entries lists the rows of the pipeline's log about deployments, such as "1 prod environment-promoted".
func (w *stageWorld) entries() (list []string) {
	w.t.Helper()
	rows, err := w.ledger.Entries(w.t.Context(), journal.EntryQuery{Pipeline: "shop"})
	if err != nil {
		w.t.Fatal(err)
	}
	for _, row := range rows {
		if row.Deployment > 0 {
			list = append(list, fmt.Sprint(row.Deployment, " ", strings.TrimPrefix(row.Target, "shop/"), " ", row.Event))
		}
	}
	return list
}

func (w *stageWorld) awaitEntry(entry string) {
	w.t.Helper()
	w.until(entry, func() bool { return slices.Contains(w.entries(), entry) })
}

func (w *stageWorld) awaitAttempt(attempt string) {
	w.t.Helper()
	w.until(attempt, func() bool { return slices.Contains(w.attempts(), attempt) })
}

// command stores a person's request about a deployment.
func (w *stageWorld) command(c pipeline.Command) {
	w.t.Helper()
	engine, err := deployer.Fold(w.t.Context(), w.ledger, "shop")
	if err != nil {
		w.t.Fatal(err)
	}
	rows, err := engine.Command(c)
	if err != nil {
		w.t.Fatal(err)
	}
	_, err = w.ledger.Append(w.t.Context(), "shop", engine.Seq(), func(journal.Locked) (journal.Change, error) {
		return journal.Change{Entries: rows}, nil
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

func TestAStagePromotesByAPullRequest(t *testing.T) {
	t.Parallel()
	w := newStageWorld(t, nil)
	w.health("6.5.4", "True")
	stop := w.start()
	w.deploy("6.6.0")
	w.awaitAttempt("propose 6.6.0")
	stop() // the merge is seen by a process that knows nothing but the log
	w.health("6.6.0", "True")
	w.start()
	w.awaitEntry("1 shop pipeline-finished-successfully")
	want := []string{"1 shop deployment-created", "1 shop pipeline-started", "1 prod stage-started", "1 prod step-claimed",
		"1 prod environment-promoted", "1 prod stage-finished-successfully", "1 shop pipeline-finished-successfully"}
	if got := w.entries(); !slices.Equal(got, want) {
		t.Errorf("the log has %q, want %q", got, want)
	}
	w.awaitAttempt("close 6.6.0") // nobody has merged it in this model
	if got := w.attempts(); !slices.Equal(got, []string{"propose 6.6.0", "close 6.6.0"}) {
		t.Errorf("attempts %q", got)
	}
	children, err := w.ledger.Actions(t.Context(), w.childrenOfStage())
	if err != nil || len(children) != 1 || children[0].Handler != promotion.HandlerPullRequest {
		t.Errorf("the promotion has the children %+v, %v", children, err)
	}
}

func TestAFailedTargetFailsItsStageUntilItIsRetried(t *testing.T) {
	t.Parallel()
	w := newStageWorld(t, nil)
	w.health("6.5.4", "True")
	w.start()
	w.deploy("6.6.0")
	w.awaitAttempt("propose 6.6.0")
	w.health("6.6.0", "False")
	w.awaitEntry("1 shop pipeline-failed")
	w.health("6.6.0", "True")
	w.command(pipeline.Command{Kind: pipeline.RetryRequested, Deployment: 1, Target: "shop", By: "ana"})
	w.awaitEntry("1 shop pipeline-finished-successfully")
}

func TestACanceledPromotionClosesItsProposal(t *testing.T) {
	t.Parallel()
	w := newStageWorld(t, nil)
	w.health("6.5.4", "True")
	w.start()
	w.deploy("6.6.0")
	w.awaitAttempt("propose 6.6.0")
	w.command(pipeline.Command{Kind: pipeline.PipelineCanceled, Deployment: 1, Target: "shop", By: "ana"})
	w.awaitEntry("1 prod step-canceled")
	w.awaitAttempt("close 6.6.0")
}

// The log has the place of a proposal, so it is closed also once the action that has made it is not kept any more.
func TestAPromotionEndsWhoseActionIsForgotten(t *testing.T) {
	t.Parallel()
	w := newStageWorld(t, nil)
	w.health("6.5.4", "True")
	stop := w.start()
	w.deploy("6.6.0")
	w.awaitAttempt("propose 6.6.0")
	w.until("the proposal is stored", func() bool {
		state, err := w.ledger.Promotions.Load(t.Context(), "waybill.yaml:shop", "")
		return err == nil && state.Proposals["prod"].State == promotion.Open
	})
	stop()
	live, err := w.ledger.Actions(t.Context(), queue.ActionQuery{Handler: promotion.HandlerEnvironment, LiveOnly: true})
	if err != nil || len(live) != 1 {
		t.Fatalf("promotions: %+v, %v", live, err)
	}
	_, err = w.ledger.Observe(t.Context(), queue.Observation{ID: live[0].ID, Source: "test", Outcome: action.Outcome{Kind: action.Fatal}})
	if err != nil {
		t.Fatal(err)
	}
	folders, err := blob.OpenDir(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := w.ledger.Retain(t.Context(), time.Nanosecond, folders); err != nil {
		t.Fatal(err)
	}
	w.start()
	w.until("the run has ended", func() bool {
		run, err := w.ledger.Promotions.Run(t.Context(), "waybill.yaml:shop", 1)
		return err == nil && run.End == promotion.Superseded
	})
	w.awaitAttempt("close 6.6.0")
}

// Rows of stages have the database's time, as all others.
func TestStagesKeepTheTimeOfTheDatabase(t *testing.T) {
	t.Parallel()
	const ahead = 24 * time.Hour
	w := newStageWorld(t, nil, sqlite.WithClock(func() time.Time { return time.Now().Add(ahead) }))
	w.health("6.5.4", "True")
	w.start()
	w.deploy("6.6.0")
	w.awaitAttempt("propose 6.6.0")
	run, err := w.ledger.Promotions.Run(t.Context(), "waybill.yaml:shop", 1)
	if now := time.Now().Add(ahead); err != nil || now.Sub(run.StartedAt).Abs() > ahead/2 {
		t.Errorf("the run began at %s by the database's clock, %v: want about %s", run.StartedAt, err, now)
	}
}

func TestAFailedStageIsRolledBack(t *testing.T) {
	t.Parallel()
	w := newStageWorld(t, func(s *pipeline.Stage) { s.OnFailure = pipeline.RollBack })
	w.health("6.5.4", "True")
	w.start()
	w.deploy("6.5.4")
	w.awaitEntry("1 shop pipeline-finished-successfully")
	w.deploy("6.6.0")
	w.awaitAttempt("propose 6.6.0")
	w.health("6.6.0", "False")
	w.awaitEntry("3 prod stage-started")
	w.awaitAttempt("propose 6.5.4")
	w.health("6.5.4", "True")
	w.awaitEntry("3 prod environment-promoted")
	w.awaitEntry("3 shop pipeline-finished-successfully")
}

func TestAStageWithoutAStrategyWaitsForOthers(t *testing.T) {
	t.Parallel()
	w := newStageWorld(t, func(s *pipeline.Stage) { s.Environment.Strategy = pipeline.Strategy{} })
	w.health("6.5.4", "True")
	w.start()
	w.deploy("6.6.0")
	w.until("the reason", func() bool {
		view, err := w.ledger.Promotions.View(t.Context(), "waybill.yaml:shop")
		return err == nil && len(view.Environments) == 1 && len(view.Environments[0].Reasons) == 1 &&
			view.Environments[0].Reasons[0].Code == promotion.WhyPromotedByHand && view.Environments[0].Targets[0].Revision == "6.5.4"
	})
	w.health("6.6.0", "True")
	w.awaitEntry("1 shop pipeline-finished-successfully")
	if got := w.attempts(); len(got) > 0 {
		t.Errorf("attempts %q", got)
	}
}

// childrenOfStage selects the actions that the promotion of deployment 1 has made.
func (w *stageWorld) childrenOfStage() queue.ActionQuery {
	w.t.Helper()
	all, err := w.ledger.Actions(w.t.Context(), queue.ActionQuery{Handler: promotion.HandlerEnvironment, Pipeline: "shop", Deployment: 1})
	if err != nil || len(all) != 1 {
		w.t.Fatalf("promotions of deployment 1: %+v, %v", all, err)
	}
	return queue.ActionQuery{Parent: all[0].ID}
}

// The expression of a gate is about the live objects of the stage's targets, before its promotion and after.
func TestGatesOfAStageEvaluateExpressions(t *testing.T) {
	t.Parallel()
	policy := action.Policy{Retries: 999, Initial: action.Duration(time.Second), Factor: 1, Max: action.Duration(time.Second),
		Deadline: action.Duration(time.Hour), AttemptTimeout: action.Duration(time.Minute)}
	w := newStageWorld(t, func(s *pipeline.Stage) {
		s.Gates = []pipeline.Gate{
			{Name: "old", When: pipeline.Before, Policy: policy, CEL: "targets.all(t, t.status.lastAppliedRevision == '6.5.4')"},
			{Name: "new", When: pipeline.After, Policy: policy, CEL: "targets.all(t, t.status.lastAppliedRevision == '${revision}')"},
		}
	})
	w.health("6.4.0", "True")
	stop := w.start()
	w.deploy("6.6.0")
	w.until("the expression is false", func() bool {
		gates, err := w.ledger.Actions(t.Context(), queue.ActionQuery{Handler: promotion.HandlerExpression, LiveOnly: true})
		return err == nil && len(gates) == 1 && gates[0].Thread.Spent > 0
	})
	if got := w.attempts(); len(got) > 0 {
		t.Errorf("attempts before the gate has passed: %q", got)
	}
	stop()
	w.health("6.5.4", "True")
	w.start()
	w.awaitAttempt("propose 6.6.0")
	w.health("6.6.0", "True")
	w.awaitEntry("1 prod gate-passed/new")
	w.awaitEntry("1 shop pipeline-finished-successfully")
}

func TestAFalseExpressionFailsItsStage(t *testing.T) {
	t.Parallel()
	w := newStageWorld(t, func(s *pipeline.Stage) {
		s.Gates = []pipeline.Gate{{Name: "never", When: pipeline.Before, CEL: "size(targets) == 7", Policy: action.Policy{Retries: 1,
			Initial: action.Duration(time.Second), Factor: 1, Max: action.Duration(time.Second), Deadline: action.Duration(time.Hour)}}}
	})
	w.health("6.5.4", "True")
	w.start()
	w.deploy("6.6.0")
	w.awaitEntry("1 shop pipeline-failed")
	gates, err := w.ledger.Actions(t.Context(), queue.ActionQuery{Handler: promotion.HandlerExpression})
	if err != nil || len(gates) != 1 || gates[0].Error != "the expression is false" || gates[0].Thread.Spent != 2 {
		t.Errorf("gates: %+v, %v; want one that was false twice", gates, err)
	}
}
