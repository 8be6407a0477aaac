package ledgertest

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/queue"
	"github.com/waybill-dev/waybill/internal/services"
	"github.com/waybill-dev/waybill/internal/store/storetest"
)

// plansUseIndexes: the claim and the questions never read a whole table that grows, with the planner as it is.
func plansUseIndexes(t *testing.T, s setup) {
	s.define(t)
	s.register(t, "3f2c9a1")
	host := s.join(t, "host-a")
	s.startSteps(t, s.lease(t, host), stepOf(1, oak, pipeline.HostDeployed))
	s.append(t, fact(1, oak, pipeline.HostStarted))
	head := s.fill(t, host)
	id := s.enqueue(t, job("x"))
	key := pipeline.StepKey{Deployment: 1, Target: oak, Event: pipeline.HostStarted}
	entries := func(q journal.EntryQuery) func(rows) error {
		q.Pipeline = testPipeline
		return func(tx rows) error { _, err := tx.Entries(q); return err }
	}
	list := func(q queue.ActionQuery) func(rows) error {
		q.Limit = 5
		return func(tx rows) error { _, err := tx.ActionStates(nil, q); return err }
	}
	choose := func(c queue.Choice) func(rows) error {
		return func(tx rows) error { _, err := tx.Select(c, host.ID, 10); return err }
	}
	planned := map[string]func(rows) error{
		"Claim: claim":                func(tx rows) error { _, _, err := tx.Claim(host, []queue.Want{{Lane: "noop", N: 1}}); return err },
		"Lanes: lanes":                func(tx rows) error { _, _, err := tx.Lanes([]string{"noop", "step"}, "", 10); return err },
		"MakeReady: due":              func(tx rows) error { _, err := tx.MakeReady(10); return err },
		"NextDue: next due":           func(tx rows) error { _, err := tx.NextDue(time.Time{}); return err },
		"Select: dead claims":         choose(queue.DeadClaims),
		"PastDeadline: past deadline": func(tx rows) error { _, err := tx.PastDeadline(queue.Deadline{}, 10); return err },
		"Select: cancel asked":        choose(queue.CancelAsked),
		"Select: claims of one":       choose(queue.ClaimsOf),
		"Select: stop asked":          choose(queue.StopAsked),
		"LiveKeys: live keys":         func(tx rows) error { _, err := tx.LiveKeys([]string{"x"}); return err },
		"LockThreads: threads":        func(tx rows) error { _, err := tx.LockThreads([]action.ID{id}); return err },
		"Actions: actions":            func(tx rows) error { _, err := tx.Actions([]action.ID{id}); return err },
		"ActionStates: action state":  func(tx rows) error { _, err := tx.ActionStates([]action.ID{id}, queue.ActionQuery{}); return err },
		"Events: events":              func(tx rows) error { _, err := tx.Events(id); return err },
		"Marked: marked":              func(tx rows) error { _, err := tx.Marked(1, []pipeline.StepKey{key}); return err },
		"Entries: newer entries":      entries(journal.EntryQuery{After: head.Seq - 3}),
		"Entries: a deployment":       entries(journal.EntryQuery{Deployment: 1}),
		"Entries: a target":           entries(journal.EntryQuery{Target: oak}),
		"Standings: latest through": func(tx rows) error {
			_, err := tx.Standings(testPipeline, []string{oak, testPipeline + "/beta"})
			return err
		},
		"History: of a host": func(tx rows) error { _, err := tx.History(testPipeline, oak, 0, 5); return err },
		"History: of a stage, an older page": func(tx rows) error {
			_, err := tx.History(testPipeline, testPipeline+"/beta", 900, 5)
			return err
		},
		"EndedRuns: of all stages":      func(tx rows) error { _, err := tx.EndedRuns(testPipeline, "", time.Now()); return err },
		"NewestFinished: of each stage": func(tx rows) error { _, err := tx.NewestFinished(testPipeline, time.Now()); return err },
		"EndedRuns: of a stage":         func(tx rows) error { _, err := tx.EndedRuns(testPipeline, "beta", time.Now()); return err },
		"RevisionsBetween":              func(tx rows) error { _, err := tx.RevisionsBetween(testPipeline, 1, 9, 5); return err },
		"Deployments: by numbers": func(tx rows) error {
			_, err := tx.Deployments(journal.DeploymentQuery{Pipeline: testPipeline, Numbers: []int64{1, 2}})
			return err
		},
		"Deployments: in progress": func(tx rows) error {
			_, err := tx.Deployments(journal.DeploymentQuery{Pipeline: testPipeline, Status: pipeline.StatusActive})
			return err
		},
		"Archive: the entries of a deployment": func(tx rows) error {
			_, err := tx.Archive(1, journal.ArchivedDeployment{Number: 1 << 40, Key: "x"})
			return err
		},
		"Archives: of a stage, an older page": func(tx rows) error {
			_, err := tx.Archives(journal.ArchiveQuery{Pipeline: testPipeline, Stage: "beta", Before: 900, Limit: 5})
			return err
		},
		"Resources: what runs where": func(tx rows) error {
			_, err := tx.Resources(journal.ResourceQuery{Pipeline: testPipeline})
			return err
		},
		"Resources: on a host": func(tx rows) error {
			_, err := tx.Resources(journal.ResourceQuery{Address: "local://oak", Limit: 5})
			return err
		},
		"Resources: a page": func(tx rows) error {
			_, err := tx.Resources(journal.ResourceQuery{After: pipeline.Resource{Address: "local://elm", Service: "greeter"}, Limit: 5})
			return err
		},
		"Limiters: limits in trouble": func(tx rows) error { _, err := tx.Limiters(true); return err },
		"LockLimiters: some limits":   func(tx rows) error { _, err := tx.LockLimiters([]string{"noop"}); return err },
		"SlotLeases: slots":           func(tx rows) error { _, err := tx.SlotLeases([]string{"noop"}, action.ID{}); return err },
		"NextRun: next run":           func(tx rows) error { _, err := tx.NextRun(); return err },
		"Rescues: rescues":            func(tx rows) error { _, err := tx.Rescues(time.Now().Add(-time.Hour)); return err },
		"StageRuns: stages":           func(tx rows) error { _, err := tx.StageRuns(testPipeline, 1); return err },
		"ActionStates: actions of a step": func(tx rows) error {
			_, err := tx.ActionStates(nil, queue.ActionQuery{Pipeline: testPipeline, Deployment: 1, Limit: 5})
			return err
		},
		"ForgetRequests: old requests": func(tx rows) error { _, err := tx.ForgetRequests(time.Now(), 10); return err },
		"ForgetInbox: old events":      func(tx rows) error { _, err := tx.ForgetInbox(time.Now(), 10); return err },
		"CountKeys: events":            func(tx rows) error { _, err := tx.CountKeys("event/orders/", 10); return err },
		"Inbox":                        func(tx rows) error { _, err := tx.Inbox([]action.ID{id}); return err },
		"UpdateInbox":                  func(tx rows) error { return tx.UpdateInbox([]queue.InboxRow{{Key: id, ActionID: id}}) },
		"LockServiceInstances": func(tx rows) error {
			_, err := tx.LockServiceInstances([]string{"a", "b"})
			return err
		},
		"UpdateServiceInstance": func(tx rows) error { return tx.UpdateServiceInstance(serviceRow("a", id, services.Update)) },
		"ServiceInstances: one": func(tx rows) error { _, err := tx.ServiceInstances(services.Query{IDs: []string{"a"}}); return err },
		"ServiceInstances: a page": func(tx rows) error {
			_, err := tx.ServiceInstances(services.Query{After: "a", Limit: 5})
			return err
		},
		"ForgetServiceInstances":        func(tx rows) error { _, err := tx.ForgetServiceInstances(time.Now(), 10); return err },
		"ServiceBinding":                func(tx rows) error { _, _, err := tx.ServiceBinding("a", "b"); return err },
		"DeleteServiceBindings: one":    func(tx rows) error { return tx.DeleteServiceBindings("a", "b") },
		"DeleteServiceBindings: of one": func(tx rows) error { return tx.DeleteServiceBindings("a", "") },
		"EventsAfter: what happens to all": func(tx rows) error {
			_, err := tx.EventsAfter(queue.EventPosition{Tx: 1}, 10)
			return err
		},
		"ActionStates: newest actions": list(queue.ActionQuery{}),
		"ActionStates: live":           list(queue.ActionQuery{LiveOnly: true}),
		"ActionStates: of a name":      list(queue.ActionQuery{Kind: "job", Name: "x"}),
		"ActionStates: of a handler":   list(queue.ActionQuery{Handler: "rare"}),
		"ActionStates: of a parent":    list(queue.ActionQuery{Parent: id}),
		"ActionStates: retries":        list(queue.ActionQuery{RetryOf: id}),
		"ActionStates: failed":         list(queue.ActionQuery{Statuses: []action.Status{action.Failed, action.TimedOut}}),
		"ActionStates: in a lane":      list(queue.ActionQuery{Lane: "rare", LiveOnly: true}),
		"ActionStates: failed since a time": list(queue.ActionQuery{Statuses: []action.Status{action.Failed},
			Since: time.Now().Add(-time.Hour)}),
		"ActionStates: an older page":     list(queue.ActionQuery{After: id}),
		"ActionStates: a newer page":      list(queue.ActionQuery{After: id, Oldest: true}),
		"ActionStates: jobs of processes": list(queue.ActionQuery{Kind: action.KindJob, Names: []string{"x", "y"}}),
		"ActionStates: successful of a handler": list(queue.ActionQuery{Handler: "rare",
			Statuses: []action.Status{action.Successful, action.Failed}}),
		"ActionStates: successful of a name": list(queue.ActionQuery{Kind: "action", Name: "rare",
			Statuses: []action.Status{action.Successful}}),
		"ActionStates: successful jobs of processes": list(queue.ActionQuery{Kind: action.KindJob,
			Names: []string{"rare", "x"}, Phases: []queue.Phase{queue.Successful}}),
		"ActionStates: jobs accepted":   list(queue.ActionQuery{Kind: action.KindJob, Phases: []queue.Phase{queue.Accepted}}),
		"ActionStates: jobs successful": list(queue.ActionQuery{Kind: action.KindJob, Phases: []queue.Phase{queue.Successful}}),
		"ActionStates: jobs failed":     list(queue.ActionQuery{Kind: action.KindJob, Phases: []queue.Phase{queue.Failed}}),
		"ActionStates: jobs dismissed":  list(queue.ActionQuery{Kind: action.KindJob, Phases: []queue.Phase{queue.Dismissed}}),
		"ActionStates: long jobs": list(queue.ActionQuery{Kind: action.KindJob,
			Phases: []queue.Phase{queue.Successful}, Shortest: time.Hour}),
		"ActionStates: short jobs": list(queue.ActionQuery{Kind: action.KindJob,
			Phases: []queue.Phase{queue.Successful}, Longest: time.Hour}),
		"HasActions: what an archive belongs to": func(tx rows) error {
			_, err := tx.HasActions(time.Now().AddDate(-1, 0, 0), time.Now().AddDate(-1, 0, 7), "action/2020w07")
			return err
		},
		"CacheEntries: cached payloads": func(tx rows) error {
			_, err := tx.CacheEntries(nil, queue.CacheQuery{Name: "x", Limit: 5})
			return err
		},
		"Deployments: deployments": func(tx rows) error {
			_, err := tx.Deployments(journal.DeploymentQuery{Pipeline: testPipeline, Limit: 5})
			return err
		},
		"Deployments: all deployments":     func(tx rows) error { _, err := tx.Deployments(journal.DeploymentQuery{Limit: 5}); return err },
		"UsesBlobs":                        func(tx rows) error { _, err := tx.UsesBlobs("upload/20261122T15/x"); return err },
		"Revisions: revisions":             func(tx rows) error { _, err := tx.Revisions(testPipeline, "", 0, 5); return err },
		"Entries: the log's end":           entries(journal.EntryQuery{Newest: true, Limit: 5}),
		"ActionStates: all jobs":           list(queue.ActionQuery{Kind: action.KindJob}),
		"ActionStates: oldest of all jobs": list(queue.ActionQuery{Kind: action.KindJob, Oldest: true}),
		"LockHeads":                        func(tx rows) error { _, err := tx.LockHeads([]string{testPipeline}, true); return err },
		"Heads":                            func(tx rows) error { _, err := tx.Heads([]string{testPipeline}); return err },
		"Versions":                         func(tx rows) error { _, err := tx.Versions(testPipeline, 1); return err },
		"DeploymentIDs":                    func(tx rows) error { _, err := tx.DeploymentIDs(1, []int64{1}); return err },
		"SetDeploymentStatus":              func(tx rows) error { return tx.SetDeploymentStatus(1, 1, pipeline.StatusActive, time.Time{}) },
		"SetRevisionState":                 func(tx rows) error { return tx.SetRevisionState(1, 1, "open") },
		"ArtifactEntries":                  func(tx rows) error { _, err := tx.ArtifactEntries(testPipeline, 1); return err },
		"Introductions":                    func(tx rows) error { _, err := tx.Introductions(testPipeline); return err },
		"RollUp: what has finished and failed": func(tx rows) error {
			some := make([]journal.RollUp, 50)
			for i := range some {
				some[i] = journal.RollUp{Target: fmt.Sprintf("%s/beta/all/host-%d", testPipeline, i), Deployment: 2, Revision: 1,
					At: tx.Now(), Failed: i%2 == 0}
			}
			return tx.RollUp(1, some)
		},
		"UpdateThreads": func(tx rows) error {
			threads, err := tx.LockThreads([]action.ID{id})
			if err != nil {
				return err
			}
			return tx.UpdateThreads([]queue.ThreadRow{{ID: id, Lane: "noop", Ready: true, Rank: tx.Now(), Thread: threads[id]}})
		},
		"EndThreads": func(tx rows) error {
			_, err := tx.EndThreads(host.ID, []queue.Ending{{Lane: "noop", Thread: action.Thread{Status: action.Successful, Seq: 1, Attempt: 1},
				Event: action.Event{ActionID: id, Seq: 1, Status: action.Successful, Attempt: 1}, At: tx.Now()}})
			return err
		},
		"EventsEnd":      func(tx rows) error { _, err := tx.EventsEnd(); return err },
		"Instances":      func(tx rows) error { _, err := tx.Instances(); return err },
		"RenewInstance":  func(tx rows) error { _, _, err := tx.RenewInstance(host, time.Minute); return err },
		"BuryInstances":  func(tx rows) error { _, err := tx.BuryInstances(host.ID, nil); return err },
		"PutLimiters":    func(tx rows) error { return tx.PutLimiters([]queue.LimiterRow{{Key: "noop"}}) },
		"DeleteLimiters": func(tx rows) error { return tx.DeleteLimiters([]string{"noop"}) },
		"PutSlotLeases": func(tx rows) error {
			return tx.PutSlotLeases([]queue.SlotLeaseRow{{Key: "noop", Instance: host.ID}})
		},
		"PointCache": func(tx rows) error {
			_, err := tx.PointCache([]queue.CacheEntry{{Key: id, Scope: queue.PayloadScope, Name: "x", ActionID: id, CreatedAt: tx.Now()}}, false)
			return err
		},
		"CacheEntries: by key": func(tx rows) error { _, err := tx.CacheEntries([]action.ID{id}, queue.CacheQuery{}); return err },
		"SetInvalidAfter": func(tx rows) error {
			return tx.SetInvalidAfter(queue.CacheEntry{Key: id, InvalidAfter: tx.Now()})
		},
		"Subscribers":       func(tx rows) error { _, err := tx.Subscribers([]action.ID{id}); return err },
		"DeleteSubscribers": func(tx rows) error { return tx.DeleteSubscribers([]action.ID{id}) },
		"Tokens":            func(tx rows) error { _, err := tx.Tokens([]byte("x")); return err },
		"Sessions":          func(tx rows) error { _, err := tx.Sessions([32]byte{}); return err },
	}
	everyStatementIsPlanned(t, planned)
	for name, statements := range planned {
		plans, err := s.explain(statements)
		storetest.Check(t, err)
		if len(plans) == 0 {
			t.Errorf("%s: no plan", name)
		}
		if all := strings.Join(plans, "\n"); strings.HasSuffix(name, "all jobs") && !walksJobs(all) {
			t.Errorf("%s walks more than jobs:\n%s", name, all)
		}
		for _, plan := range plans {
			for line := range strings.Lines(plan) {
				if readsWholeTable(line) || (strings.HasPrefix(name, "RollUp") || strings.HasPrefix(name, "Standings")) && readsAllTargets(line) {
					t.Errorf("%s reads a whole table:\n%s", name, strings.Join(plans, "\n"))
				}
			}
		}
	}
}

// unplanned is the methods of rows whose statements need no index of a table that grows, and why.
var unplanned = map[string]string{
	"Now":      "has no statement",
	"LedgerID": "reads the one row of meta",
	"Probe":    "reads and writes the one row of meta",
	"Backlogs": "counts all live rows",
	"BindHost": "adds a row by its key, and reads it", "HostHomes": "reads local hosts, which people name",
	"InsertVersion": "adds a row", "InsertEntries": "adds rows", "InsertRevision": "adds a row",
	"InsertArtifact": "adds a row", "InsertDeployment": "adds a row", "InsertIntroduction": "adds a row",
	"InsertThreads": "adds rows", "Notify": "reads nothing",
	"InsertActions": "adds rows", "InsertEvents": "adds rows", "InsertToken": "adds a row", "InsertSession": "adds a row",
	"InsertSubscriber": "adds a row", "InsertDismissal": "adds a row", "InsertInbox": "adds rows",
	"InsertServiceInstance": "adds a row", "PutServiceBinding": "adds a row, or changes it by its key",
	"PutStageRun":  "adds a row, or changes it by its key",
	"PutResources": "adds rows, or changes them by their key", "PutInstance": "adds a row, or changes it by its key",
	"UpdateHead": "changes a row by its key", "DeleteInstance": "deletes a row by its key", "DeleteSession": "deletes a row by its key",
	"Strain":                "asks the server how it is",
	"ReadyAt":               "reads a handler's live rows, beside Backlogs",
	"ReadyOutside":          "reads a handler's live rows, beside Backlogs",
	"RevokeToken":           "reads tokens, which people make",
	"DeleteExpiredSessions": "reads sessions, which people open",
}

// everyStatementIsPlanned: a new method of rows is planned, or has a reason not to be.
func everyStatementIsPlanned(t *testing.T, planned map[string]func(rows) error) {
	t.Helper()
	known := map[string]bool{}
	for name := range planned {
		method, _, _ := strings.Cut(name, ":")
		known[method] = true
	}
	tx := reflect.TypeFor[rows]()
	for i := range tx.NumMethod() {
		name := tx.Method(i).Name
		if _, reason := unplanned[name]; known[name] == reason {
			t.Errorf("method %s of rows: want a plan of its statements, or else a reason why they need none", name)
		}
		delete(known, name)
	}
	for name := range known {
		t.Errorf("a plan is of %q, which is not a method of rows", name)
	}
}

// walksJobs knows how both databases report that they walk the index of jobs, here in the partition of now.
func walksJobs(plan string) bool {
	year, week := time.Now().UTC().ISOWeek()
	return strings.Contains(plan, "INDEX action_job") || strings.Contains(plan, fmt.Sprintf("using action_%04dw%02d_id_idx", year, week))
}

// readsWholeTable knows how both databases report that they read all of a table that grows; on PostgreSQL of its
// partition of now, since the others are empty. SQLite reports of a table that is walked in the order of its primary
// key that it is scanned; then the limit ends the walk.
func readsWholeTable(line string) bool {
	line = strings.TrimSpace(line)
	year, week := time.Now().UTC().ISOWeek()
	of := fmt.Sprintf("_%04dw%02d", year, week)
	for _, table := range []string{"action" + of, "event" + of, "thread_done" + of, "thread", "entry", "service_instance", "service_binding"} {
		if strings.Contains(line, "Seq Scan on "+table+" ") {
			return true
		}
	}
	return slices.Contains([]string{"SCAN action", "SCAN event", "SCAN thread", "SCAN thread_done", "SCAN entry",
		"SCAN l", "SCAN revision", "SCAN revision_artifact", "SCAN service_instance", "SCAN service_binding"}, line)
}

// readsAllTargets knows how both databases report that they read every target of a pipeline.
func readsAllTargets(line string) bool {
	line = strings.TrimSpace(line)
	return strings.HasPrefix(line, "SEARCH target ") && strings.HasSuffix(line, "(pipeline_id=?)") ||
		strings.HasPrefix(line, "SCAN target") || strings.HasPrefix(line, "Index Cond: (pipeline_id = ") && !strings.Contains(line, "path")
}

// fill stores actions, and ends most, so that a planner sees the rows to avoid.
func (s setup) fill(t *testing.T, host queue.Instance) journal.Head {
	t.Helper()
	const some = 1000
	for round := range 3 {
		jobs := make([]action.Action, some)
		for i := range jobs {
			if jobs[i] = job("filling"); i%100 > 0 {
				jobs[i].Kind = "action"
			}
		}
		_, err := s.Enqueue(s.ctx, jobs...)
		storetest.Check(t, err)
		var completions []queue.Completion
		if round > 0 {
			for _, c := range s.claim(t, host, "noop", some) {
				completions = append(completions, queue.Completion{ID: c.ID, Attempt: c.Thread.Attempt, Outcome: done()})
			}
		}
		_, err = s.CompleteAndClaim(s.ctx, host, completions, nil)
		storetest.Check(t, err)
	}
	notes := make([]pipeline.Entry, some)
	for i := range notes {
		notes[i] = note(int64(i%100)+2, fmt.Sprintf("%s/beta/all/host-%d", testPipeline, i%100), pipeline.StepFailed)
	}
	head := s.append(t, notes...)
	s.fillServices(t, some)
	if !s.Embedded() {
		storetest.Check(t, s.database.Exec("ANALYZE"))
	}
	return head
}
