package promotion

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/waybill-dev/waybill/test/testbed"
)

// Step is a transition of the worked example that the host and the clusters show.
type Step struct {
	Name  string
	Holds func() bool
	Then  func() // the part of a person or a program after it; nil: none
}

// Story returns the steps in which a version that was pushed to dev reaches prod. Its last step is the end of the run.
// merge merges the pull request of prod; nil: it is merged elsewhere.
func (w *World) Story(t testing.TB, version string, merge func(testbed.Pull)) []Step {
	proposed := func(environment, state string) func() bool {
		return func() bool {
			pull, ok := w.Proposal(t, environment, version)
			return ok && (state == "open" && pull.State == "open" || state == "merged" && pull.Merged)
		}
	}
	phase := func(environment string) func() bool {
		return func() bool {
			status := w.Pipeline(t).Status
			return status.Run != nil && status.Run.Revision == version && status.Environments[environment].Phase == "Complete"
		}
	}
	runs := func(environment string) func() bool { return func() bool { return w.Runs(t, environment, version) } }
	mergeProd := func() {
		if pull, ok := w.Proposal(t, Prod, version); ok && merge != nil {
			merge(pull)
		}
	}
	return []Step{
		{"dev runs it", runs(Dev), nil},
		{"the run starts", phase(Dev), nil},
		{"staging is proposed", proposed(Staging, "open"), func() { w.ReportCheck(t, Staging, version, "success") }},
		{"staging is merged", proposed(Staging, "merged"), nil},
		{"staging runs it", runs(Staging), nil},
		{"staging is complete", phase(Staging), nil},
		{"prod is proposed", proposed(Prod, "open"), mergeProd},
		{"prod is merged", proposed(Prod, "merged"), nil},
		{"prod runs it", runs(Prod), nil},
		{"the run is finished", phase(Prod), nil},
	}
}

// Runs reports whether every target of an environment is ready at a version.
func (w *World) Runs(t testing.TB, environment, version string) bool {
	t.Helper()
	for _, target := range w.Targets(environment) {
		if release := target.Release(t); testbed.Ready(release) != "True" || testbed.ChartVersion(release) != version {
			return false
		}
	}
	return true
}

// Release returns the HelmRelease of a target.
func (target Target) Release(t testing.TB) *unstructured.Unstructured {
	t.Helper()
	release, err := target.Site.Dynamic.Resource(testbed.HelmReleases()).Namespace(target.Namespace).Get(t.Context(), App,
		metav1.GetOptions{})
	if err != nil {
		t.Fatalf("read the release in %s: %v", target.Namespace, err)
	}
	return release
}
