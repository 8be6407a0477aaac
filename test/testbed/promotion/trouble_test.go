//go:build services

package promotion_test

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	pipelines "github.com/waybill-dev/waybill/api/kube/v1alpha1"
	"github.com/waybill-dev/waybill/test/testbed"
	"github.com/waybill-dev/waybill/test/testbed/promotion"
)

// TestTroubles has stories of troubles that users of promotion have reported in the field.
func TestTroubles(t *testing.T) {
	t.Parallel()
	sandbox := promotion.NewSandbox(t)
	sandbox.Start(t, product.Path(t, "../../.."))
	for _, story := range []struct {
		name  string
		extra promotion.Extra
		run   func(*testing.T, *promotion.Scene)
	}{
		{"first-removed", promotion.Extra{Staging: merging}, firstEnvironmentRemoved},
		{"renamed", promotion.Extra{}, environmentRenamed},
		{"base-changed", promotion.Extra{}, baseBranchChanged},
		{"deleted", promotion.Extra{}, pipelineDeleted},
		{"reopened", promotion.Extra{}, reopened},
		{"reviewed", promotion.Extra{Staging: merging}, reviewed},
		{"bad-token", promotion.Extra{Staging: merging}, tokenReplaced},
		{"unmarked", promotion.Extra{}, markedLater},
		{"paused", promotion.Extra{Staging: merging}, applicationSuspended},
		{"styled", promotion.Extra{Staging: merging}, filesKeepTheirStyle},
		{"degraded", promotion.Extra{Staging: merging}, degradedLater},
	} {
		t.Run(story.name, func(t *testing.T) {
			t.Parallel()
			scene := sandbox.Scene(t, story.name, story.extra)
			defer scene.Follower.Close()
			story.run(t, scene)
		})
	}
}

// apply replaces the environments of a scene's pipeline, and its base branch.
func apply(t *testing.T, s *promotion.Scene, base, environments string) {
	t.Helper()
	s.Cluster.Apply(t, fmt.Sprintf(`
apiVersion: pipelines.weave.works/v1alpha1
kind: Pipeline
metadata: {name: podinfo, namespace: %s}
spec:
  appRef: {apiVersion: helm.toolkit.fluxcd.io/v2, kind: HelmRelease, name: podinfo}
  promotion: {strategy: {pull-request: {type: gitea, url: %q, baseBranch: %s, secretRef: {name: fleet-git}}}}
  environments:
%s`, s.Namespace, s.Repository.URL, base, strings.ReplaceAll(environments, "NS", s.Namespace)))
}

const (
	devOnly     = "  - {name: dev, targets: [{namespace: NS-dev}]}\n"
	stagingOnly = "  - {name: staging, targets: [{namespace: NS-staging, clusterRef: {kind: GitopsCluster, name: leaf-eu}}]}\n"
	prodOnly    = "  - {name: prod, targets: [{namespace: NS-prod-eu, clusterRef: {kind: GitopsCluster, name: leaf-eu}}]}\n"
)

// firstEnvironmentRemoved: the second environment becomes the source of revisions, and nothing waits for the first.
func firstEnvironmentRemoved(t *testing.T, s *promotion.Scene) {
	s.Push(t, promotion.Dev, "6.6.0")
	s.AwaitProposal(t, promotion.Prod, "6.6.0")
	apply(t, s, "main", stagingOnly+prodOnly)
	s.Push(t, promotion.Staging, "6.7.0")
	s.Repository.Merge(t, s.AwaitProposal(t, promotion.Prod, "6.7.0").Number, "merge")
	s.AwaitPhase(t, promotion.Prod, "Complete")
}

// environmentRenamed: a renamed environment is a removed and an added one.
func environmentRenamed(t *testing.T, s *promotion.Scene) {
	s.Push(t, promotion.Dev, "6.6.0")
	old := s.AwaitProposal(t, promotion.Staging, "6.6.0")
	work := s.Repository.Clone(t)
	file := work.Read(t, "main", "clusters/staging/podinfo.yaml")
	work.Push(t, "main", "Rename", map[string]string{"clusters/staging/podinfo.yaml": strings.ReplaceAll(file, ":staging", ":qa") + "\n"})
	apply(t, s, "main", devOnly+strings.ReplaceAll(stagingOnly, "name: staging", "name: qa")+prodOnly)
	s.Await(t, promotion.Step{Name: "the old pull request is closed",
		Holds: func() bool { return s.Repository.Pull(t, old.Number).State == "closed" }})
	s.Repository.Merge(t, s.AwaitProposal(t, "qa", "6.6.0").Number, "merge")
	s.AwaitPhase(t, "qa", "Complete")
	s.AwaitProposal(t, promotion.Prod, "6.6.0")
}

// baseBranchChanged: the revision is proposed to the new base branch, and no longer to the former one.
func baseBranchChanged(t *testing.T, s *promotion.Scene) {
	s.Push(t, promotion.Dev, "6.6.0")
	former := s.AwaitProposal(t, promotion.Staging, "6.6.0")
	s.Repository.Clone(t).Push(t, "release", "Another base branch", map[string]string{"notes": "x\n"})
	apply(t, s, "release", devOnly+stagingOnly+prodOnly)
	s.Await(t, promotion.Step{Name: "a pull request for the new base branch", Holds: func() bool {
		return slices.ContainsFunc(s.Repository.Pulls(t, "open"), func(p testbed.Pull) bool { return p.Base.Name == "release" })
	}})
	if got := s.Repository.Pull(t, former.Number); got.State != "closed" || got.Merged {
		t.Errorf("the pull request for the former base branch: got %+v, want it closed", got)
	}
}

// pipelineDeleted: a pipeline that is deleted and created again adopts its open pull request.
func pipelineDeleted(t *testing.T, s *promotion.Scene) {
	s.Push(t, promotion.Dev, "6.6.0")
	old := s.AwaitProposal(t, promotion.Staging, "6.6.0")
	if err := s.Pipelines().Delete(t.Context(), promotion.App, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	s.Change(t, promotion.Extra{})
	s.AwaitReason(t, promotion.Staging, "WaitingMerge")
	s.Repository.Merge(t, old.Number, "merge")
	s.AwaitPhase(t, promotion.Staging, "Complete")
	if pulls := s.Proposals(t, promotion.Staging, "6.6.0"); len(pulls) != 1 {
		t.Errorf("pull requests: got %+v, want the one of the deleted pipeline", pulls)
	}
}

// reopened: a person closes a pull request by mistake and reopens it.
func reopened(t *testing.T, s *promotion.Scene) {
	s.Push(t, promotion.Dev, "6.6.0")
	pull := s.AwaitProposal(t, promotion.Staging, "6.6.0")
	s.Repository.ClosePull(t, pull.Number)
	s.AwaitReason(t, promotion.Staging, "Declined")
	path := fmt.Sprintf("/repos/%s/fleet/pulls/%d", s.Namespace, pull.Number)
	if err := s.Host.API(t.Context(), http.MethodPatch, path, map[string]any{"state": "open"}, nil); err != nil {
		t.Fatal(err)
	}
	run(t, s, "deployment", "retry", s.ID(), promotion.Staging)
	s.AwaitReason(t, promotion.Staging, "WaitingMerge")
	if pulls := s.Proposals(t, promotion.Staging, "6.6.0"); len(pulls) != 1 {
		t.Errorf("pull requests: got %+v, want the reopened one", pulls)
	}
	s.Repository.Merge(t, pull.Number, "merge")
	s.AwaitPhase(t, promotion.Staging, "Complete")
}

// reviewed: the host demands a review, so the merge waits for a person.
func reviewed(t *testing.T, s *promotion.Scene) {
	s.Repository.Protect(t, testbed.Protection{Branch: "main", Reviews: 1, Pushers: []string{s.Host.User}})
	s.Push(t, promotion.Dev, "6.6.0")
	pull := s.AwaitProposal(t, promotion.Staging, "6.6.0")
	path := fmt.Sprintf("/repos/%s/fleet/pulls/%d/reviews", s.Namespace, pull.Number)
	if err := s.Host.API(t.Context(), http.MethodPost, path, map[string]any{"event": "APPROVED", "body": "ok"}, nil); err != nil {
		t.Fatal(err)
	}
	s.AwaitPhase(t, promotion.Staging, "Complete")
}

// tokenReplaced: the credentials are wrong at first. Once the Secret is right, nothing else has to be done.
func tokenReplaced(t *testing.T, s *promotion.Scene) {
	s.Credentials(t, "wrong")
	checks(t, s, errors.New("exit status 2"), "wrong", "GitHost")
	s.Push(t, promotion.Dev, "6.6.0")
	s.AwaitReason(t, promotion.Staging, "AttemptFailed")
	s.Credentials(t, "")
	s.AwaitPhase(t, promotion.Staging, "Complete")
}

// markedLater: the marker was forgotten. The reason names the marker that is missing; retry continues once it is there.
func markedLater(t *testing.T, s *promotion.Scene) {
	work := s.Repository.Clone(t)
	file := work.Read(t, "main", "clusters/staging/podinfo.yaml") + "\n"
	mark := fmt.Sprintf(` # {"$promotion": "%s:podinfo:staging"}`, s.Namespace)
	work.Push(t, "main", "Forget the marker", map[string]string{"clusters/staging/podinfo.yaml": strings.ReplaceAll(file, mark, "")})
	s.Push(t, promotion.Dev, "6.6.0")
	s.AwaitStatus(t, "the missing marker is named", func(status pipelines.PipelineStatus) bool {
		return slices.ContainsFunc(status.Environments[promotion.Staging].Blocked, func(b pipelines.Blocked) bool {
			return b.Reason == "NoMarkers" && strings.Contains(b.Message, s.Namespace+":podinfo:staging")
		})
	})
	work.Push(t, "main", "Add the marker", map[string]string{"clusters/staging/podinfo.yaml": file})
	run(t, s, "deployment", "retry", s.ID(), promotion.Staging)
	s.AwaitProposal(t, promotion.Staging, "6.6.0")
}

// applicationSuspended: a suspended application is unknown, so nothing is promoted past it until it is resumed.
func applicationSuspended(t *testing.T, s *promotion.Scene) {
	s.Apps[promotion.Staging][0].Suspend(t, true)
	s.AwaitReason(t, promotion.Staging, "TargetUnknown")
	s.Push(t, promotion.Dev, "6.6.0")
	s.AwaitStatus(t, "the run begins", func(status pipelines.PipelineStatus) bool {
		return status.Run != nil && status.Run.Revision == "6.6.0"
	})
	if pulls := s.Repository.Pulls(t, "all"); len(pulls) != 0 {
		t.Errorf("pull requests while the application is suspended: got %+v, want none", pulls)
	}
	s.Apps[promotion.Staging][0].Suspend(t, false)
	s.Apps[promotion.Staging][0].Succeed(t, "6.5.4")
	s.AwaitProposal(t, promotion.Prod, "6.6.0")
}

// nasty is a file in which only the marked values may change.
const nasty = "\ufeff---\r\n# a comment that stays\r\nvalues:   {a: 1,   b:  'x'}   # odd spacing\r\n" +
	"script: |\r\n    until curl -fsI http://localhost/ready; do sleep 3; done\r\n" +
	"folded: >-\r\n  one\r\n  two\r\n---\r\n---\r\nimage:\r\n" +
	"      tag: %s   # {\"$promotion\": \"%s:podinfo:staging\", \"$imagepolicy\": \"flux-system:podinfo:tag\"}\r\n" +
	"      # storage:\r\n      #   commented: out\r\nlast: \"no newline at the end\""

// filesKeepTheirStyle: a real merge changes the marked values and no other byte, beside links, submodules and templates.
func filesKeepTheirStyle(t *testing.T, s *promotion.Scene) {
	work := s.Repository.Clone(t)
	work.Git(t, "config", "core.autocrlf", "false")
	work.Push(t, "main", "Files of many styles", map[string]string{
		"charts/templates/broken.yaml": "{{- if .Values.on }}\nkind: {{ .Values.kind }}\n{{- end }}\n",
		"clusters/staging/values.yaml": fmt.Sprintf(nasty, "6.5.4", s.Namespace),
	})
	if err := os.Symlink("clusters/staging/values.yaml", filepath.Join(work.Folder, "link.yaml")); err != nil {
		t.Fatal(err)
	}
	work.Git(t, "add", "link.yaml")
	work.Git(t, "update-index", "--add", "--cacheinfo", "160000,"+work.Git(t, "rev-parse", "HEAD")+",vendored")
	work.Git(t, "commit", "--quiet", "--message", "A submodule and a link")
	work.Git(t, "push", "--quiet", "origin", "main")
	s.Push(t, promotion.Dev, "6.6.0")
	s.AwaitProposal(t, promotion.Prod, "6.6.0")
	got, err := s.Repository.File(t.Context(), "clusters/staging/values.yaml", "main")
	if want := fmt.Sprintf(nasty, "6.6.0", s.Namespace); err != nil || got != want {
		t.Errorf("file after the merge: got %q, %v, want %q", got, err, want)
	}
	work.Git(t, "fetch", "--quiet", "origin")
	changed := work.Git(t, "diff", "--name-only", "HEAD", "origin/main")
	if want := "clusters/dev/podinfo.yaml\nclusters/staging/podinfo.yaml\nclusters/staging/values.yaml"; changed != want {
		t.Errorf("changed files: got %q, want %q", changed, want)
	}
}

// degradedLater: an environment that fails after it was complete blocks the next one, and its recovery frees it.
func degradedLater(t *testing.T, s *promotion.Scene) {
	s.AwaitPhase(t, promotion.Prod, "Complete")
	run(t, s, "deployment", "hold", s.ID(), promotion.Prod)
	s.Push(t, promotion.Dev, "6.6.0")
	s.AwaitRunning(t, promotion.Staging, "6.6.0")
	s.AwaitPhase(t, promotion.Staging, "Complete")
	s.Apps[promotion.Staging][0].Break(t)
	s.AwaitPhase(t, promotion.Staging, "Failed")
	run(t, s, "deployment", "resume", s.ID(), promotion.Prod)
	s.AwaitReason(t, promotion.Prod, "PredecessorUnhealthy")
	if pulls := s.Proposals(t, promotion.Prod, "6.6.0"); len(pulls) != 0 {
		t.Errorf("pull requests of prod after staging degraded: got %+v, want none", pulls)
	}
	s.Apps[promotion.Staging][0].Succeed(t, "6.6.0")
	s.AwaitProposal(t, promotion.Prod, "6.6.0")
}
