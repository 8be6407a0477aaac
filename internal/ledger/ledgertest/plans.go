package ledgertest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/schedule"
)

// plansUseIndexes: the claim and the questions never read a whole table that grows, with the planner as it is.
func plansUseIndexes(t *testing.T, s setup) {
	s.define(t)
	s.register(t, "3f2c9a1")
	host := s.join(t, "host-a")
	s.startSteps(t, s.lease(t, host), stepOf(1, oak, schedule.HostDeployed))
	s.append(t, fact(1, oak, schedule.HostStarted))
	head := s.fill(t, host)
	id := s.enqueue(t, job("x"))
	key := schedule.StepKey{Deployment: 1, Target: oak, Event: schedule.HostStarted}
	entries := func(q ledger.EntryQuery) func(ledger.Tx) error {
		q.Pipeline = pipeline
		return func(tx ledger.Tx) error { _, err := tx.Entries(q); return err }
	}
	list := func(q ledger.ActionQuery) func(ledger.Tx) error {
		q.Limit = 5
		return func(tx ledger.Tx) error { _, err := tx.ActionStates(nil, q); return err }
	}
	choose := func(c ledger.Choice) func(ledger.Tx) error {
		return func(tx ledger.Tx) error { _, err := tx.Select(c, host.ID, 10); return err }
	}
	for name, statements := range map[string]func(ledger.Tx) error{
		"claim":            func(tx ledger.Tx) error { _, _, err := tx.Claim(host, []ledger.Want{{Lane: "noop", N: 1}}); return err },
		"lanes":            func(tx ledger.Tx) error { _, _, err := tx.Lanes([]string{"noop", "step"}, "", 10); return err },
		"due":              func(tx ledger.Tx) error { _, err := tx.MakeReady(10); return err },
		"next due":         func(tx ledger.Tx) error { _, err := tx.NextDue(time.Time{}); return err },
		"dead claims":      choose(ledger.DeadClaims),
		"past deadline":    func(tx ledger.Tx) error { _, err := tx.PastDeadline(ledger.Deadline{}, 10); return err },
		"cancel asked":     choose(ledger.CancelAsked),
		"claims of one":    choose(ledger.ClaimsOf),
		"stop asked":       choose(ledger.StopAsked),
		"live keys":        func(tx ledger.Tx) error { _, err := tx.LiveKeys([]string{"x"}); return err },
		"threads":          func(tx ledger.Tx) error { _, err := tx.LockThreads([]action.ID{id}); return err },
		"actions":          func(tx ledger.Tx) error { _, err := tx.Actions([]action.ID{id}); return err },
		"action state":     func(tx ledger.Tx) error { _, err := tx.ActionStates([]action.ID{id}, ledger.ActionQuery{}); return err },
		"events":           func(tx ledger.Tx) error { _, err := tx.Events(id); return err },
		"marked":           func(tx ledger.Tx) error { _, err := tx.Marked(1, []schedule.StepKey{key}); return err },
		"newer entries":    entries(ledger.EntryQuery{After: head.Seq - 3}),
		"a deployment":     entries(ledger.EntryQuery{Deployment: 1}),
		"a target":         entries(ledger.EntryQuery{Target: oak}),
		"latest through":   func(tx ledger.Tx) error { _, err := tx.Standings(pipeline, oak); return err },
		"at a past moment": func(tx ledger.Tx) error { _, err := tx.Passages(pipeline, oak, 9, 1); return err },
		"in progress": func(tx ledger.Tx) error {
			_, err := tx.Deployments(ledger.DeploymentQuery{Pipeline: pipeline, Status: schedule.Active})
			return err
		},
		"what runs where":   func(tx ledger.Tx) error { _, err := tx.Resources(pipeline); return err },
		"limits in trouble": func(tx ledger.Tx) error { _, err := tx.Limiters(true); return err },
		"some limits":       func(tx ledger.Tx) error { _, err := tx.LockLimiters([]string{"noop"}); return err },
		"slots":             func(tx ledger.Tx) error { _, err := tx.Holds([]string{"noop"}, action.ID{}); return err },
		"next run":          func(tx ledger.Tx) error { _, err := tx.NextRun(); return err },
		"rescues":           func(tx ledger.Tx) error { _, err := tx.Rescues(time.Now().Add(-time.Hour)); return err },
		"stages":            func(tx ledger.Tx) error { _, err := tx.StageRuns(pipeline, 1); return err },
		"actions of a step": func(tx ledger.Tx) error {
			_, err := tx.ActionStates(nil, ledger.ActionQuery{Pipeline: pipeline, Deployment: 1, Limit: 5})
			return err
		},
		"old requests":        func(tx ledger.Tx) error { _, err := tx.ForgetRequests(time.Now(), 10); return err },
		"what happens to all": func(tx ledger.Tx) error { _, err := tx.EventsAfter(ledger.EventPosition{Tx: 1}, 10); return err },
		"newest actions":      list(ledger.ActionQuery{}),
		"live":                list(ledger.ActionQuery{LiveOnly: true}),
		"of a name":           list(ledger.ActionQuery{Kind: "job", Name: "x"}),
		"of a handler":        list(ledger.ActionQuery{Handler: "rare"}),
		"of a parent":         list(ledger.ActionQuery{Parent: id}),
		"retries":             list(ledger.ActionQuery{RetryOf: id}),
		"failed":              list(ledger.ActionQuery{Statuses: []action.Status{action.Failed, action.TimedOut}}),
		"in a lane":           list(ledger.ActionQuery{Lane: "rare", LiveOnly: true}),
		"failed since a time": list(ledger.ActionQuery{Statuses: []action.Status{action.Failed}, Since: time.Now().Add(-time.Hour)}),
		"an older page":       list(ledger.ActionQuery{After: id}),
		"a newer page":        list(ledger.ActionQuery{After: id, Oldest: true}),
		"jobs of processes":   list(ledger.ActionQuery{Kind: action.KindJob, Names: []string{"x", "y"}}),
		"jobs accepted":       list(ledger.ActionQuery{Kind: action.KindJob, Phases: []ledger.Phase{ledger.Accepted}}),
		"jobs successful":     list(ledger.ActionQuery{Kind: action.KindJob, Phases: []ledger.Phase{ledger.Successful}}),
		"jobs failed":         list(ledger.ActionQuery{Kind: action.KindJob, Phases: []ledger.Phase{ledger.Failed}}),
		"jobs dismissed":      list(ledger.ActionQuery{Kind: action.KindJob, Phases: []ledger.Phase{ledger.Dismissed}}),
		"long jobs":           list(ledger.ActionQuery{Kind: action.KindJob, Phases: []ledger.Phase{ledger.Successful}, Shortest: time.Hour}),
		"short jobs":          list(ledger.ActionQuery{Kind: action.KindJob, Phases: []ledger.Phase{ledger.Successful}, Longest: time.Hour}),
		"what an archive belongs to": func(tx ledger.Tx) error {
			_, err := tx.HasActions(time.Now().AddDate(-1, 0, 0), time.Now().AddDate(-1, 0, 7), "action/2020w07")
			return err
		},
		"cached payloads": func(tx ledger.Tx) error {
			_, err := tx.CacheEntries(nil, ledger.CacheQuery{Name: "x", Limit: 5})
			return err
		},
		"deployments": func(tx ledger.Tx) error {
			_, err := tx.Deployments(ledger.DeploymentQuery{Pipeline: pipeline, Limit: 5})
			return err
		},
		"all deployments": func(tx ledger.Tx) error { _, err := tx.Deployments(ledger.DeploymentQuery{Limit: 5}); return err },
		"uses of uploads": func(tx ledger.Tx) error { _, err := tx.UsesBlobs("upload/20261122T15/x"); return err },
		"revisions":       func(tx ledger.Tx) error { _, err := tx.Revisions(pipeline, "", 0, 5); return err },
		"the log's end":   entries(ledger.EntryQuery{Newest: true, Limit: 5}),
	} {
		plans, err := s.driver.Explain(s.ctx, statements)
		check(t, err)
		if len(plans) == 0 {
			t.Errorf("%s: no plan", name)
		}
		for _, plan := range plans {
			for line := range strings.Lines(plan) {
				if readsWholeTable(line) {
					t.Errorf("%s reads a whole table:\n%s", name, strings.Join(plans, "\n"))
				}
			}
		}
	}
}

// readsWholeTable knows how both databases say that they read all of a table that grows; on PostgreSQL of its partition of
// now, since the others are empty. SQLite says of a table that is walked in the order of its primary key that it is
// scanned; then the limit ends the walk.
func readsWholeTable(line string) bool {
	line = strings.TrimSpace(line)
	year, week := time.Now().UTC().ISOWeek()
	of := fmt.Sprintf("_%04dw%02d", year, week)
	for _, table := range []string{"action" + of, "event" + of, "thread_done" + of, "thread", "entry"} {
		if strings.Contains(line, "Seq Scan on "+table+" ") {
			return true
		}
	}
	return slices.Contains([]string{"SCAN action", "SCAN event", "SCAN thread", "SCAN thread_done", "SCAN entry", "SCAN l", "SCAN revision", "SCAN revision_artifact"}, line)
}

// fill stores actions, and ends most of them, so that a planner sees what to avoid.
func (s setup) fill(t *testing.T, host ledger.Instance) ledger.Head {
	t.Helper()
	const some = 1000
	for round := range 3 {
		jobs := make([]action.Action, some)
		for i := range jobs {
			jobs[i] = job("filling")
		}
		_, err := s.Enqueue(s.ctx, jobs...)
		check(t, err)
		var completions []ledger.Completion
		if round > 0 {
			for _, c := range s.claim(t, host, "noop", some) {
				completions = append(completions, ledger.Completion{ID: c.ID, Attempt: c.Thread.Attempt, Outcome: done()})
			}
		}
		_, err = s.Turn(s.ctx, host, completions, nil)
		check(t, err)
	}
	notes := make([]schedule.Entry, some)
	for i := range notes {
		notes[i] = note(int64(i%100)+2, fmt.Sprintf("%s/beta/all/host-%d", pipeline, i%100), schedule.StepFailed)
	}
	head := s.append(t, notes...)
	if !s.Embedded() {
		check(t, s.database.Exec("ANALYZE"))
	}
	return head
}
