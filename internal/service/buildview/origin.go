package buildview

import (
	"cmp"
	"context"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/ledger"
)

// Origin is the step of a deployment that a build belongs to, with the branch and the commit of its revision.
type Origin struct {
	Pipeline   string
	Deployment int64
	Target     string
	Branch     string // "": not known
	Commit     string // "": not known
	Subject    string
}

// OriginOf returns a function that reads the origin of the build that an action has started; nil if the action is not a step.
func OriginOf(l *ledger.Ledger) func(context.Context, action.ID) (*Origin, error) {
	return func(ctx context.Context, id action.ID) (*Origin, error) {
		found, err := l.Action(ctx, id)
		if err != nil || found.Step == nil {
			return nil, err
		}
		origin := &Origin{Pipeline: found.Step.Pipeline, Deployment: found.Step.Deployment, Target: found.Step.Target}
		d, err := l.Journal.Deployment(ctx, origin.Pipeline, origin.Deployment)
		if err != nil {
			return origin, err
		}
		r, err := l.Journal.Revision(ctx, origin.Pipeline, "", d.Revision)
		origin.Branch, origin.Commit, origin.Subject = r.Branch, r.Commit, r.Subject
		return origin, err
	}
}

// add completes a summary by the origin of its build.
func (o *Origin) add(s *Summary) {
	s.Pipeline, s.Deployment, s.Target = o.Pipeline, o.Deployment, o.Target
	s.Branch, s.Commit, s.Subject = cmp.Or(o.Branch, s.Branch), cmp.Or(o.Commit, s.Commit), cmp.Or(o.Subject, s.Subject)
}
