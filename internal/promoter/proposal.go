package promoter

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"time"

	"github.com/waybill-dev/waybill/internal/git/mirror"
	"github.com/waybill-dev/waybill/internal/githost"
	"github.com/waybill-dev/waybill/internal/kube/watch"
	"github.com/waybill-dev/waybill/internal/loop"
	"github.com/waybill-dev/waybill/internal/marker"
	"github.com/waybill-dev/waybill/internal/obs"
	"github.com/waybill-dev/waybill/internal/promotion"
	"github.com/waybill-dev/waybill/internal/promotions"
)

// Times between two reads of an open proposal.
const (
	proposalsEvery = 2 * time.Minute
	oldProposals   = time.Hour // age from which they are read less often, at a fifth of the rate
	pollLimit      = time.Minute
	pollers        = 4
	callPause      = 5 * time.Second // least time between two reads because of calls: a busy repository calls all the time
)

// proposals reads open proposals from their hosts, so that merges and closings by people are seen. A host that calls back
// is faster; nothing is read while no proposal is open.
type proposals struct {
	*term
	queue *watch.Queue[string] // names of polls

	mu   sync.Mutex
	open map[string]poll      // by pipeline and environment
	last map[string]time.Time // times of the last reads of open proposals
}

// poll is an open proposal.
type poll struct {
	pipeline, namespace string
	uid                 string
	env                 promotion.EnvName
	host                promotion.Host
	known               promotion.Proposal
	refused             time.Time // time at which the host refused its merge because it has changed; zero: it did not
}

func newProposals(t *term) *proposals {
	p := &proposals{term: t, open: map[string]poll{}, last: map[string]time.Time{}}
	p.queue = watch.NewQueue(watch.QueueConfig[string]{Workers: pollers, Retry: loop.Backoff{First: 10 * time.Second, Most: 10 * time.Minute},
		Handle: p.next, Failed: p.failed})
	return p
}

// pollName names the proposal of an environment. A name of an environment has no colon and one of a pipeline no slash.
func pollName(pipeline string, env promotion.EnvName) string { return pipeline + "/" + string(env) }

// keep replaces the open proposals of a pipeline.
func (p *proposals) keep(pipeline string, open []poll) {
	p.mu.Lock()
	defer p.mu.Unlock()
	wanted := map[string]bool{}
	for _, one := range open {
		name := pollName(pipeline, one.env)
		wanted[name] = true
		before, known := p.open[name]
		p.open[name] = one
		switch {
		case one.refused.After(before.refused):
			p.queue.Add(name)
		case !known || before.known.Number != one.known.Number:
			p.queue.AddAfter(name, p.cfg.ProposalsEvery)
		}
	}
	for name := range p.open {
		if strings.HasPrefix(name, pipeline+"/") && !wanted[name] {
			delete(p.open, name)
			delete(p.last, name)
			p.queue.Forget(name)
		}
	}
}

// call puts the open proposals in line that a host has called about. The first call has a read at once; calls that follow it closely
// have one together.
func (p *proposals) call(c promotions.Call) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for name, one := range p.open {
		repository, err := githost.Repository(one.host)
		if err == nil && one.host.Type == c.Host && repository == c.Name && (c.Number == 0 || c.Number == one.known.Number) {
			p.queue.AddAfter(name, max(mergeWakes, callPause-time.Since(p.last[name])))
		}
	}
}

// next reads one proposal.
func (p *proposals) next(ctx context.Context, name string) (again time.Duration, err error) {
	p.mu.Lock()
	one, open := p.open[name]
	if open {
		p.last[name] = time.Now()
	}
	p.mu.Unlock()
	if !open {
		return 0, nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, pollLimit, fmt.Errorf("reading a pull request took longer than %s", pollLimit))
	defer cancel()
	found, err := p.read(ctx, one)
	if err != nil {
		if at := githost.Outcome(err).At; !at.IsZero() {
			again = max(time.Until(at), 0)
		}
		return again, err
	}
	found.Run, found.Revision, found.Host = one.known.Run, one.known.Revision, one.known.Host
	if found.Number == one.known.Number && !reflect.DeepEqual(found, one.known) {
		seen := map[promotion.EnvName]promotion.Proposal{one.env: found}
		if _, err := p.promotions.SaveProposals(ctx, one.pipeline, one.uid, seen); err != nil {
			return 0, err
		}
	}
	every := p.cfg.ProposalsEvery
	if time.Since(one.known.At) > oldProposals {
		every *= 5
	}
	p.queue.AddAfter(name, loop.Jitter(every))
	return 0, nil
}

// read returns the present state of a proposal. The lines that it changes are compared with the base branch in Git; as long as that cannot
// be read, the last result stays.
func (p *proposals) read(ctx context.Context, one poll) (promotion.Proposal, error) {
	client, err := p.client(ctx, one.namespace, one.host)
	if err != nil {
		return promotion.Proposal{}, err
	}
	found, err := client.Watch(ctx, one.known.Number)
	if err != nil || found.State != promotion.Open || p.cfg.Mirrors == nil {
		return found, err
	}
	found.LinesChanged = one.known.LinesChanged && found.Head == one.known.Head
	namespace, name, _ := strings.Cut(one.pipeline, ":")
	remote, err := client.Remote(ctx, namespace+"/"+one.host.Secret)
	if err != nil {
		return found, nil //nolint:nilerr // the state of the proposal counts for more
	}
	branches, err := p.cfg.Mirrors.Look(ctx, mirror.Request{Remote: remote, Base: one.host.Base, Head: one.host.Branch,
		Paths: one.host.Paths, Of: marker.Environment{Namespace: namespace, Pipeline: name, Name: string(one.env)}})
	if err == nil && branches.Head == found.Head {
		found.LinesChanged = branches.LinesChanged
	}
	return found, nil
}

func (p *proposals) failed(name string, err error, again time.Duration) {
	p.log.Warn("pull request not read", obs.KeyName, name, obs.Error(err), obs.KeyRetryIn, again.String())
}

// openProposals returns the open proposals of a look.
func (l *look) openProposals() (open []poll) {
	for name, proposal := range l.state.Proposals {
		if env := l.environment(name); proposal.State == promotion.Open && env.Host != nil && !l.isMoved(name) {
			open = append(open, poll{l.pipeline.ID(), l.pipeline.Namespace, l.pipeline.UID, name, *env.Host, proposal,
				refusedMerge(l.state, name, proposal)})
		}
	}
	return open
}

// refusedMerge returns the time at which the host refused to merge a proposal that has changed since it was observed.
func refusedMerge(s promotions.State, env promotion.EnvName, p promotion.Proposal) time.Time {
	a := s.Attempts[promotion.AttemptKey{Run: p.Run, Env: env, Op: promotion.OpMerge}]
	if a.Status != promotion.AttemptFailed || a.Head != p.Head || a.Class != promotion.ErrConflict && a.Class != promotion.ErrHeadMoved {
		return time.Time{}
	}
	return a.At
}
