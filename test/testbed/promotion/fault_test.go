//go:build services

package promotion_test

import (
	"net/http"
	"strings"
	"testing"

	pipelines "github.com/waybill-dev/waybill/api/kube/v1alpha1"
	"github.com/waybill-dev/waybill/test/testbed/promotion"
)

// alone starts a sandbox with one scene and a Waybill of its own.
func alone(t *testing.T, extra promotion.Extra) *promotion.Scene {
	t.Helper()
	sandbox := promotion.NewSandbox(t)
	scene := sandbox.Scene(t, "alone", extra)
	sandbox.Start(t, product.Path(t, "../../.."))
	return scene
}

// TestProposalsOfTheOriginalControllerAreAdopted: an installation is taken over while a proposal is open. Waybill begins frozen,
// reports, and does nothing until it is thawed.
func TestProposalsOfTheOriginalControllerAreAdopted(t *testing.T) {
	t.Parallel()
	sandbox := promotion.NewSandbox(t)
	s := sandbox.Scene(t, "adopted", promotion.Extra{})
	defer s.Follower.Close()
	branch := "promotion-" + s.Namespace + "-" + promotion.App + "-" + promotion.Staging
	file := strings.ReplaceAll(s.File(t, promotion.Staging), "6.5.4", "6.6.0") + "\n"
	s.Push(t, promotion.Dev, "6.6.0")
	s.Repository.Clone(t).Push(t, branch, "Promote podinfo", map[string]string{"clusters/staging/podinfo.yaml": file})
	original := map[string]any{
		"head": branch, "base": "main", "title": "Promote " + s.Namespace + "/podinfo in staging to 6.6.0",
		"body": "\n```\n" + s.Namespace + "/podinfo/staging\n```\n",
	}
	if err := s.Host.API(t.Context(), http.MethodPost, "/repos/"+s.Namespace+"/fleet/pulls", original, nil); err != nil {
		t.Fatal(err)
	}
	sandbox.Start(t, product.Path(t, "../../.."), "frozen: true")
	s.AwaitReason(t, promotion.Staging, "Frozen")
	run(t, s, "pipeline", "thaw", "--all")
	s.AwaitReason(t, promotion.Staging, "WaitingMerge")
	pull := s.AwaitProposal(t, promotion.Staging, "6.6.0")
	s.Repository.Merge(t, pull.Number, "merge")
	s.AwaitPhase(t, promotion.Staging, "Complete")
	s.AwaitProposal(t, promotion.Prod, "6.6.0")
	if pulls := s.Proposals(t, promotion.Staging, "6.6.0"); len(pulls) != 1 {
		t.Errorf("pull requests of staging: got %+v, want the original one", pulls)
	}
}

// TestALostLogPromotesNothingTwice: open proposals are adopted from the host, and so are declined ones.
func TestALostLogPromotesNothingTwice(t *testing.T) {
	t.Parallel()
	s := alone(t, promotion.Extra{})
	defer s.Follower.Close()
	s.Push(t, promotion.Dev, "6.6.0")
	first := s.AwaitProposal(t, promotion.Staging, "6.6.0")

	s.Waybill.LoseLog(t)
	s.AwaitReason(t, promotion.Staging, "WaitingMerge")
	s.Repository.Merge(t, first.Number, "merge")
	s.AwaitPhase(t, promotion.Staging, "Complete")
	second := s.AwaitProposal(t, promotion.Prod, "6.6.0")
	s.Repository.ClosePull(t, second.Number)
	s.AwaitReason(t, promotion.Prod, "Declined")

	s.Waybill.LoseLog(t)
	s.AwaitPhase(t, promotion.Staging, "Complete")
	s.AwaitReason(t, promotion.Prod, "Declined")
	if pulls := s.Repository.Pulls(t, "all"); len(pulls) != 2 {
		t.Errorf("pull requests: got %+v, want one for staging and one for prod", pulls)
	}
}

// TestPromotionOutlivesTheSystemsAroundIt: Git host, API server and Waybill are killed at every step, first one at a time
// and then together.
func TestPromotionOutlivesTheSystemsAroundIt(t *testing.T) {
	t.Parallel()
	s := alone(t, promotion.Extra{Staging: merging})
	s.Follower.Close() // it would fail the test while they are away
	alive := func() (stop func()) {
		f := promotion.Follow(t, s.Host, s.Repository, s.Apps)
		return f.Close
	}
	stop := alive()
	s.Push(t, promotion.Dev, "6.6.0")
	s.AwaitProposal(t, promotion.Prod, "6.6.0")
	stop()

	s.Host.Kill(t)
	s.Waybill.Kill(t)
	s.Waybill.Start(t)
	s.Host.Start(t)
	s.Repository.Merge(t, s.AwaitProposal(t, promotion.Prod, "6.6.0").Number, "merge")
	s.Cluster.Kill(t)
	s.Cluster.Start(t)
	stop = alive()
	s.AwaitPhase(t, promotion.Prod, "Complete")
	s.Push(t, promotion.Dev, "6.6.1")
	s.AwaitStatus(t, "the next run begins", func(status pipelines.PipelineStatus) bool {
		return status.Run != nil && status.Run.Revision == "6.6.1"
	})
	stop()

	s.Waybill.Kill(t)
	s.Host.Kill(t)
	s.Cluster.Kill(t)
	s.Cluster.Start(t)
	s.Host.Start(t)
	s.Waybill.Start(t)
	stop = alive()
	defer stop()
	s.Repository.Merge(t, s.AwaitProposal(t, promotion.Prod, "6.6.1").Number, "merge")
	s.AwaitPhase(t, promotion.Prod, "Complete")
	for _, version := range []string{"6.6.0", "6.6.1"} {
		awaitMergedEach(t, &s.Project, version)
	}
}

// TestOneHomeHasOneProcess: a log in SQLite is for one process that runs roles; the second one is refused.
func TestOneHomeHasOneProcess(t *testing.T) {
	t.Parallel()
	s := alone(t, promotion.Extra{})
	defer s.Follower.Close()
	out, err := s.Waybill.Command(t, append(promotion.Roles(), "--listen", "127.0.0.1:0")...).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "another Waybill") {
		t.Errorf("the second process: %v, %s", err, out)
	}
}
