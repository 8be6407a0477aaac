//go:build services

package promotion_test

import (
	"os"
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/test/testbed"
	"github.com/waybill-dev/waybill/test/testbed/promotion"
)

// mover is a team that moves to Waybill by a page of docs. Its Kustomizations follow branches as Flux does.
type mover struct {
	*promotion.Project
	clone    *testbed.Clone
	apps     map[string]*testbed.Application // by branch and environment, joined by a space
	applied  map[string]string               // commit by the same
	pipeline string
}

// moves makes a team from the last example of a page, with a repository that it can reach and without long waits.
func moves(t *testing.T, sandbox *promotion.Sandbox, page, name, secret string, more ...string) *mover {
	t.Helper()
	text, err := os.ReadFile("../../../docs/" + page + ".md")
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(text), "### After\n")
	_, after, _ = strings.Cut(after, "```yaml\n")
	after, _, _ = strings.Cut(after, "```")
	m := &mover{Project: sandbox.Team(t, name, secret), apps: map[string]*testbed.Application{}, applied: map[string]string{}}
	m.clone = m.Repository.Clone(t)
	m.pipeline = strings.NewReplacer(append([]string{"type: github", "type: gitea", "soak: 1h", "soak: 1s", "soak: 4h", "soak: 1s",
		`"0 9 * * 1-5", duration: 8h`, `"0 0 * * *", duration: 24h`, "autoMerge: {}", "autoMerge: {requireChecks: false}",
		"method: squash", "method: squash, requireChecks: false"}, more...)...).Replace(after)
	return m
}

// follow adds the Kustomization of an environment that follows a branch.
func (m *mover) follow(t *testing.T, environment, namespace, branch string) {
	t.Helper()
	m.apps[branch+" "+environment] = m.Management.Kustomization(t, namespace, m.Name)
}

// reconcile does one round of Flux's work: every Kustomization applies the newest commit of its branch.
func (m *mover) reconcile(t *testing.T) {
	t.Helper()
	m.clone.Git(t, "fetch", "--quiet", "--prune", "origin")
	for name, app := range m.apps {
		branch, _, _ := strings.Cut(name, " ")
		if commit := m.clone.Git(t, "rev-parse", "origin/"+branch); commit != m.applied[name] {
			app.Succeed(t, branch+"@sha1:"+commit)
			m.applied[name] = commit
		}
	}
}

// awaits waits until an environment is complete with a revision, while Flux works.
func (m *mover) awaits(t *testing.T, environment, revision string) {
	t.Helper()
	m.Await(t, promotion.Step{Name: environment + " is complete with " + revision, Holds: func() bool {
		m.reconcile(t)
		e := m.Pipeline(t).Status.Environments[environment]
		return e.Phase == "Complete" && e.Want == revision
	}})
}

// overlay returns a file whose version is marked for an environment.
func (m *mover) overlay(environment, version string) string {
	return "images:\n- name: registry.example.com/app\n  newTag: " + version + ` # {"$promotion": "` + m.ID() + ":" + environment +
		`"}` + "\n"
}

// TestTeamsMoveByTheDocs: the pipelines of the pages about moving work as they are written there.
func TestTeamsMoveByTheDocs(t *testing.T) {
	t.Parallel()
	sandbox := promotion.NewSandbox(t)
	sandbox.Start(t, product.Path(t, "../../.."))
	probe := promotion.StartProbe(t)
	t.Run("from Kargo", func(t *testing.T) {
		t.Parallel()
		m := moves(t, sandbox, "from-kargo", "guestbook", "fleet-git", "https://guestbook.uat.example.com/readyz", probe.URL)
		m.pipeline = strings.ReplaceAll(m.pipeline, "https://git.example.com/guestbook/fleet", m.Repository.URL)
		files := map[string]string{}
		for _, environment := range []string{"test", "uat", "prod"} {
			m.follow(t, environment, "guestbook-"+environment, "main")
			files["stages/"+environment+"/kustomization.yaml"] = m.overlay(environment, "1.4.2")
		}
		m.clone.Push(t, "main", "All stages", files)
		m.Management.Apply(t, m.pipeline)
		m.awaits(t, "prod", "1.4.2")
		m.clone.Push(t, "main", "A new image in test", map[string]string{"stages/test/kustomization.yaml": m.overlay("test", "1.5.0")})
		m.awaits(t, "uat", "1.5.0")
		m.Repository.Merge(t, m.AwaitProposal(t, "prod", "1.5.0").Number, "merge")
		m.awaits(t, "prod", "1.5.0")
	})
	t.Run("from GitOps Promoter", func(t *testing.T) {
		t.Parallel()
		m := moves(t, sandbox, "from-gitops-promoter", "webservice", "git", "https://staging.example.com/readyz", probe.URL,
			`    - {kind: Deny, schedule: "0 0 25 12 *", duration: 48h, timezone: America/New_York, reason: Holidays}`+"\n", "")
		m.pipeline = strings.ReplaceAll(m.pipeline, "https://git.example.com/web/service", m.Repository.URL)
		for _, environment := range []string{"development", "staging", "production"} {
			m.follow(t, environment, environment, "environment/"+environment)
			file := map[string]string{"kustomization.yaml": m.overlay(environment, "2.8.0")}
			m.clone.Push(t, "environment/"+environment, "The branch of "+environment, file)
		}
		m.Management.Apply(t, m.pipeline)
		m.awaits(t, "production", "2.8.0")
		m.clone.Push(t, "environment/development", "A new image",
			map[string]string{"kustomization.yaml": m.overlay("development", "2.8.1")})
		m.awaits(t, "staging", "2.8.1")
		m.Repository.Merge(t, m.AwaitProposal(t, "production", "2.8.1").Number, "merge")
		m.awaits(t, "production", "2.8.1")
	})
}
