package caboose

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/aws"
	"github.com/waybill-dev/waybill/internal/blob"
	"github.com/waybill-dev/waybill/internal/loop"
	"github.com/waybill-dev/waybill/internal/obs"
	"github.com/waybill-dev/waybill/internal/queue"
)

// Account is the part of AWS that the caboose calls; see the methods of aws.Account.
type Account interface {
	Describe(ctx context.Context, arn string) (aws.Execution, error)
	Receive(ctx context.Context, queue string) ([]aws.Message, error)
	Delete(ctx context.Context, queue string, messages []aws.Message) error
}

// Cirrus names the place of one handler's work.
type Cirrus struct {
	Account Account
	Events  string // URL of the queue that gets Cirrus's workflow events; "": none
}

const (
	// describeRate is the number of executions described in a second, by all instances: less than AWS lets one
	// account.
	describeRate = 10
	// describeEach is the number of executions that are described before the answers are recorded.
	describeEach = 10
	// describeLimit bounds one DescribeExecution call.
	describeLimit = 10 * time.Second
	// executionPage is the number of live actions read at once; each may carry its whole payload.
	executionPage = 200
)

// executions looks after the live executions of one handler's state machines.
type executions struct {
	*Caboose
	handler string
	account Account
	log     *slog.Logger
	listAt  time.Time // time of the next read of live actions
	live    map[action.ID]*execution
	results action.Results // results of calls since the last report to the lane
}

// execution is the known state of one execution.
type execution struct {
	id       action.ID
	arn      string
	began    bool // it is recorded as RUNNING
	askAt    time.Time
	wait     time.Duration // delay between the next poll and the one after it
	goneFrom time.Time     // since when AWS does not have it; zero: it has
}

func newExecutions(c *Caboose, handler string, account Account) *executions {
	return &executions{Caboose: c, handler: handler, account: account, log: c.log.With(obs.KeyHandler, handler),
		live: map[action.ID]*execution{}}
}

// run polls executions until ctx ends.
func (e *executions) run(ctx context.Context) {
	var away loop.Backoff
	for wait := time.Duration(0); loop.Pause(ctx, wait); {
		var err error
		if wait, err = e.pass(ctx); err == nil {
			away.Reset()
			continue
		}
		wait = away.Next()
		if ctx.Err() == nil {
			e.log.Warn("looking after executions failed", obs.Error(err), obs.KeyRetryIn, wait.String())
		}
	}
}

// pass describes those executions whose time has come, as far as the lane lets it, and returns the time of the next
// round.
func (e *executions) pass(ctx context.Context) (time.Duration, error) {
	now := time.Now()
	if !now.Before(e.listAt) {
		if err := e.list(ctx, now); err != nil {
			return 0, err
		}
		e.listAt = now.Add(e.cfg.Pace.Ask)
	}
	due := e.due(now)
	if len(due) == 0 {
		return e.rest(now), nil
	}
	granted, err := e.grant(ctx, min(len(due), describeEach))
	if err != nil {
		return 0, err
	}
	if granted == 0 {
		return time.Second, nil
	}
	if err := e.ask(ctx, due[:granted]); err != nil {
		return 0, err
	}
	return e.rest(time.Now()), nil
}

// due lists the executions to be described, those that wait longest first.
func (e *executions) due(now time.Time) []*execution {
	var due []*execution
	for _, x := range e.live {
		if !now.Before(x.askAt) {
			due = append(due, x)
		}
	}
	slices.SortFunc(due, func(a, b *execution) int { return a.askAt.Compare(b.askAt) })
	return due
}

// rest returns the time until something is to be done.
func (e *executions) rest(now time.Time) time.Duration {
	next := e.listAt
	for _, x := range e.live {
		if x.askAt.Before(next) {
			next = x.askAt
		}
	}
	return max(0, next.Sub(now))
}

// list brings what is live up to date with the log.
func (e *executions) list(ctx context.Context, now time.Time) error {
	there := map[action.ID]bool{}
	query := queue.ActionQuery{Handler: e.handler, Statuses: []action.Status{action.Queued, action.Running}, Limit: executionPage}
	for {
		states, err := e.ledger.Actions(ctx, query)
		if err != nil {
			return err
		}
		for _, s := range states {
			query.After = s.ID
			if s.Thread.ClaimedBy.IsZero() && strings.HasPrefix(s.Ref, "arn:") && e.owns(s.ID.String()) {
				there[s.ID] = true
				e.meet(s, now)
			}
		}
		if len(states) < executionPage {
			break
		}
	}
	for id := range e.live {
		if !there[id] {
			delete(e.live, id)
		}
	}
	return nil
}

// meet takes up an action whose execution is not known yet.
func (e *executions) meet(s queue.ActionState, now time.Time) {
	if e.live[s.ID] != nil {
		return
	}
	x := &execution{id: s.ID, arn: s.Ref, began: s.Thread.Status == action.Running, askAt: now, wait: e.cfg.Pace.Ask}
	if age := now.Sub(s.Thread.RunAt); age >= 0 && age < x.wait {
		x.askAt = now.Add(x.wait - age)
	}
	e.live[s.ID] = x
}

// grant asks the lane for permission to make that many calls, and reports the results of the last ones.
func (e *executions) grant(ctx context.Context, want int) (int, error) {
	lane := e.handler + "/DescribeExecution"
	grants, err := e.ledger.Grant(ctx, e.current(),
		[]action.Ask{{Key: lane, Limit: action.Limit{Rate: describeRate}, Tokens: want, Results: e.results}})
	if err != nil {
		return 0, err
	}
	e.results = action.Results{}
	for _, g := range grants {
		if g.Key == lane && g.Tokens != action.Unlimited {
			return min(want, g.Tokens), nil
		}
	}
	return want, nil
}

// ask describes executions and records their ends. An end that could not be recorded is described again.
func (e *executions) ask(ctx context.Context, some []*execution) error {
	var seen []queue.Observation
	for _, x := range some {
		if o, news := e.look(ctx, x); news {
			seen = append(seen, o)
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	if len(seen) == 0 {
		return nil
	}
	recorded, err := e.ledger.Observe(ctx, seen...)
	if err != nil {
		for _, o := range seen {
			e.live[o.ID].askAt = time.Now().Add(e.cfg.Pace.Retry)
		}
		return err
	}
	e.recorded(seen, recorded)
	return recorded.Deferred.Err()
}

// look describes one execution. news: there is something to record.
func (e *executions) look(ctx context.Context, x *execution) (o queue.Observation, news bool) {
	ctx, cancel := context.WithTimeout(ctx, describeLimit)
	defer cancel()
	now := time.Now()
	x.askAt, x.wait = now.Add(x.wait), min(2*x.wait, e.cfg.Pace.AskMax)
	found, err := e.account.Describe(ctx, x.arn)
	if err == nil {
		e.results.OK++
		x.goneFrom = time.Time{}
		o = observed(found)
		o.ID, o.Source = x.id, e.source()
		if err := e.offload(ctx, &o); err != nil {
			e.log.Warn("output not stored; the end waits", obs.KeyActionID, x.id.String(), obs.Error(err), obs.KeyRetryIn, x.askAt.Sub(now).String())
			return o, false
		}
		return o, o.Outcome.Kind != 0 || (o.Began && !x.began)
	}
	meaning, code := aws.Judge(err)
	if meaning != aws.Missing {
		if meaning == aws.Busy {
			e.results.Bad++
			e.results.Reason = err.Error()
		}
		e.log.Warn("asking about an execution failed", obs.KeyActionID, x.id.String(), obs.Error(err), obs.KeyCode, code,
			obs.KeyRetryIn, x.askAt.Sub(now).String())
		return o, false
	}
	e.results.OK++
	if x.goneFrom.IsZero() {
		x.goneFrom = now
	}
	if now.Sub(x.goneFrom) < e.cfg.Pace.MissingWait {
		return o, false // AWS may be late in showing a new one
	}
	return queue.Observation{ID: x.id, Source: e.source(), Outcome: action.Outcome{Kind: action.Fatal, Code: CodeLost, Ref: x.arn,
		Error: "the execution vanished before its end was seen; it may have run"}}, true
}

// offload stores an output that is too big for its row.
func (e *executions) offload(ctx context.Context, o *queue.Observation) error {
	inline, ref, err := blob.Offload(ctx, e.archive, blob.ActionKey(o.ID, outputsFile), o.Outcome.Output)
	if err != nil {
		e.metrics.ArchiveFailures.Inc()
		return err
	}
	o.Outcome.Output, o.Outcome.OutputRef = inline, ref
	return nil
}

// recorded forgets ended executions, and counts it. Executions whose end is deferred are polled again.
func (e *executions) recorded(seen []queue.Observation, recorded queue.Observed) {
	for _, o := range seen {
		switch {
		case slices.Contains(recorded.Deferred.IDs, o.ID):
			e.live[o.ID].askAt = time.Now().Add(e.cfg.Pace.Retry)
		case o.Outcome.Code == CodeLost:
			e.metrics.Lost.Inc()
			e.log.Warn("execution lost", obs.KeyActionID, o.ID.String(), obs.KeyCode, CodeLost)
			delete(e.live, o.ID)
		case o.Outcome.Kind != 0:
			e.count(o, recorded)
			delete(e.live, o.ID)
		default:
			e.live[o.ID].began = true
			e.metrics.Workflows.WithLabelValues("running").Inc()
		}
	}
}
