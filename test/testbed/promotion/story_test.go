//go:build services

package promotion_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/test/testbed"
	"github.com/waybill-dev/waybill/test/testbed/promotion"
)

var product testbed.Product

func TestMain(m *testing.M) {
	waitTogether()
	status := m.Run()
	if err := product.Remove(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		status = max(status, 1)
	}
	os.Exit(status)
}

// waitTogether lets more tests run at a time than there are processors, unless a flag sets their number: they mostly wait.
func waitTogether() {
	flag.Parse()
	isSet := false
	flag.Visit(func(f *flag.Flag) { isSet = isSet || f.Name == "test.parallel" })
	if !isSet {
		_ = flag.Set("test.parallel", "4") // the flag exists
	}
}

var pace = promotion.Pace{Settle: "1s", Soak: "2s"}

// TestWorkedExample follows a version from dev to prod, and then two more while Waybill is killed after every transition.
// Each environment gets exactly one pull request per version, and no version is lost.
func TestWorkedExample(t *testing.T) {
	t.Parallel()
	w := promotion.New(t)
	carriedByFlux(t, w)
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
	awaitMergedEach(t, &w.Project, "6.6.0")

	w.Push(t, promotion.Dev, "6.6.1")
	for _, step := range w.Story(t, "6.6.1", merge) {
		w.Await(t, step)
		waybill.Kill(t)
		if step.Then != nil {
			step.Then() // Waybill is away
		}
		waybill.Start(t)
	}
	awaitMergedEach(t, &w.Project, "6.6.1")

	w.Push(t, promotion.Dev, "6.7.0")
	for _, step := range w.Story(t, "6.7.0", merge) {
		w.Await(t, step)
		if step.Then != nil {
			step.Then()
		}
		waybill.Kill(t) // it acts on the change now
		waybill.Start(t)
	}
	awaitMergedEach(t, &w.Project, "6.7.0")
	if open := w.Repository.Pulls(t, "open"); len(open) != 0 {
		t.Errorf("open pull requests at the end: %+v, want none", open)
	}
}

// carriedByFlux shows that the world works without Waybill: a push makes Kustomization and HelmRelease ready at the new revision on
// both leaf clusters, and so does the next one, which restores the version.
func carriedByFlux(t *testing.T, w *promotion.World) {
	t.Helper()
	for _, version := range []string{"6.6.0", "6.5.4"} {
		commit := w.Push(t, promotion.Prod, version)
		w.AwaitCommit(t, promotion.Prod, commit)
		w.AwaitVersion(t, promotion.Prod, version)
		w.AwaitVersion(t, promotion.Staging, "6.5.4")
		if got, want := w.File(t, promotion.Prod),
			fmt.Sprintf(`version: %q # {"$promotion": "apps:podinfo:prod"}`, version); !strings.Contains(got, want) {
			t.Errorf("file of prod: got %s, want it to contain %s", got, want)
		}
	}
}

// awaitMergedEach waits until staging and prod each have one pull request for a version, which is merged.
func awaitMergedEach(t *testing.T, p *promotion.Project, version string) {
	t.Helper()
	for _, environment := range []string{promotion.Staging, promotion.Prod} {
		p.AwaitMerged(t, environment, version)
	}
}
