// Package promotionstest is the suite of every driver of promotions, run against each real database.
package promotionstest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/promotion"
	"github.com/waybill-dev/waybill/internal/promotions"
	"github.com/waybill-dev/waybill/internal/store"
	"github.com/waybill-dev/waybill/internal/store/storetest"
)

// Run checks a driver. Each call of open returns a fresh database.
func Run(t *testing.T, open func(t *testing.T) storetest.Database) {
	t.Helper()
	storetest.Run(t, open, newSetup, properties())
}

// properties returns the suite: properties by name, with its proof.
func properties() map[string]func(*testing.T, setup) {
	return map[string]func(*testing.T, setup){
		"ADecisionIsReadBack":                 aDecisionIsReadBack,
		"ADecisionFromAnOlderStateIsRefused":  aDecisionFromAnOlderStateIsRefused,
		"TwoInstancesDecideOnce":              twoInstancesDecideOnce,
		"NothingNewWritesNothing":             nothingNewWritesNothing,
		"FactsAreStoredOnce":                  factsAreStoredOnce,
		"EntriesRefuseChanges":                entriesRefuseChanges,
		"AttemptsAreRecordedBeforeTheyAre":    attemptsAreRecordedBeforeTheyAreMade,
		"SuccessIsAFact":                      successIsAFact,
		"FailureIsANote":                      failureIsANote,
		"AGateAnswersByItsAttempt":            aGateAnswersByItsAttempt,
		"AnAttemptIsAskedToStopOnce":          anAttemptIsAskedToStopOnce,
		"AnotherObjectIsAnotherPipeline":      anotherObjectIsAnotherPipeline,
		"AForgottenPipelineIsClosed":          aForgottenPipelineIsClosed,
		"ApprovalsAreRecordedOnce":            approvalsAreRecordedOnce,
		"SignaturesAreUsedOnce":               signaturesAreUsedOnce,
		"ASignatureCountsOnce":                aSignatureIsUsedOnceByConcurrentRequests,
		"CallsAreKeptOnce":                    callsAreKeptOnce,
		"FreezesMoveTheHead":                  freezesMoveTheHead,
		"AnEmptyLogMayBeginFrozen":            anEmptyLogMayBeginFrozen,
		"TheFirstDecisionKnowsAFreeze":        theFirstDecisionKnowsAFreeze,
		"AFreezeFindsEveryNewPipeline":        aFreezeFindsEveryNewPipeline,
		"ProposalsAreStoredAsSeen":            proposalsAreStoredAsSeen,
		"EntriesOfOldRunsAreArchived":         entriesOfOldRunsAreArchived,
		"StatesAreReadAnewIfTheyHaveChanged":  statesAreReadAnewIfTheyHaveChanged,
		"StatesAreBounded":                    statesAreBounded,
		"RunsAndEntriesAreListedInPages":      runsAndEntriesAreListedInPages,
		"ChangesWakeWhoWaits":                 changesWakeWhoWaits,
		"ViewsAreKeptByName":                  viewsAreKeptByName,
		"StatementsReadTheirPipelineOnly":     statementsReadTheirPipelineOnly,
		"TextsThatNoDatabaseStoresAreRefused": textsThatNoDatabaseStoresAreRefused,
	}
}

// Driver is a database that keeps promotions.
type Driver interface {
	store.Driver
	promotions.Driver
}

// setup is promotions for one test. Instead of a queue it has the actions that were given to one.
type setup struct {
	*promotions.Promotions
	db       *store.DB
	driver   Driver
	database storetest.Database
	ctx      context.Context
	queue    *queue
}

// queue records the actions that it is given.
type queue struct {
	mu      sync.Mutex
	started []action.Action
	stopped []string
}

func (q *queue) add(_ *store.Tx, start []action.Action, stop []string) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.started, q.stopped = append(q.started, start...), append(q.stopped, stop...)
	return nil
}

func newSetup(t *testing.T, database storetest.Database) setup {
	t.Helper()
	driver := storetest.Open[Driver](t, database)
	s := setup{database: database, driver: driver, db: store.New(driver), ctx: t.Context(), queue: &queue{}}
	s.Promotions = promotions.New(s.db, driver, promotions.Options{Actions: s.queue.add})
	t.Cleanup(func() {
		if err := s.db.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

const (
	name = "apps:podinfo"
	uid  = "7a1f"
)

var (
	start   = time.Date(2026, 3, 1, 14, 2, 0, 0, time.UTC)
	staging = promotion.TargetID{Cluster: "apps/leaf-eu", Namespace: "podinfo-staging"}
)

// load reads the state of the pipeline.
func (s setup) load(t *testing.T) promotions.State {
	t.Helper()
	state, err := s.Load(s.ctx, name, uid)
	storetest.Check(t, err)
	return state
}

// record stores a change that was decided from the present state.
func (s setup) record(t *testing.T, c promotions.Change) promotions.State {
	t.Helper()
	c.Pipeline, c.UID, c.Head = name, uid, s.load(t).Head
	got, err := s.RecordAndLoad(s.ctx, c)
	storetest.Check(t, err)
	want := s.load(t)
	got.Now = want.Now // the clock goes on
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the state after a decision (-later +in its transaction):\n%s", diff)
	}
	return want
}

// run returns the change that starts a run.
func run(number int64, revision promotion.Revision) promotions.Change {
	return promotions.Change{
		Sighting: &promotion.Sighting{Revision: revision, At: start},
		Runs: []promotion.RunChange{{Run: promotion.Run{Number: number, Revision: revision, Was: "6.5.4", Cause: promotion.ByCandidate,
			Environments: []promotion.EnvName{"dev", "staging", "prod"}, StartedAt: start}}},
		Facts: []promotion.Fact{
			{Run: number, Event: promotion.PipelineStarted, At: start},
			{Run: number, Env: "staging", Target: &staging, Event: promotion.TargetHealthy, At: start, Detail: "Ready"},
		},
		Phases: []promotions.Phase{{Run: number, Env: "dev",
			PhaseSince: promotion.PhaseSince{Phase: promotion.PhaseComplete, Since: start}}},
	}
}

// attempt returns the attempt of an operation in staging, in a run.
func attempt(run int64, op promotion.Op) promotions.Start {
	return promotions.Start{Work: promotion.Work{Namespace: "apps", Pipeline: "podinfo", Run: run, Env: "staging", Op: op,
		Revision: "6.6.0",
		Inputs:   "hash"}, Base: "b1", Action: action.Action{Handler: promotion.HandlerPullRequest, CreatedBy: "promoter"}}
}

// started returns the newest action that was given to the queue.
func (s setup) started(t *testing.T) action.Action {
	t.Helper()
	if len(s.queue.started) == 0 {
		t.Fatal("no action was started")
	}
	return s.queue.started[len(s.queue.started)-1]
}

// end records the end of an action, as the queue does.
func (s setup) end(t *testing.T, a action.Action, status action.Status, o action.Outcome) {
	t.Helper()
	storetest.Check(t, s.db.Write(s.ctx, "end an action", func(tx *store.Tx) error {
		record, err := s.OnEnd(tx, []*action.Action{&a})
		if err != nil {
			return err
		}
		if record == nil {
			return fault.New(fault.Internal, "nothing records the end of %s", a.Name)
		}
		return record([]action.EndedAction{{Action: &a, Transition: action.Transition{Thread: action.Thread{Status: status},
			Event: &action.Event{Status: status, Code: o.Code, Error: o.Error}, Output: o.Output}}})
	}))
}
