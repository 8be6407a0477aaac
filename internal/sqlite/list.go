package sqlite

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/queue"
)

// Rows of package queue: lists of actions with their states.
//
// A list may request a status, a name or a duration, and each has its index in another table. So the statement is a
// UNION of branches: each searches one table and finds at most a page of ids. The rows of the resulting page are read
// last.

// stateColumns are the columns of an action, its thread and its end. A live action shows its last
// event's code and error.
const stateColumns = actionColumns + `, ` + threadColumns + `,
	d.status, d.seq, d.attempt, d.spent, d.lost, d.started_at, d.finished_at,
	coalesce(d.code, l.code), coalesce(d.error, l.error), coalesce(d.ref, l.ref), d.output, d.output_ref,
	(SELECT x.dismissed_at FROM dismissal x WHERE x.id = a.id), coalesce(d.finished_at, l.at, a.enqueued_at), a.enqueued_at`

// stateJoins find what stateColumns need of actions a.
const stateJoins = ` LEFT JOIN thread t ON t.id = a.id LEFT JOIN thread_done d ON d.id = a.id LEFT JOIN event l ON l.action_id = t.id AND l.seq = t.seq`

// ActionStates reads by id where ids is not nil, else by query, newest first.
func (t *tx) ActionStates(ids []action.ID, q queue.ActionQuery) ([]queue.ActionState, error) {
	if ids == nil {
		query, args := stateQuery(q, t.now)
		return rows(t, scanState, query, args...)
	}
	return rows(t, scanState, `SELECT `+stateColumns+` FROM action a`+stateJoins+` WHERE a.id IN (`+listed+`) ORDER BY a.id DESC`, idList(ids))
}

// stateQuery returns the statement of an ActionQuery. Each of its branches finds ids, and what they
// found together is read.
func stateQuery(q queue.ActionQuery, now time.Time) (query string, args []any) {
	order := ` DESC`
	if q.Oldest {
		order = ``
	}
	wanted := conditionsOf(q, now)
	var branches []string
	for _, b := range q.Branches() {
		text, values := branch(b, q, wanted, order)
		branches = append(branches, text)
		args = append(args, values...)
	}
	return `SELECT ` + stateColumns + ` FROM (SELECT id FROM (` + strings.Join(branches, ` UNION `) + `) ORDER BY id` +
		order + ` LIMIT ?) AS page
		CROSS JOIN action a ON a.id = page.id` + stateJoins + ` ORDER BY a.id` + order, append(args, limit(q.Limit))
}

// idBounds returns the conditions of a query on the ids of the table that is walked.
func idBounds(q queue.ActionQuery, walked string) (bounds []condition) {
	for _, bound := range []struct {
		is string
		id action.ID
	}{{`>=`, q.From()}, {`<`, q.To()}, {map[bool]string{false: `<`, true: `>`}[q.Oldest], q.After}} {
		if !bound.id.IsZero() {
			bounds = append(bounds, condition{walked + `.id ` + bound.is + ` ?`, []any{id(bound.id)}})
		}
	}
	return bounds
}

// branch returns the part of a statement that searches one table. It repeats conditions on the
// table's own columns where an index needs them: a status or a duration of jobs, a failure, a name,
// a lane.
func branch(b queue.Branch, q queue.ActionQuery, wanted []condition, order string) (string, []any) {
	wanted = slices.Clone(wanted)
	and := func(text string, values ...any) { wanted = append(wanted, condition{text, values}) }
	walked, from := `a`, `action a`
	switch b.From {
	case queue.Threads:
		walked, from = `t`, `thread t CROSS JOIN action a ON a.id = t.id LEFT JOIN thread_done d ON 0`
	case queue.Ends:
		indexed := ``
		if q.Kind == action.KindJob {
			and(`d.job IS NOT 0`)
			if q.Shortest > 0 { // most jobs end soon, so a least duration excludes nearly all; a greatest one excludes few
				indexed = ` INDEXED BY thread_done_took`
				and(`d.finished_at - d.started_at >= ?`, q.Shortest.Microseconds())
			}
		}
		if b.Status != 0 {
			and(`d.status = ` + strconv.Itoa(int(b.Status))) // a literal, for the partial index of failures
		}
		if q.Lane != "" {
			and(`d.lane = ?`, q.Lane) // before the action is looked up
		}
		walked, from = `d`, `thread_done d`+indexed+` CROSS JOIN action a ON a.id = d.id LEFT JOIN thread t ON 0`
	case queue.Dismissals:
		walked, from = `x`, `dismissal x CROSS JOIN action a ON a.id = x.id JOIN thread_done d ON d.id = x.id LEFT JOIN thread t ON 0`
	default:
		if len(q.Statuses)+len(q.Phases) > 0 || q.LiveOnly || q.Shortest+q.Longest > 0 {
			from += ` LEFT JOIN thread t ON t.id = a.id LEFT JOIN thread_done d ON d.id = a.id`
		}
		if b.Name != "" {
			and(`a.name = ?`, b.Name)
		}
		if b.Jobs {
			from = strings.Replace(from, `action a`, `action a INDEXED BY action_job`, 1)
			and(`a.kind = '` + action.KindJob + `'`) // a literal, for the partial index of jobs
		}
	}
	wanted = append(wanted, idBounds(q, walked)...)
	where, args := ``, []any(nil)
	for i, c := range wanted {
		where += map[bool]string{true: ` WHERE `, false: ` AND `}[i == 0] + c.text
		args = append(args, c.values...)
	}
	return `SELECT * FROM (SELECT ` + walked + `.id FROM ` + from + where + ` ORDER BY ` + walked + `.id` + order + ` LIMIT ?)`,
		append(args, limit(q.Limit))
}

// conditionsOf returns what a query wants of actions a, their threads t and their ends d.
func conditionsOf(q queue.ActionQuery, now time.Time) []condition {
	var wanted []condition
	if len(q.Statuses) > 0 {
		c := condition{text: standing(q.Live(), q.Ended()) + ` IN (` + strings.Repeat(`?,`, len(q.Statuses)-1) + `?)`}
		for _, status := range q.Statuses {
			c.values = append(c.values, status)
		}
		wanted = append(wanted, c)
	}
	wanted = append(wanted, phaseConditions(q, now)...)
	for _, c := range []struct{ column, value string }{{"kind", q.Kind}, {"name", q.Name}, {"handler", q.Handler}, {"lane", q.Lane},
		{"created_by", q.CreatedBy}, {"pipeline", q.Pipeline}, {"target", q.Target}} {
		if c.value != "" {
			wanted = append(wanted, condition{`a.` + c.column + ` = ?`, []any{c.value}})
		}
	}
	if !q.Parent.IsZero() {
		wanted = append(wanted, condition{`a.parent_id = ?`, []any{id(q.Parent)}})
	}
	if !q.RetryOf.IsZero() {
		wanted = append(wanted, condition{`a.retry_of = ?`, []any{id(q.RetryOf)}})
	}
	if q.Deployment != 0 {
		wanted = append(wanted, condition{`a.deployment = ?`, []any{q.Deployment}})
	}
	if q.LiveOnly {
		wanted = append(wanted, condition{text: `t.id IS NOT NULL`})
	}
	return wanted
}

// condition is a part of a WHERE, with the values of its placeholders.
type condition struct {
	text   string
	values []any
}

// isDismissed is the condition that the job was deleted on request.
const isDismissed = `EXISTS (SELECT 1 FROM dismissal x WHERE x.id = a.id)`

// phaseIs returns the condition that queue.ActionState.Phase is p.
func phaseIs(p queue.Phase) string {
	switch p {
	case queue.Accepted:
		return `t.status IN (1, 2) OR t.status = 4 AND t.started_at IS NULL`
	case queue.Running:
		return `t.status = 3 OR t.status = 4 AND t.started_at IS NOT NULL`
	case queue.Successful:
		return `d.status = 5 AND NOT ` + isDismissed
	case queue.Failed:
		return `d.status IN (6, 8, 9, 10) AND NOT ` + isDismissed
	}
	return `d.status = 7 OR ` + isDismissed
}

// phaseConditions select jobs by their processes, by phase and by how long they run or ran.
func phaseConditions(q queue.ActionQuery, now time.Time) []condition {
	var all []condition
	if len(q.Names) > 0 {
		c := condition{text: `a.name IN (` + strings.Repeat(`?,`, len(q.Names)-1) + `?)`}
		for _, name := range q.Names {
			c.values = append(c.values, name)
		}
		all = append(all, c)
	}
	if len(q.Phases) > 0 {
		texts := make([]string, len(q.Phases))
		for i, p := range q.Phases {
			texts[i] = phaseIs(p)
		}
		all = append(all, condition{text: `(` + strings.Join(texts, ` OR `) + `)`})
	}
	const duration = `coalesce(d.finished_at, ?) - coalesce(d.started_at, t.started_at)`
	if q.Shortest > 0 {
		all = append(all, condition{duration + ` >= ?`, []any{micros(now), q.Shortest.Microseconds()}})
	}
	if q.Longest > 0 {
		all = append(all, condition{duration + ` <= ?`, []any{micros(now), q.Longest.Microseconds()}})
	}
	return all
}

// standing returns the column that has a status, by which kinds of status are wanted.
func standing(live, ended []action.Status) string {
	switch {
	case len(ended) == 0:
		return `t.status`
	case len(live) == 0:
		return `d.status`
	}
	return `coalesce(t.status, d.status)`
}
