package queue

import (
	"slices"

	"github.com/waybill-dev/waybill/internal/action"
)

// Branch is one way to the rows of an ActionQuery: a table that is walked in the order of ids by an index, until the list
// is full. The list is what its branches find together; a row may be found by several.
type Branch struct {
	From   Table
	Status action.Status // in Ends: only this status; 0: any
	Name   string        // in Actions: only this name; "": any
	Jobs   bool          // in Actions: only jobs
}

// Table is the table that a branch reads.
type Table uint8

// The tables.
const (
	Actions    Table = iota + 1 // live and ended actions
	Threads                     // what is live
	Ends                        // what has ended
	Dismissals                  // ended jobs that a client deleted
)

// Branches returns the ways to the rows. The filter that leaves the fewest rows decides: a parent, a retried action or a
// pipeline has few actions, and of most statuses there are few among all actions. Of successful ones there are many, and a
// handler, a name or a kind leaves fewer.
func (q ActionQuery) Branches() []Branch {
	switch {
	case !q.Parent.IsZero(), !q.RetryOf.IsZero(), q.Pipeline != "":
		return []Branch{{From: Actions}}
	case q.LiveOnly:
		return []Branch{{From: Threads}}
	case q.Shortest > 0 || q.Longest > 0:
		return []Branch{{From: Threads}, {From: Ends}}
	case q.common() && q.narrow():
		return q.byName()
	case len(q.Statuses) > 0:
		return q.byStatus(len(q.Live()) > 0, q.Ended())
	case len(q.Phases) > 0:
		return q.byPhase()
	}
	return q.byName()
}

// common reports whether the query wants actions by how they ended, and successful ones among them.
func (q ActionQuery) common() bool {
	return slices.Contains(q.Statuses, action.Successful) || len(q.Statuses) == 0 && slices.Contains(q.Phases, Successful)
}

// narrow reports whether the query names what has an index of actions. Ends have one of jobs.
func (q ActionQuery) narrow() bool {
	return q.Handler != "" || q.Name != "" || len(q.Names) > 0 || q.Kind != "" && q.Kind != action.KindJob
}

// byName returns a branch for each name of the query, which an index of names and ids serves, or one over all actions.
func (q ActionQuery) byName() (branches []Branch) {
	for _, name := range q.Names {
		branches = append(branches, Branch{From: Actions, Name: name})
	}
	if len(branches) == 0 {
		branches = []Branch{{From: Actions, Jobs: q.Kind == action.KindJob && q.Name == "" && q.Handler == ""}}
	}
	return branches
}

// byStatus returns a branch for each final status, in the order of ids within each, and one for all live actions, which are few.
func (q ActionQuery) byStatus(live bool, ended []action.Status) (branches []Branch) {
	if live {
		branches = append(branches, Branch{From: Threads})
	}
	for _, status := range ended {
		branches = append(branches, Branch{From: Ends, Status: status})
	}
	return branches
}

// byPhase returns the branches of the statuses that the phases cover. An ended job that was dismissed is found among dismissals,
// whatever its status; the driver's condition on phases leaves it out of the branches of other phases.
func (q ActionQuery) byPhase() []Branch {
	live, dismissed := false, false
	var ended []action.Status
	for _, p := range q.Phases {
		switch p {
		case Accepted, Running:
			live = true
		case Successful:
			ended = append(ended, action.Successful)
		case Failed:
			ended = append(ended, action.Failed, action.TimedOut, action.Invalid, action.RetriesExhausted)
		case Dismissed:
			ended, dismissed = append(ended, action.Canceled), true
		}
	}
	branches := q.byStatus(live, ended)
	if dismissed {
		branches = append(branches, Branch{From: Dismissals})
	}
	return branches
}
