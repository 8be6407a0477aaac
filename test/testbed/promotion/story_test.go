//go:build services

package promotion_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/waybill-dev/waybill/test/testbed"
	"github.com/waybill-dev/waybill/test/testbed/promotion"
)

var product testbed.Product

func TestMain(m *testing.M) {
	status := m.Run()
	if err := product.Remove(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		status = max(status, 1)
	}
	os.Exit(status)
}

var pace = promotion.Pace{Settle: "1s", Soak: "2s"}

// TestWorkedExample follows a version from dev to prod, and then two more while Waybill is killed after every transition.
// Each environment gets exactly one pull request per version, and no version is lost.
func TestWorkedExample(t *testing.T) {
	w := promotion.New(t)
	w.Install(t, pace)
	waybill := w.Waybill(t, product.Path(t, "../../.."), promotion.Roles(), nil)
	alice := w.Host.As(t, "alice")
	w.Repository.Allow(t, "alice", "write")
	merge := func(pull testbed.Pull) { w.Repository.As(alice).Merge(t, pull.Number, "merge") }

	w.Push(t, promotion.Dev, "6.6.0")
	for _, step := range w.Story(t, "6.6.0", merge) {
		w.Await(t, step)
		if step.Then != nil {
			step.Then()
		}
	}
	wantOneProposalEach(t, w, "6.6.0")

	w.Push(t, promotion.Dev, "6.6.1")
	for _, step := range w.Story(t, "6.6.1", merge) {
		w.Await(t, step)
		waybill.Kill(t)
		if step.Then != nil {
			step.Then() // Waybill is away
		}
		waybill.Start(t)
	}
	wantOneProposalEach(t, w, "6.6.1")

	w.Push(t, promotion.Dev, "6.7.0")
	for _, step := range w.Story(t, "6.7.0", merge) {
		w.Await(t, step)
		if step.Then != nil {
			step.Then()
		}
		waybill.Kill(t) // it acts on the change now
		waybill.Start(t)
	}
	wantOneProposalEach(t, w, "6.7.0")
	if open := w.Repository.Pulls(t, "open"); len(open) != 0 {
		t.Errorf("open pull requests at the end: %+v, want none", open)
	}
}

func wantOneProposalEach(t *testing.T, w *promotion.World, version string) {
	t.Helper()
	for _, environment := range []string{promotion.Staging, promotion.Prod} {
		if pulls := w.Proposals(t, environment, version); len(pulls) != 1 || !pulls[0].Merged {
			t.Errorf("pull requests of %s for %s: got %+v, want one that was merged", environment, version, pulls)
		}
	}
}
