package promoter_test

import (
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/waybill-dev/waybill/internal/git/gittest"
	"github.com/waybill-dev/waybill/internal/githost/githosttest"
	"github.com/waybill-dev/waybill/internal/promotion"
	"github.com/waybill-dev/waybill/internal/promotions"
)

// proposedBy adds the pipeline whose prod is promoted to by pull requests.
func (w *world) proposedBy(git *gittest.Host) {
	w.t.Helper()
	w.management.Add(pipelines, w.object(`{apiVersion: pipelines.weave.works/v1alpha1, kind: Pipeline,
		metadata: {name: podinfo, namespace: apps, generation: 1}, spec: {
		appRef: {apiVersion: kustomize.toolkit.fluxcd.io/v1, kind: Kustomization, name: podinfo},
		promotion: {strategy: {pull-request: {type: gitea, url: "`+git.URL()+`", baseBranch: main, secretRef: {name: fleet}}}},
		environments: [{name: dev, targets: [{namespace: dev}]},
			{name: prod, targets: [{namespace: prod, clusterRef: {kind: GitopsCluster, name: leaf}}]}]}}`))
}

// proposed waits for the open pull request of prod, and returns its number.
func (w *world) proposed() (number int64) {
	w.t.Helper()
	w.await("the pull request", func(v promotions.View) bool {
		if len(v.Environments) == 2 && v.Environments[1].Proposal != nil && phase(v, "prod") == promotion.PhaseProposed {
			number = v.Environments[1].Proposal.Number
		}
		return number > 0
	})
	return number
}

// change changes the definition of the pipeline.
func (w *world) change(by func(spec map[string]any)) {
	w.t.Helper()
	objects := w.management.Resource(pipelines).Namespace("apps")
	object, err := objects.Get(w.t.Context(), "podinfo", metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	by(object.Object["spec"].(map[string]any))
	if _, err := objects.Update(w.t.Context(), object, metav1.UpdateOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

// A pull request that the definition has no place for any more is closed, also by the next process, before the next one is opened.
func TestAProposalThatTheDefinitionHasNoPlaceForIsClosed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(spec map[string]any)
		isDone func(w *world, pulls []githosttest.Pull) bool // besides that the first is closed
	}{
		"another base branch": {
			func(spec map[string]any) {
				strategy := spec["promotion"].(map[string]any)["strategy"].(map[string]any)
				strategy["pull-request"].(map[string]any)["baseBranch"] = "release"
			},
			func(_ *world, pulls []githosttest.Pull) bool {
				return len(pulls) == 2 && pulls[1].State == githosttest.Open && pulls[1].Base == "release" && pulls[1].SHA != ""
			},
		},
		"another way": {
			func(spec map[string]any) {
				spec["promotion"] = map[string]any{"strategy": map[string]any{"notification": map[string]any{}}}
			},
			func(w *world, _ []githosttest.Pull) bool { return slices.Equal(w.promoted(), []string{"6.6.0"}) },
		},
		"no environment": {
			func(spec map[string]any) { spec["environments"] = spec["environments"].([]any)[:1] },
			func(_ *world, pulls []githosttest.Pull) bool { return len(pulls) == 1 },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			git, model := w.proposing()
			git.Git(git.Dir, "update-ref", "refs/heads/release", git.Tip("main"))
			model.SetBranch("release", githosttest.Commit{SHA: git.Tip("main"), Message: "Begin"})
			w.at("dev", "6.5.4")
			w.at("prod", "6.5.4")
			w.proposedBy(git)
			stop := w.start()
			w.await("the baseline", func(v promotions.View) bool { return phase(v, "prod") == promotion.PhaseComplete })
			w.at("dev", "6.6.0")
			w.proposed()
			stop()
			before := model.Pulls(t)[0].SHA
			w.change(c.change)
			w.start()
			w.await("the first one is closed", func(promotions.View) bool {
				pulls := model.Pulls(t)
				return pulls[0].State == githosttest.Closed && c.isDone(w, pulls)
			})
			if first := model.Pulls(t)[0]; first.SHA != before || len(first.Comments) != 1 {
				t.Errorf("the first pull request had other commits while it was open, or has no comment: %+v", first)
			}
		})
	}
}
