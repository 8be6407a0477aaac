package postgres

import (
	"slices"
	"strconv"
	"strings"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/queue"
)

// Rows of package queue: lists of actions with their states.
//
// A list may request a status, a name or a duration, and each has its index in another table. So the statement is a
// UNION of branches: each searches one table and finds at most a page of ids. The rows of the resulting page are read
// last.

// stateColumns are the columns of a thread, an action and an end, in the order of scanState. A live
// action shows its last event's code and error.
const stateColumns = threadColumns + ", " + actionColumns + `, d.status, d.seq, d.attempt, d.spent, d.lost, d.started_at, d.finished_at,
	coalesce(d.code, l.code), coalesce(d.error, l.error), coalesce(d.ref, l.ref), d.output::text, d.output_ref,
	(SELECT x.dismissed_at FROM dismissal x WHERE x.id = a.id), coalesce(d.finished_at, l.at, a.enqueued_at), a.enqueued_at`

// Joins of one row each to actions a. OFFSET 0 makes the planner look up each row by its key. Without
// it, the planner may read a whole index for each table when a list has many actions.
const (
	threadJoin = " LEFT JOIN LATERAL (SELECT * FROM thread WHERE id = a.id OFFSET 0) AS t ON true"
	endJoin    = " LEFT JOIN LATERAL (SELECT * FROM thread_done WHERE id = a.id AND created_at = a.created_at OFFSET 0) AS d ON true"
	// stateJoins find what stateColumns need.
	stateJoins = threadJoin + endJoin +
		" LEFT JOIN LATERAL (SELECT * FROM event WHERE action_id = t.id AND seq = t.seq AND created_at = a.created_at OFFSET 0) AS l ON true"
)

// ActionStates reads by id where ids is not nil, else by query, newest first.
func (t *tx) ActionStates(ids []action.ID, q queue.ActionQuery) ([]queue.ActionState, error) {
	if ids != nil {
		return read(t, scanState, "SELECT "+stateColumns+" FROM action a"+stateJoins+
			" WHERE a.id = ANY ($1) AND a.created_at = ANY ($2) ORDER BY a.id DESC", uuids(ids), createdAt(ids))
	}
	var f filter
	order := " DESC"
	if q.Oldest {
		order = ""
	}
	limit := f.limit(q.Limit)
	conditions := f.conditionsOf(q)
	var branches []string
	for _, b := range q.Branches() {
		branches = append(branches, "("+f.branch(b, q, conditions, order)+limit+")")
	}
	return read(t, scanState, "SELECT "+stateColumns+" FROM (SELECT * FROM ("+strings.Join(branches, " UNION ")+
		") AS found ORDER BY id"+order+limit+`) AS page
		CROSS JOIN LATERAL (SELECT * FROM action WHERE id = page.id AND created_at = page.created_at OFFSET 0) AS a`+stateJoins+
		" ORDER BY page.id"+order, f.arguments...)
}

// branch returns the part of a statement that searches one table. It repeats conditions on the
// table's own columns where an index needs them: a status or a duration of jobs, a failure, a name,
// a lane.
func (f *filter) branch(b queue.Branch, q queue.ActionQuery, conditions []string, order string) string {
	own := filter{conditions: slices.Clone(conditions), arguments: f.arguments}
	walked := "a"
	from := "action a"
	switch b.From {
	case queue.Threads:
		walked, from = "t", "thread t"+actionOf("t")+" LEFT JOIN thread_done d ON false"
	case queue.Ends:
		walked, from = "d", "thread_done d"+actionOf("d")+" LEFT JOIN thread t ON false"
		own.when(q.Lane != "", "d.lane = ?", q.Lane) // before the action is looked up
		if q.Kind == action.KindJob {
			own.conditions = append(own.conditions, "d.job IS NOT FALSE")
			own.when(q.Shortest > 0, "d.finished_at - d.started_at >= ?", interval(q.Shortest))
			own.when(q.Longest > 0, "d.finished_at - d.started_at <= ?", interval(q.Longest))
		}
		if b.Status != 0 {
			own.conditions = append(own.conditions, "d.status = "+strconv.Itoa(int(b.Status))) // a literal, for the partial index of failures
		}
	case queue.Dismissals:
		walked, from = "x", "(SELECT id, uuid_v7_time(id) AS created_at FROM dismissal) AS x"+actionOf("x")+endJoin+" LEFT JOIN thread t ON false"
	default:
		if len(q.Statuses)+len(q.Phases) > 0 || q.LiveOnly || q.Shortest+q.Longest > 0 {
			from += threadJoin + endJoin
		}
		own.when(b.Name != "", "a.name = ?", b.Name)
		if b.Jobs {
			own.conditions = append(own.conditions, "a.kind = '"+action.KindJob+"'") // a literal, for the partial index of jobs
		}
	}
	behind := ".id < ?"
	if q.Oldest {
		behind = ".id > ?"
	}
	own.when(!q.After.IsZero(), walked+behind, uuid(q.After))
	if low := q.From(); !low.IsZero() { // created_at decides which partitions are read
		own.and(walked+".id >= ?", uuid(low))
		own.and(walked+".created_at >= ?", low.Time())
	}
	if high := q.To(); !high.IsZero() {
		own.and(walked+".id < ?", uuid(high))
		own.and(walked+".created_at < ?", high.Time())
	}
	f.arguments = own.arguments
	return "SELECT " + walked + ".id, " + walked + ".created_at FROM " + from + own.where() + " ORDER BY " + walked + ".id" + order
}

// actionOf returns the join of the action of a row that has its id and created_at.
func actionOf(row string) string {
	return " CROSS JOIN LATERAL (SELECT * FROM action WHERE id = " + row + ".id AND created_at = " + row + ".created_at OFFSET 0) AS a"
}

// conditionsOf returns what a query wants of actions a, their threads t and their ends d.
func (f *filter) conditionsOf(q queue.ActionQuery) []string {
	f.when(q.Kind != "", "a.kind = ?", q.Kind)
	f.when(q.Name != "", "a.name = ?", q.Name)
	f.when(len(q.Names) > 0, "a.name = ANY (?)", q.Names)
	f.when(q.Handler != "", "a.handler = ?", q.Handler)
	f.when(q.Lane != "", "a.lane = ?", q.Lane)
	f.when(q.CreatedBy != "", "a.created_by = ?", q.CreatedBy)
	f.when(!q.Parent.IsZero(), "a.parent_id = ?", uuid(q.Parent))
	f.when(!q.RetryOf.IsZero(), "a.retry_of = ?", uuid(q.RetryOf))
	f.when(q.Pipeline != "", "a.pipeline = ?", q.Pipeline)
	f.when(q.Deployment != 0, "a.deployment = ?", q.Deployment)
	f.when(q.Target != "", "a.target = ?", q.Target)
	f.statuses(q.Live(), q.Ended())
	f.phases(q)
	if q.LiveOnly {
		f.conditions = append(f.conditions, "t.id IS NOT NULL")
	}
	return f.conditions
}

// statuses selects actions by their status. A live status is in the thread, a final one in the end.
func (f *filter) statuses(live, ended []action.Status) {
	numbers := func(s action.Status) int16 { return int16(s) }
	switch {
	case len(live) > 0 && len(ended) > 0:
		f.conditions = append(f.conditions, "(t.status = ANY ("+f.argument(column(live, numbers))+") OR d.status = ANY ("+
			f.argument(column(ended, numbers))+"))")
	case len(live) > 0:
		f.and("t.status = ANY (?)", column(live, numbers))
	case len(ended) > 0:
		f.and("d.status = ANY (?)", column(ended, numbers))
	}
}

// isDismissed is the condition that the job was deleted on request.
const isDismissed = "EXISTS (SELECT FROM dismissal x WHERE x.id = a.id)"

// phaseIs returns the condition that queue.ActionState.Phase is p.
func phaseIs(p queue.Phase) string {
	switch p {
	case queue.Accepted:
		return "t.status IN (1, 2) OR t.status = 4 AND t.started_at IS NULL"
	case queue.Running:
		return "t.status = 3 OR t.status = 4 AND t.started_at IS NOT NULL"
	case queue.Successful:
		return "d.status = 5 AND NOT " + isDismissed
	case queue.Failed:
		return "d.status IN (6, 8, 9, 10) AND NOT " + isDismissed
	}
	return "d.status = 7 OR " + isDismissed
}

// phases selects jobs by phase and by how long they run or ran.
func (f *filter) phases(q queue.ActionQuery) {
	if len(q.Phases) > 0 {
		f.conditions = append(f.conditions, "("+strings.Join(column(q.Phases, phaseIs), " OR ")+")")
	}
	const duration = "coalesce(d.finished_at, now()) - coalesce(d.started_at, t.started_at)"
	f.when(q.Shortest > 0, duration+" >= ?", interval(q.Shortest))
	f.when(q.Longest > 0, duration+" <= ?", interval(q.Longest))
}
