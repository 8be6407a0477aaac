//go:build services

package promotion_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	pipelines "github.com/waybill-dev/waybill/api/kube/v1alpha1"
	"github.com/waybill-dev/waybill/test/testbed/promotion"
)

// TestAMergeIsSeenByTheWebhookOfItsHost: Waybill reads pull requests once an hour here, so it learns of a merge by the webhook alone.
func TestAMergeIsSeenByTheWebhookOfItsHost(t *testing.T) {
	t.Parallel()
	const secret = "the secret of the webhook"
	isMerged := func(status pipelines.PipelineStatus) bool { return stateOf(status, promotion.Staging) == "merged" }
	file := filepath.Join(t.TempDir(), "fleet-hook")
	if err := os.WriteFile(file, []byte(secret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	sandbox := promotion.NewSandbox(t)
	sandbox.Start(t, product.Path(t, "../../.."), "proposalInterval: 1h",
		fmt.Sprintf("hooks: [{name: fleet, type: gitea, secretFile: %q}]", file))
	s := sandbox.Scene(t, "called", promotion.Extra{})
	defer s.Follower.Close()
	hook := promotion.Record(t, sandbox.Waybill.URL+"/api/v1/hooks/githost/fleet")
	wrong := s.Repository.Webhook(t, hook.URL, "another secret")

	s.Push(t, promotion.Dev, "6.6.0")
	pull := s.AwaitProposal(t, promotion.Staging, "6.6.0")
	s.AwaitReason(t, promotion.Staging, "WaitingMerge")
	s.Follower.Decide(promotion.Staging, "6.6.0", promotion.NotBegun) // else the clusters show the merged version
	refused := len(hook.Deliveries("pull_request", http.StatusUnauthorized))
	s.Repository.Merge(t, pull.Number, "merge")
	s.Await(t, promotion.Step{Name: "the webhook with the wrong secret is refused", Holds: func() bool {
		return len(hook.Deliveries("pull_request", http.StatusUnauthorized)) > refused
	}})
	if state := stateOf(s.Pipeline(t).Status, promotion.Staging); state != "open" {
		t.Errorf("the pull request after a webhook with the wrong secret: got %s, want open", state)
	}
	s.Repository.RemoveWebhook(t, wrong)

	right := s.Repository.Webhook(t, hook.URL, secret)
	s.Repository.TestWebhook(t, right) // a push: every open pull request of the repository is read
	s.AwaitStatus(t, "the merge of staging is seen", isMerged)
	s.AwaitPhase(t, promotion.Staging, "RollingOut")

	s.Push(t, promotion.Dev, "6.6.1")
	pull = s.AwaitProposal(t, promotion.Staging, "6.6.1")
	s.AwaitReason(t, promotion.Staging, "WaitingMerge")
	s.Follower.Decide(promotion.Staging, "6.6.1", promotion.NotBegun)
	before := len(hook.Deliveries("pull_request", http.StatusNoContent))
	s.Repository.Merge(t, pull.Number, "merge")
	s.AwaitStatus(t, "the next merge is seen", isMerged)
	s.AwaitPhase(t, promotion.Staging, "RollingOut")
	deliveries := hook.Deliveries("pull_request", http.StatusNoContent)
	if len(deliveries) <= before {
		t.Fatalf("the merge was seen without a webhook; deliveries: %d, before the merge %d", len(deliveries), before)
	}
	if status := hook.Repeat(t, deliveries[len(deliveries)-1]); status != http.StatusNoContent {
		t.Errorf("the same delivery again: got %d, want %d", status, http.StatusNoContent)
	}
	forged := deliveries[len(deliveries)-1]
	forged.Body = append(forged.Body, ' ')
	if status := hook.Repeat(t, forged); status != http.StatusUnauthorized {
		t.Errorf("an altered delivery: got %d, want %d", status, http.StatusUnauthorized)
	}
	s.AwaitPhase(t, promotion.Staging, "RollingOut")
	s.AwaitMerged(t, promotion.Staging, "6.6.1")
}

// stateOf returns the state of the pull request of an environment.
func stateOf(status pipelines.PipelineStatus, environment string) string {
	if e := status.Environments[environment]; e.Promotion != nil && e.Promotion.PullRequest != nil {
		return e.Promotion.PullRequest.State
	}
	return ""
}
