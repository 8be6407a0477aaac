package promoter

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/waybill-dev/waybill/api/kube/v1alpha1"
	"github.com/waybill-dev/waybill/internal/githost"
	"github.com/waybill-dev/waybill/internal/promoter/resource"
)

// branches knows the head branches of all pipelines. Two pipelines on one branch would overwrite each other's proposals: names have dashes,
// so that the default names of branches are ambiguous, and a definition may name any branch. Safe for concurrent use.
type branches struct {
	mu    sync.Mutex
	of    map[string][]headBranch // by the name of the pipeline
	users map[headBranch][]branchUser
}

// headBranch is a branch of a repository.
type headBranch struct{ repository, name string }

// branchUser is a pipeline with a branch.
type branchUser struct {
	pipeline string
	created  time.Time
}

func newBranches() *branches {
	return &branches{of: map[string][]headBranch{}, users: map[headBranch][]branchUser{}}
}

// headOf returns the head branch of an environment; false: it has none. Nothing is promoted into the first environment.
func headOf(p resource.Pipeline, i int) (headBranch, bool) {
	host := p.Environments[i].Host
	if i == 0 || host == nil {
		return headBranch{}, false
	}
	repository, err := githost.Repository(*host)
	if err != nil {
		repository = host.URL
	}
	return headBranch{repository, host.Branch}, true
}

// keep replaces the branches of a pipeline, and returns the other pipelines with one of the branches that it has or had. The zero value but
// for the name is that of a pipeline that is gone.
func (b *branches) keep(p resource.Pipeline) (others []string) {
	var heads []headBranch
	for i := range p.Environments {
		if head, ok := headOf(p, i); ok && !slices.Contains(heads, head) {
			heads = append(heads, head)
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	self := branchUser{p.ID(), p.CreatedAt}
	for _, head := range b.of[self.pipeline] {
		b.users[head] = slices.DeleteFunc(b.users[head], func(u branchUser) bool { return u.pipeline == self.pipeline })
		others = appendUsers(others, b.users[head])
		if len(b.users[head]) == 0 {
			delete(b.users, head)
		}
	}
	delete(b.of, self.pipeline)
	for _, head := range heads {
		others = appendUsers(others, b.users[head])
		b.users[head] = append(b.users[head], self)
	}
	if len(heads) > 0 {
		b.of[self.pipeline] = heads
	}
	return others
}

func appendUsers(names []string, users []branchUser) []string {
	for _, u := range users {
		if !slices.Contains(names, u.pipeline) {
			names = append(names, u.pipeline)
		}
	}
	return names
}

// collisions returns the environments of a pipeline whose branch an older pipeline has.
func (b *branches) collisions(p resource.Pipeline) (faults resource.Faults) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range p.Environments {
		head, ok := headOf(p, i)
		if !ok {
			continue
		}
		for _, u := range b.users[head] {
			isOlder := u.created.Before(p.CreatedAt) || u.created.Equal(p.CreatedAt) && strings.Compare(u.pipeline, p.ID()) < 0
			if u.pipeline == p.ID() || !isOlder {
				continue
			}
			faults = append(faults, resource.Fault{Reason: v1alpha1.ReasonBranchCollision,
				Field: fmt.Sprintf("spec.environments[%d].promotion.strategy.pull-request.branch", i),
				Text: fmt.Sprintf("pipeline %s, which is older, has the branch %s of this repository: name a different branch",
					u.pipeline, head.name)})
			break
		}
	}
	return faults
}
