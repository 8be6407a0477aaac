package promotion

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"sync"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/test/testbed"
)

// Outcome decides the end of a revision's rollout.
type Outcome int

// The outcomes.
const (
	Succeeds Outcome = iota
	Fails
	Hangs    // the controller has begun and does not end
	NotBegun // the controller does not see the change
)

// Follower does the work of Flux for one repository: it looks at the file of each environment on main and writes the status
// of the environment's applications.
type Follower struct {
	repository *testbed.Repository
	host       *testbed.GitHost
	apps       map[string][]*testbed.Application // by environment

	mutex    sync.Mutex
	outcomes map[string]Outcome // by environment and version, joined by a space
	running  map[string]string  // version by environment

	stop  context.CancelFunc
	ended chan struct{}
}

// Follow starts a follower. Its Close must be called before the test ends.
func Follow(t testing.TB, host *testbed.GitHost, repository *testbed.Repository, apps map[string][]*testbed.Application) *Follower {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	f := &Follower{repository: repository, host: host, apps: apps, outcomes: map[string]Outcome{}, running: map[string]string{},
		stop: stop, ended: make(chan struct{})}
	go f.follow(ctx, t)
	return f
}

// Close ends the follower.
func (f *Follower) Close() {
	f.stop()
	<-f.ended
}

// Decide sets the outcome of rollouts of a version in an environment that begin from now on.
func (f *Follower) Decide(environment, version string, outcome Outcome) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.outcomes[environment+" "+version] = outcome
}

// Running returns the version that an environment has begun to roll out, or runs.
func (f *Follower) Running(environment string) string {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	return f.running[environment]
}

// follow looks at the branch until the context ends.
func (f *Follower) follow(ctx context.Context, t testing.TB) {
	defer close(f.ended)
	again := time.NewTicker(interval)
	defer again.Stop()
	for last := ""; ; {
		var branch struct {
			Commit struct {
				ID string `json:"id"`
			} `json:"commit"`
		}
		err := f.host.API(ctx, http.MethodGet, fmt.Sprintf("/repos/%s/%s/branches/main", f.repository.Owner, f.repository.Name),
			nil, &branch)
		if err == nil && branch.Commit.ID != last {
			last = branch.Commit.ID
			f.apply(ctx, t, last)
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return
		}
	}
}

var markedVersion = regexp.MustCompile(`version: "?([^" ]+)"? # {"\$promotion"`)

// apply brings every environment to its version in a commit.
func (f *Follower) apply(ctx context.Context, t testing.TB, commit string) {
	for environment, apps := range f.apps {
		content, err := f.repository.File(ctx, path(environment), commit)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			t.Errorf("read the file of %s: %v", environment, err)
			return
		}
		found := markedVersion.FindStringSubmatch(content)
		if found == nil || found[1] == f.Running(environment) {
			continue
		}
		f.roll(t, environment, found[1], apps)
	}
}

func (f *Follower) roll(t testing.TB, environment, version string, apps []*testbed.Application) {
	f.mutex.Lock()
	outcome := f.outcomes[environment+" "+version]
	f.running[environment] = version
	f.mutex.Unlock()
	if outcome == NotBegun {
		return
	}
	for _, app := range apps {
		app.Edit(t)
		app.Begin(t, version)
	}
	for _, app := range apps {
		switch outcome {
		case Succeeds:
			app.Succeed(t, version)
		case Fails:
			app.Fail(t, version)
		case Hangs, NotBegun:
		}
	}
}
