//go:build services

package promotion_test

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	pipelines "github.com/waybill-dev/waybill/api/kube/v1alpha1"
	"github.com/waybill-dev/waybill/test/testbed"
	"github.com/waybill-dev/waybill/test/testbed/promotion"
)

// merging makes Waybill merge staging's pull requests, which have no checks in these stories.
const merging = "autoMerge: {method: squash, requireChecks: false}"

// TestStories has stories about one pipeline each, on a shared API server, Git host and Waybill.
func TestStories(t *testing.T) {
	t.Parallel()
	sandbox := promotion.NewSandbox(t)
	sandbox.Start(t, product.Path(t, "../../.."))
	for _, story := range []struct {
		name  string
		extra promotion.Extra
		run   func(*testing.T, *promotion.Scene)
	}{
		{"declined", promotion.Extra{}, declinedAndRetried},
		{"approved", promotion.Extra{Staging: merging, Prod: "approval: {count: 1}"}, approved},
		{"by-account", promotion.Extra{Staging: merging, Prod: "approval: {count: 1}"}, approvedByAccount},
		{"frozen", promotion.Extra{}, frozen},
		{"replaced", promotion.Extra{}, replaced},
		{"failed", promotion.Extra{Staging: merging}, failed},
		{"brought-back", promotion.Extra{Staging: merging + "\nrollback: {mode: Automatic, after: 0s}"}, broughtBack},
		{"by-hand", promotion.Extra{Staging: merging, Prod: merging}, broughtBackByHand},
		{"checked", promotion.Extra{Staging: "autoMerge: {method: merge}"}, checked},
		{"foreign", promotion.Extra{Staging: merging}, foreign},
		{"gated", promotion.Extra{Staging: merging}, gated},
		{"by-job", promotion.Extra{Staging: smoke}, gatedByJob},
		{"by-expression", promotion.Extra{Staging: merging, Prod: agreed}, gatedByExpression},
		{"announced", promotion.Extra{Staging: merging}, announced},
		{"suspended", promotion.Extra{Spec: "suspend: true"}, suspended},
		{"outside", promotion.Extra{Staging: merging +
			"\nwindows: [{kind: Deny, schedule: '* * * * *', duration: 2m, reason: audit}]"}, outsideOfWindows},
		{"finishing", promotion.Extra{Spec: "onNewRevision: Finish", Staging: merging}, finishing},
		{"notified", promotion.Extra{Prod: "promotion: {strategy: {notification: {}}}", Staging: merging}, notified},
		{"not-begun", promotion.Extra{Spec: "rolloutTimeout: 2s", Staging: merging}, notBegun},
		{"branch-kept", promotion.Extra{}, branchKept},
		{"held", promotion.Extra{Prod: `hold: {reason: "audit"}`, Staging: merging}, held},
	} {
		t.Run(story.name, func(t *testing.T) {
			t.Parallel()
			scene := sandbox.Scene(t, story.name, story.extra)
			defer scene.Follower.Close()
			story.run(t, scene)
		})
	}
}

func declinedAndRetried(t *testing.T, s *promotion.Scene) {
	s.Push(t, promotion.Dev, "6.6.0")
	first := s.AwaitProposal(t, promotion.Staging, "6.6.0")
	s.Repository.ClosePull(t, first.Number)
	s.AwaitReason(t, promotion.Staging, "Declined")
	run(t, s, "deployment", "retry", s.ID(), promotion.Staging)
	second := s.AwaitProposal(t, promotion.Staging, "6.6.0")
	if second.Number == first.Number {
		t.Errorf("pull request after a retry: got %d again, want another", first.Number)
	}
	s.Repository.Merge(t, second.Number, "merge")
	s.AwaitPhase(t, promotion.Staging, "Complete")
	s.AwaitProposal(t, promotion.Prod, "6.6.0")
}

func approved(t *testing.T, s *promotion.Scene) {
	checks(t, s, nil, "marked lines in the branch main: 1", "suffice for", "ApprovalUnsigned", "HookOnlyWakes")
	s.Push(t, promotion.Dev, "6.6.0")
	s.AwaitReason(t, promotion.Prod, "WaitingApproval")
	if waits := s.Pipeline(t).Status.Environments[promotion.Prod].WaitingApproval; waits == nil || waits.Revision != "6.6.0" {
		t.Errorf("waitingApproval: got %+v, want 6.6.0", waits)
	}
	if pulls := s.Proposals(t, promotion.Prod, "6.6.0"); len(pulls) != 0 {
		t.Errorf("pull requests before the approval: %+v, want none", pulls)
	}
	run(t, s, "approve", s.ID(), promotion.Prod, "--revision", "6.6.0")
	s.Repository.Merge(t, s.AwaitProposal(t, promotion.Prod, "6.6.0").Number, "merge")
	s.AwaitPhase(t, promotion.Prod, "Complete")
}

// approvedByAccount: of the accounts of the cluster the one approves that a role permits to, from a computer without Waybill's home.
func approvedByAccount(t *testing.T, s *promotion.Scene) {
	s.Push(t, promotion.Dev, "6.6.0")
	s.AwaitReason(t, promotion.Prod, "WaitingApproval")
	for account, rules := range map[string]string{
		"reader":      "[{apiGroups: [pipelines.weave.works], resources: [pipelines], verbs: [get]}]",
		"release-bot": "[{apiGroups: [pipelines.weave.works], resources: [pipelines/prod], resourceNames: [podinfo], verbs: [approve]}]",
	} {
		s.Cluster.Apply(t, fmt.Sprintf(`
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: %[1]s, namespace: %[2]s}
rules: %[3]s
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: %[1]s, namespace: %[2]s}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: %[1]s}
subjects: [{kind: ServiceAccount, name: %[1]s, namespace: %[2]s}]
`, account, s.Namespace, rules))
	}
	as := func(account string, arguments ...string) (string, error) {
		command := exec.CommandContext(t.Context(), product.Path(t, "../../.."), append(arguments, "--server", s.Waybill.URL)...)
		command.Dir = t.TempDir()
		command.Env = append(os.Environ(), "WAYBILL_TOKEN="+s.Cluster.Token(t, s.Namespace, account))
		out, err := command.CombinedOutput()
		return string(out), err
	}
	approve := []string{"approve", s.ID(), promotion.Prod, "--revision", "6.6.0"}
	for _, c := range []struct {
		account, want string
		arguments     []string
	}{
		{"stranger", "not found", approve},
		{"reader", "the right is the verb approve of pipelines/prod", approve},
		{"release-bot", "not found", []string{"approve", s.ID(), promotion.Staging, "--revision", "6.6.0"}},
		{"release-bot", "--revision", []string{"approve", s.ID(), promotion.Prod}},
		{"release-bot", "the token", []string{"deployment", "hold", s.ID(), promotion.Prod}},
	} {
		if out, err := as(c.account, c.arguments...); err == nil || !strings.Contains(out, c.want) {
			t.Errorf("waybill %s as %s: %v: got %s, want a refusal with %q", strings.Join(c.arguments, " "), c.account, err, out, c.want)
		}
	}
	if pulls := s.Proposals(t, promotion.Prod, "6.6.0"); len(pulls) != 0 {
		t.Errorf("pull requests before the approval: %+v, want none", pulls)
	}
	for range 2 { // a repetition returns the first record
		if out, err := as("release-bot", approve...); err != nil {
			t.Fatalf("waybill approve as release-bot: %v: %s", err, out)
		}
	}
	s.AwaitProposal(t, promotion.Prod, "6.6.0")
	given := regexp.MustCompile(`approval-given +by system:serviceaccount:` + s.Namespace + `:release-bot`)
	if got := run(t, s, "log", s.ID()+"#"+strconv.FormatInt(s.Pipeline(t).Status.Run.Number, 10)); len(given.FindAllString(got, -1)) != 1 {
		t.Errorf("the log: got %s, want one %s", got, given)
	}
}

func frozen(t *testing.T, s *promotion.Scene) {
	s.Await(t, promotion.Step{Name: "Waybill has the pipeline", Holds: func() bool {
		return s.Waybill.Command(t, "pipeline", "show", s.ID()).Run() == nil
	}})
	run(t, s, "pipeline", "freeze", s.ID(), "--reason", "audit")
	s.Push(t, promotion.Dev, "6.6.0")
	s.AwaitReason(t, promotion.Staging, "Frozen")
	if pulls := s.Proposals(t, promotion.Staging, "6.6.0"); len(pulls) != 0 {
		t.Errorf("pull requests during the freeze: %+v, want none", pulls)
	}
	for _, command := range [][]string{{"deployment", "why", s.ID(), promotion.Staging}, {"pipeline", "show", s.ID()}} {
		if got, want := run(t, s, command...), "frozen by"; !strings.Contains(got, want) {
			t.Errorf("waybill %s: got %s, want it to contain %q", strings.Join(command, " "), got, want)
		}
	}
	run(t, s, "pipeline", "thaw", s.ID())
	s.AwaitProposal(t, promotion.Staging, "6.6.0")
}

func replaced(t *testing.T, s *promotion.Scene) {
	s.Push(t, promotion.Dev, "6.6.0")
	first := s.AwaitProposal(t, promotion.Staging, "6.6.0")
	s.Push(t, promotion.Dev, "6.6.1")
	second := s.AwaitProposal(t, promotion.Staging, "6.6.1")
	if second.Number != first.Number {
		t.Errorf("pull request of a newer revision: got %d, want %d, edited", second.Number, first.Number)
	}
	s.Repository.Merge(t, second.Number, "merge")
	s.AwaitPhase(t, promotion.Staging, "Complete")
	if got, want := s.File(t, promotion.Staging), `version: "6.6.1" #`; !strings.Contains(got, want) {
		t.Errorf("file of staging: got %s, want it to contain %s", got, want)
	}
}

func failed(t *testing.T, s *promotion.Scene) {
	s.Follower.Decide(promotion.Staging, "6.6.0", promotion.Fails)
	s.Push(t, promotion.Dev, "6.6.0")
	s.AwaitReason(t, promotion.Staging, "TargetFailed")
	if pulls := s.Proposals(t, promotion.Prod, "6.6.0"); len(pulls) != 0 {
		t.Errorf("pull requests of prod after staging failed: %+v, want none", pulls)
	}
	s.Push(t, promotion.Dev, "6.6.1")
	s.AwaitProposal(t, promotion.Prod, "6.6.1")
}

func broughtBack(t *testing.T, s *promotion.Scene) {
	s.Push(t, promotion.Dev, "6.6.0")
	s.AwaitProposal(t, promotion.Prod, "6.6.0")
	s.Follower.Decide(promotion.Staging, "6.6.1", promotion.Fails)
	s.Push(t, promotion.Dev, "6.6.1")
	s.AwaitRunning(t, promotion.Staging, "6.6.1")
	s.AwaitRunning(t, promotion.Staging, "6.6.0")
	s.AwaitStatus(t, "staging is complete with the revision before", func(status pipelines.PipelineStatus) bool {
		e := status.Environments[promotion.Staging]
		return e.Phase == "Complete" && e.Want == "6.6.0"
	})
	s.AwaitMerged(t, promotion.Staging, "6.6.1")
}

func broughtBackByHand(t *testing.T, s *promotion.Scene) {
	for _, version := range []string{"6.6.0", "6.6.1"} {
		s.Push(t, promotion.Dev, version)
		s.AwaitRunning(t, promotion.Prod, version)
		s.AwaitPhase(t, promotion.Prod, "Complete")
	}
	run(t, s, "deployment", "rollback", s.ID(), promotion.Prod)
	s.AwaitRunning(t, promotion.Prod, "6.6.0")
	if got, want := s.Follower.Running(promotion.Staging), "6.6.1"; got != want {
		t.Errorf("staging after a rollback of prod: got %s, want %s", got, want)
	}
}

func checked(t *testing.T, s *promotion.Scene) {
	s.Push(t, promotion.Dev, "6.6.0")
	pull := s.AwaitProposal(t, promotion.Staging, "6.6.0")
	s.Repository.SetStatus(t, pull.Head.SHA, "validate", "failure")
	s.AwaitReason(t, promotion.Staging, "ChecksFailed")
	s.Repository.SetStatus(t, pull.Head.SHA, "validate", "success")
	s.AwaitPhase(t, promotion.Staging, "Complete")
}

func foreign(t *testing.T, s *promotion.Scene) {
	s.Repository.Protect(t, testbed.Protection{Branch: "main", Checks: []string{"validate"}, Pushers: []string{s.Host.User}})
	s.Push(t, promotion.Dev, "6.6.0")
	pull := s.AwaitProposal(t, promotion.Staging, "6.6.0")
	head := s.Repository.Clone(t).Push(t, pull.Head.Name, "A change by hand", map[string]string{"notes": "x\n"})
	s.Repository.SetStatus(t, head, "validate", "success")
	s.AwaitReason(t, promotion.Staging, "WaitingMerge")
	s.Repository.Merge(t, pull.Number, "merge")
	s.AwaitPhase(t, promotion.Staging, "Complete")
	if got := s.Repository.Clone(t).Read(t, "main", "notes"); got != "x" {
		t.Errorf("the change by hand after the merge: got %q, want it kept", got)
	}
}

// branchKept: people merge by squash, and the host keeps the branch. The next promotions begin at the base again.
func branchKept(t *testing.T, s *promotion.Scene) {
	for i, version := range []string{"6.6.0", "6.6.1", "6.7.0"} {
		s.Push(t, promotion.Dev, version)
		pull := s.AwaitProposal(t, promotion.Staging, version)
		s.Repository.Merge(t, pull.Number, "squash")
		s.AwaitPhase(t, promotion.Staging, "Complete")
		if branch := s.Repository.Clone(t).Git(t, "rev-parse", "origin/"+pull.Head.Name); branch != pull.Head.SHA {
			t.Errorf("the branch after the merge: got %s, want it kept at %s", branch, pull.Head.SHA)
		}
		if pulls := s.Proposals(t, promotion.Staging, version); len(pulls) != 1 {
			t.Errorf("pull requests %d: got %+v, want one", i, pulls)
		}
	}
}

func held(t *testing.T, s *promotion.Scene) {
	s.Push(t, promotion.Dev, "6.6.0")
	s.AwaitReason(t, promotion.Prod, "Held")
	s.Change(t, promotion.Extra{Staging: merging})
	s.AwaitProposal(t, promotion.Prod, "6.6.0")
}

func gated(t *testing.T, s *promotion.Scene) {
	probe := promotion.StartProbe(t)
	probe.Answer(http.StatusServiceUnavailable)
	gate := fmt.Sprintf("\ngates: [{name: smoke, http: {url: %q}, interval: 1s, failures: 2}]", probe.URL)
	s.Change(t, promotion.Extra{Staging: merging + gate})
	s.Push(t, promotion.Dev, "6.6.0")
	s.AwaitReason(t, promotion.Staging, "GateFailed")
	if got := probe.Requests(); got < 2 {
		t.Errorf("requests of a gate that failed: got %d, want at least 2", got)
	}
	if pulls := s.Proposals(t, promotion.Prod, "6.6.0"); len(pulls) != 0 {
		t.Errorf("pull requests of prod after the gate failed: %+v, want none", pulls)
	}
	probe.Answer(http.StatusOK)
	run(t, s, "deployment", "retry", s.ID(), promotion.Staging)
	s.AwaitProposal(t, promotion.Prod, "6.6.0")
}

func suspended(t *testing.T, s *promotion.Scene) {
	s.Push(t, promotion.Dev, "6.6.0")
	s.AwaitReason(t, promotion.Staging, "Suspended")
	if pulls := s.Repository.Pulls(t, "all"); len(pulls) != 0 {
		t.Errorf("pull requests of a suspended pipeline: %+v, want none", pulls)
	}
	s.Change(t, promotion.Extra{})
	s.AwaitProposal(t, promotion.Staging, "6.6.0")
}

func outsideOfWindows(t *testing.T, s *promotion.Scene) {
	s.Push(t, promotion.Dev, "6.6.0")
	s.AwaitReason(t, promotion.Staging, "WindowClosed")
	s.AwaitProposal(t, promotion.Staging, "6.6.0") // a closed window delays the merge only
	run(t, s, "deployment", "resume", s.ID(), promotion.Staging, "--now", "--reason", "fix")
	s.AwaitPhase(t, promotion.Staging, "Complete")
	s.AwaitMerged(t, promotion.Staging, "6.6.0")
}

func finishing(t *testing.T, s *promotion.Scene) {
	s.Push(t, promotion.Dev, "6.6.0")
	first := s.AwaitProposal(t, promotion.Prod, "6.6.0")
	for _, version := range []string{"6.6.1", "6.7.0"} {
		s.Push(t, promotion.Dev, version)
		s.AwaitStatus(t, version+" is in dev", func(status pipelines.PipelineStatus) bool { return status.LatestRevision == version })
	}
	if got := s.Repository.Pull(t, first.Number); got.State != "open" {
		t.Errorf("pull request of an unfinished run: got %s, want it open", got.State)
	}
	s.Repository.Merge(t, first.Number, "merge")
	s.AwaitProposal(t, promotion.Prod, "6.7.0")
	if pulls := s.Proposals(t, promotion.Staging, "6.6.1"); len(pulls) != 0 {
		t.Errorf("pull requests for a version between two runs: %+v, want none", pulls)
	}
}

func notified(t *testing.T, s *promotion.Scene) {
	s.Push(t, promotion.Dev, "6.6.0")
	s.AwaitPhase(t, promotion.Prod, "RollingOut")
	events := s.Cluster.Dynamic.Resource(schema.GroupVersionResource{Version: "v1", Resource: "events"}).Namespace(s.Namespace)
	list, err := events.List(t.Context(), metav1.ListOptions{FieldSelector: "reason=Promote"})
	if err != nil {
		t.Fatal(err)
	}
	if len(list.Items) != 1 || list.Items[0].GetAnnotations()["environment"] != promotion.Prod ||
		list.Items[0].GetAnnotations()["version"] != "6.6.0" {
		t.Errorf("Events of the promotion: got %v, want one for prod and 6.6.0", list.Items)
	}
	s.Push(t, promotion.Prod, "6.6.0") // by the receiver
	s.AwaitPhase(t, promotion.Prod, "Complete")
}

func notBegun(t *testing.T, s *promotion.Scene) {
	s.Follower.Decide(promotion.Staging, "6.6.0", promotion.NotBegun)
	s.Push(t, promotion.Dev, "6.6.0")
	s.AwaitReason(t, promotion.Staging, "RolloutTimedOut")
	s.Push(t, promotion.Dev, "6.6.1")
	s.AwaitProposal(t, promotion.Prod, "6.6.1")
}

// checks runs waybill pipeline check, whose end and findings have to be these.
func checks(t *testing.T, s *promotion.Scene, end error, findings ...string) {
	t.Helper()
	s.AwaitPhase(t, promotion.Prod, "Complete")
	out, err := s.Waybill.Command(t, "pipeline", "check", s.ID()).CombinedOutput()
	if fmt.Sprint(err) != fmt.Sprint(end) {
		t.Errorf("waybill pipeline check: got %v, want %v\n%s", err, end, out)
	}
	for _, want := range findings {
		if !strings.Contains(string(out), want) {
			t.Errorf("waybill pipeline check: want the finding %q\n%s", want, out)
		}
	}
}

// run runs a command of the program that must succeed, and returns its output.
func run(t *testing.T, s *promotion.Scene, arguments ...string) string {
	t.Helper()
	out, err := s.Waybill.Command(t, arguments...).CombinedOutput()
	if err != nil {
		t.Fatalf("waybill %s: %v: %s", strings.Join(arguments, " "), err, out)
	}
	return string(out)
}
