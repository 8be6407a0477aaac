//go:build services

package promotion_test

import (
	"testing"

	"github.com/waybill-dev/waybill/internal/pgtest"
	"github.com/waybill-dev/waybill/test/testbed/promotion"
)

// TestReplicasTakeOverAtEveryStep carries one revision after the other. At each step of one the leader is killed, at each step of the
// next one it is stopped until the other process has taken the step after, and then continues as if it still led.
func TestReplicasTakeOverAtEveryStep(t *testing.T) {
	t.Parallel()
	sandbox := promotion.NewSandbox(t)
	s := sandbox.Scene(t, "replicas", promotion.Extra{Staging: merging})
	defer s.Follower.Close()
	replicas := sandbox.StartReplicas(t, product.Path(t, "../../.."), pgtest.URL(t))
	steps := func(version string) []func() {
		return []func(){
			func() { s.AwaitProposal(t, promotion.Prod, version) },
			func() { s.AwaitReason(t, promotion.Prod, "WaitingMerge") },
			func() { s.Repository.Merge(t, s.AwaitProposal(t, promotion.Prod, version).Number, "merge") },
			func() { s.AwaitPhase(t, promotion.Prod, "Complete") },
		}
	}

	s.Push(t, promotion.Dev, "6.6.0")
	for _, step := range steps("6.6.0") {
		dead := replicas.Leader(t, nil)
		dead.Kill(t)
		step()
		dead.Start(t)
	}
	awaitMergedEach(t, &s.Project, "6.6.0")

	s.Push(t, promotion.Dev, "6.6.1")
	for _, step := range steps("6.6.1") {
		stopped := replicas.Leader(t, nil)
		stopped.Freeze(t)
		replicas.Leader(t, stopped)
		step()
		stopped.Thaw(t)
	}
	awaitMergedEach(t, &s.Project, "6.6.1")

	s.Push(t, promotion.Dev, "6.7.0")
	for _, step := range steps("6.7.0") {
		step()
		stopped := replicas.Leader(t, nil)
		stopped.Freeze(t) // it acts on the change now
		replicas.Leader(t, stopped)
		stopped.Thaw(t)
	}
	awaitMergedEach(t, &s.Project, "6.7.0")
	if pulls := s.Repository.Pulls(t, "all"); len(pulls) != 6 {
		t.Errorf("pull requests: got %+v, want one for each environment and version", pulls)
	}
}
