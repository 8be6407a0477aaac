package resource_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/waybill-dev/waybill/api/kube/v1alpha1"
	"github.com/waybill-dev/waybill/internal/admission"
	"github.com/waybill-dev/waybill/internal/promoter/resource"
	"github.com/waybill-dev/waybill/internal/promotion"
)

var now = time.Date(2026, time.March, 2, 14, 0, 0, 0, time.UTC)

// read reads an object in YAML.
func read(t testing.TB, text []byte) *unstructured.Unstructured {
	t.Helper()
	data, err := yaml.YAMLToJSON(text)
	if err != nil {
		t.Fatal(err)
	}
	obj := &unstructured.Unstructured{}
	if err := obj.UnmarshalJSON(data); err != nil {
		t.Fatal(err)
	}
	return obj
}

// example returns the pipeline of the worked example.
func example(t testing.TB) *unstructured.Unstructured {
	t.Helper()
	text, err := os.ReadFile("testdata/podinfo.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return read(t, text)
}

// parse reads an object that has no fault.
func parse(t testing.TB, obj *unstructured.Unstructured) resource.Pipeline {
	t.Helper()
	p, faults := resource.Parse(obj, resource.Options{Now: now})
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	return p
}

func TestParseReadsTheWorkedExample(t *testing.T) {
	t.Parallel()
	p := parse(t, example(t))
	windows, _, err := admission.ParseWindows([]admission.Window{{Kind: "Allow", Schedule: "0 9 * * 1-5", Duration: 8 * 3600e9,
		Timezone: "Europe/Paris"}})
	if err != nil {
		t.Fatal(err)
	}
	eu, us := "apps/leaf-eu", "apps/leaf-us"
	want := promotion.Spec{
		Source: promotion.Source{Type: promotion.SourceRevision}, OnNewRevision: promotion.Interrupt, OnDrift: promotion.Hold,
		OnBackward: promotion.Hold,
		Settle:     2 * time.Minute, RunTimeout: 24 * time.Hour, RolloutTimeout: 30 * time.Minute,
		Environments: []promotion.Environment{
			{Name: "dev", Targets: []promotion.TargetID{{Namespace: "podinfo-dev"}}, Need: 1, Strategy: promotion.PullRequest},
			{Name: "staging", Targets: []promotion.TargetID{{Cluster: eu, Namespace: "podinfo-staging"}}, Need: 1,
				DependsOn: []promotion.EnvName{"dev"}, Strategy: promotion.PullRequest, Soak: 5 * time.Minute,
				Gates: []promotion.Gate{{Name: "smoke", When: promotion.After}}, AutoMerge: &promotion.AutoMerge{}},
			{Name: "prod", Targets: []promotion.TargetID{{Cluster: eu, Namespace: "podinfo-prod"},
				{Cluster: us, Namespace: "podinfo-prod"}}, Need: 2,
				DependsOn: []promotion.EnvName{"staging"}, Strategy: promotion.PullRequest, Windows: windows},
		},
	}
	compareTimeZones := cmp.Comparer(func(a, b *time.Location) bool { return a.String() == b.String() })
	if diff := cmp.Diff(want, p.Spec, compareTimeZones, cmp.AllowUnexported(windows[0].Start)); diff != "" {
		t.Errorf("spec (-want +got):\n%s", diff)
	}
	host := &promotion.Host{Type: "gitea", URL: "https://git.example.com/apps/fleet", Base: "main",
		Branch: "promotion-apps-podinfo-staging",
		Secret: "fleet-git", Method: "squash"}
	if diff := cmp.Diff(host, p.Environments[1].Host); diff != "" {
		t.Errorf("host (-want +got):\n%s", diff)
	}
	if p.ID() != "apps:podinfo" || p.UID != "5e1f" || p.Generation != 3 || p.App.Name != "podinfo" || p.App.Kind.Kind != "HelmRelease" {
		t.Errorf("got %+v", p)
	}
}

// edited returns the worked example after a change of its JSON at a path such as spec.environments.1.soak.
func edited(t testing.TB, path string, value any) *unstructured.Unstructured {
	t.Helper()
	obj := example(t)
	var at any = obj.Object
	parts := strings.Split(path, ".")
	for i, part := range parts {
		last := i == len(parts)-1
		switch in := at.(type) {
		case map[string]any:
			if last {
				in[part] = value
			}
			at = in[part]
		case []any:
			n := int(part[0] - '0')
			if last {
				in[n] = value
			}
			at = in[n]
		}
	}
	return obj
}

// from reads a value in YAML.
func from(t testing.TB, text string) (value any) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(text), &value); err != nil {
		t.Fatal(err)
	}
	return value
}

func TestParseNamesTheFieldOfEachFault(t *testing.T) {
	t.Parallel()
	const pull = "spec.promotion.strategy.pull-request"
	for _, c := range []struct{ path, value, want string }{
		{"spec", "null", "spec.appRef.apiVersion: want a group and version"},
		{"spec.appRef", "{apiVersion: v1, kind: Secret, name: a}", "spec.appRef.kind: a Secret is not an application"},
		{"spec.environments", "[]", "spec.environments: want at least one environment"},
		{"spec.environments", "7", "spec.environments: "},
		{"spec.environments.1.name", `""`, "spec.environments[1].name: must not be empty"},
		{"spec.environments.1.name", `a:b`, `spec.environments[1].name: "a:b" has a colon`},
		{"spec.environments.1.name", `dev`, `spec.environments[1].name: "dev" is the name of spec.environments[0] too`},
		{"spec.environments.1.name", `"a\tb"`, `spec.environments[1].name: "a\tb": want at most 253 visible characters`},
		{"spec.environments.1.dependsOn", `[prod]`, `spec.environments[1].dependsOn[0]: no earlier environment is named "prod"`},
		{"spec.environments.0.dependsOn", `[dev]`, `spec.environments[0].dependsOn[0]: no earlier environment`},
		{"spec.environments.2.dependsOn", `[dev, dev]`, `spec.environments[2].dependsOn[1]: "dev" is named twice`},
		{"spec.environments.2.dependsOnMode", `Some`, `spec.environments[2].dependsOnMode: want one of All, Any, found "Some"`},
		{"spec.environments.2.minReady", `50%`, `spec.environments[2].minReady: want a count, or a percentage above 50%`},
		{"spec.environments.2.minReady", `1`, `spec.environments[2].minReady: want more than half of the 2 targets`},
		{"spec.environments.2.minReady", `3`, `spec.environments[2].minReady: want more than half of the 2 targets`},
		{"spec.environments.2.minReady", `"2"`, `spec.environments[2].minReady: want a count, or a percentage`},
		{"spec.environments.2.targets.1.clusterRef.name", `leaf-eu`,
			`spec.environments[2].targets[1]: the same object as spec.environments[2].targets[0]`},
		{"spec.environments.1.targets.0.namespace", `podinfo-prod`,
			`spec.environments[2].targets[0]: the same object as spec.environments[1].targets[0]`},
		{"spec.environments.1.targets.0.clusterRef.kind", `Cluster`, `spec.environments[1].targets[0].clusterRef.kind: want GitopsCluster`},
		{"spec.environments.1.targets.0.clusterRef.name", `""`,
			`spec.environments[1].targets[0].clusterRef.name: "" is not the name of an object`},
		{"spec.environments.1.soak", `5`, `spec.environments.soak: `},
		{"spec.environments.1.soak", `soon`, `spec.environments[1].soak: want a duration such as 30m, found "soon"`},
		{"spec.environments.1.soak", `-5m`, `spec.environments[1].soak: want 0s to 366d, found "-5m"`},
		{"spec.settle", `367d`, `spec.settle: want 0s to 366d, found "367d"`},
		{"spec.rolloutTimeout", `0s`, `spec.rolloutTimeout: want 1s to 366d, found "0s"`},
		{"spec.onNewRevision", `Later`, `spec.onNewRevision: want one of Interrupt, Finish, Newest, found "Later"`},
		{"spec.onDrift", `Later`, `spec.onDrift: want one of Hold, Promote`},
		{"spec.versionSource", `{type: label}`, `spec.versionSource.key: must not be empty`},
		{"spec.versionSource", `{key: a}`, `spec.versionSource.key: only the types label and annotation have a key`},
		{"spec.promotion.strategy.notification", `{}`, `spec.promotion.strategy: has both pull-request and notification`},
		{"spec.promotion.strategy", `{}`, `spec.promotion.strategy: has neither pull-request nor notification`},
		{"spec.environments.1.promotion", `{strategy: {}}`, `spec.environments[1].promotion.strategy: has neither`},
		{pull + ".type", `svn`, pull + ".type: want one of github, gitlab, "},
		{pull + ".url", `https://ana:secret@git.example.com/a`, pull + ".url: a user or password does not belong in an address"},
		{pull + ".url", `ssh://ana:secret@git.example.com/a`, pull + ".url: want a user without a password"},
		{pull + ".url", `file:///srv/fleet`, pull + ".url: want the address of a repository"},
		{pull + ".url", `--upload-pack=x:y`, pull + ".url: want the address of a repository"},
		{pull + ".url", `http://git.example.com/a`, pull + ".url: plain HTTP is not allowed here"},
		{pull + ".apiURL", `http://git.example.com/a`, pull + ".apiURL: plain HTTP is not allowed here"},
		{pull + ".baseBranch", `"a..b"`, pull + `.baseBranch: "a..b" is not the name of a branch`},
		{pull + ".branch", `main`, pull + `.branch: is the base branch too`},
		{pull + ".branch", `all`, `spec.environments[2].promotion.strategy.pull-request.branch: environment "staging" has the branch "all" too`},
		{pull + ".secretRef.name", `A b`, pull + `.secretRef.name: "A b" is not the name of a Secret`},
		{pull + ".paths", `[a, ../b]`, pull + `.paths[1]: want a glob of files`},
		{pull + ".supersede", `Drop`, pull + `.supersede: want one of Update, Close`},
		{pull + ".reviewers", `[ana, "team:"]`, pull + `.reviewers[1]: names no team`},
		{pull + ".labels", `[""]`, pull + `.labels[0]: must not be empty`},
		{"spec.environments.1.autoMerge.method", `force`, `spec.environments[1].autoMerge.method: want one of merge, squash, rebase`},
		{"spec.environments.1.autoMerge.queue", `true`, `spec.environments[1].autoMerge.queue: only github and gitlab`},
		{pull + ".type", `bitbucket-cloud`, `spec.environments[1].autoMerge.allowUnguarded: merges of bitbucket-cloud`},
		{"spec.environments.1.promotion", `{strategy: {notification: {}}}`,
			`spec.environments[1].autoMerge: needs the strategy pull-request`},
		{"spec.environments.2.windows.0.schedule", `0 9 * *`, `spec.environments[2].windows[0].schedule: want five fields`},
		{"spec.environments.2.windows.0.schedule", `0 9 30 2 *`, `spec.environments[2].windows[0].schedule: no date has day 30`},
		{"spec.environments.2.windows.0.timezone", `Mars/Olympus`,
			`spec.environments[2].windows[0].timezone: time zone "Mars/Olympus" not found`},
		{"spec.environments.2.windows.0.duration", `30s`, `spec.environments[2].windows[0].duration: want 1m0s to 366d`},
		{"spec.environments.2.windows.0.kind", `Maybe`, `spec.environments[2].windows[0].kind: want one of Allow, Deny`},
		{"spec.environments.1.gates.0.name", `a/b`, `spec.environments[1].gates[0].name: "a/b": want 1 to 63 letters`},
		{"spec.environments.1.gates.0.when", `Later`, `spec.environments[1].gates[0].when: want one of After, Before`},
		{"spec.environments.1.gates.0.cel", `"true"`, `spec.environments[1].gates[0]: want exactly one of http, job and cel`},
		{"spec.environments.1.gates.0.http", `null`, `spec.environments[1].gates[0]: want exactly one of http, job and cel`},
		{"spec.environments.1.gates.0.http.url", `readyz`, `spec.environments[1].gates[0].http.url: want a URL`},
		{"spec.environments.1.gates.0.http.url", `https://a/{{version}}`,
			`spec.environments[1].gates[0].http.url: {{version}} is not known`},
		{"spec.environments.1.gates.0.http.status", `[20]`, `spec.environments[1].gates[0].http.status[0]: want 100 to 599`},
		{"spec.environments.1.gates.0.job", `{template: {}}`,
			`spec.environments[1].gates[0].job.template.spec.template.spec.containers: want the template`},
		{"spec.environments.1.gates.0.failures", `-1`, `spec.environments[1].gates[0].failures: want 1 to 1000`},
		{"spec.environments.1.approval", `{count: 101}`, `spec.environments[1].approval.count: want 1 to 100`},
		{"spec.environments.1.approval", `{by: [ana, ana]}`, `spec.environments[1].approval.by[1]: "ana" is named twice`},
		{"spec.environments.1.approval", `{by: ["key:a"]}`, `spec.environments[1].approval.by[0]: want key:NAMESPACE/SECRET`},
		{"spec.environments.1.hold", `{until: tomorrow}`, `spec.environments[1].hold.until: want a time such as`},
		{"spec.environments.1.rollback", `{mode: Always}`, `spec.environments[1].rollback.mode: want one of Off, Automatic`},
		{"spec.notify", `[{webhook: {url: x}}]`, `spec.notify[0].webhook.url: want a URL`},
		{"spec.notify", `[{"on": [Never], webhook: {url: "https://a/b"}}]`, `spec.notify[0].on[0]: want one of Started, `},
		{"spec.notify", `[{webhook: {url: "https://a/b", format: xml}}]`, `spec.notify[0].webhook.format: want one of cloudevents, slack`},
	} {
		t.Run(c.path+" "+c.value, func(t *testing.T) {
			t.Parallel()
			_, faults := resource.Parse(edited(t, c.path, from(t, c.value)), resource.Options{Now: now})
			for _, f := range faults {
				if strings.HasPrefix(f.String(), c.want) && f.Reason == "InvalidSpec" {
					return
				}
			}
			t.Errorf("got %q, want %q", faults, c.want)
		})
	}
}

func FuzzParse(f *testing.F) {
	whole, err := json.Marshal(example(f).Object)
	if err != nil {
		f.Fatal(err)
	}
	for _, text := range []string{string(whole), `{}`, `{"spec": {"environments": [{}], "appRef": []}}`, `{"metadata": 7, "spec": "x"}`,
		`{"spec": {"environments": [{"targets": [{"clusterRef": {}}], "gates": [{"job": {"template": 1}}], "minReady": {}}]}}`} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var object map[string]any
		if json.Unmarshal([]byte(text), &object) != nil {
			return
		}
		p, faults := resource.Parse(&unstructured.Unstructured{Object: object}, resource.Options{Now: now})
		if len(faults) > 0 {
			return
		}
		for _, e := range p.Spec.Environments {
			if n := len(e.Targets); n > 0 && (2*e.Need <= n || e.Need > n) {
				t.Errorf("%s needs %d of %d targets", e.Name, e.Need, n)
			}
		}
	})
}

// gated returns the only gate of staging.
func gated(t *testing.T, text string) resource.Gate {
	t.Helper()
	return parse(t, edited(t, "spec.environments.1.gates.0", from(t, text))).Environments[1].Gates[0]
}

func TestGatesAskAboutTheirRevision(t *testing.T) {
	t.Parallel()
	about := resource.Placeholders{Revision: `v1"/../x?`, Environment: "staging"}
	job := `{template: {spec: {template: {spec: {containers: [{name: test, args: ["{{revision}}"]}]}}}}}`
	for name, c := range map[string]struct {
		gate string
		want promotion.GateWork
	}{
		"http": {`{name: a, http: {url: "https://a/{{environment}}/{{revision}}", status: [200, 204], body: "{{revision}} is up"}, interval: 1m}`,
			promotion.GateWork{Timeout: 10 * time.Minute, Every: time.Minute, HTTP: map[string]any{
				"url": "https://a/staging/v1%22%2F..%2Fx%3F", "status": []int{200, 204}, "body": `v1"/../x? is up`}}},
		"job": {`{name: a, job: ` + job + `, timeout: 1h}`,
			promotion.GateWork{Timeout: time.Hour, Every: 30 * time.Second, Job: map[string]any{"spec": map[string]any{
				"template": map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"name": "test",
					"args": []any{`v1"/../x?`}}}}}}}}},
		"cel": {`{name: a, cel: "targets.all(t, t.status.v == \"{{revision}}\")"}`,
			promotion.GateWork{Timeout: 10 * time.Minute, Every: 30 * time.Second,
				CEL: `targets.all(t, t.status.v == "v1\U00000022\U0000002f..\U0000002fx\U0000003f")`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.want.Name = "a"
			if diff := cmp.Diff(c.want, gated(t, c.gate).Work(about)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// originals returns the Pipelines of the original controller's users, by name.
func originals(t *testing.T) map[string]*unstructured.Unstructured {
	t.Helper()
	text, err := os.ReadFile("testdata/original/pipelines.yaml")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]*unstructured.Unstructured{}
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		if obj := read(t, []byte(document)); obj.GetKind() == "Pipeline" {
			found[obj.GetName()] = obj
		}
	}
	return found
}

func TestOriginalPipelinesAreValidUnchanged(t *testing.T) {
	t.Parallel()
	all := originals(t)
	for name, obj := range all {
		p, faults := resource.Parse(obj, resource.Options{Now: now})
		if invalid := name == "invalid"; (len(faults) > 0) != invalid {
			t.Errorf("%s: %v", name, faults)
		}
		for _, e := range p.Spec.Environments {
			if e.Soak != 0 || e.AutoMerge != nil || e.Rollback != nil || e.Hold != nil || len(e.Windows) > 0 || len(e.Gates) > 0 ||
				e.Need != len(e.Targets) {
				t.Errorf("%s: %s has options that it does not set: %+v", name, e.Name, e)
			}
		}
	}
	many := parse(t, all["many-clusters"])
	test, prod := many.Spec.Environments[1], many.Spec.Environments[2]
	if test.Approval != nil || test.Strategy != promotion.Notification || many.Environments[1].Secret != "" {
		t.Errorf("an environment's promotion replaces the default as a whole: %+v", test)
	}
	if prod.Approval == nil || prod.Approval.Count != 1 || prod.Strategy != promotion.PullRequest ||
		many.Environments[2].Secret != "approvals" {
		t.Errorf("got %+v", prod)
	}
	targets := []promotion.TargetID{many.Spec.Environments[0].Targets[0], test.Targets[0], prod.Targets[0]}
	want := []promotion.TargetID{{Cluster: "shop/dev", Namespace: "shop"}, {Cluster: "shop/test", Namespace: "cart"},
		{Cluster: "clusters/prod-eu", Namespace: "cart"}}
	if diff := cmp.Diff(want, targets); diff != "" {
		t.Errorf("targets (-want +got):\n%s", diff)
	}
	if e := parse(t, all["shown"]).Spec.Environments; e[1].Strategy != promotion.ByHand || e[1].Need != 0 {
		t.Errorf("got %+v", e[1])
	}
}

func TestReferencesToOtherNamespacesMayBeDenied(t *testing.T) {
	t.Parallel()
	p, faults := resource.Parse(originals(t)["many-clusters"], resource.Options{Now: now, NoCrossNamespaceRefs: true})
	want := `spec.environments[2].targets[0].clusterRef.namespace: "clusters" is another namespace, which promoter.oneNamespace refuses (and 1 more)`
	if got := faults.Message(); got != want || faults[0].Reason != "ClusterRefDenied" {
		t.Errorf("got %s", got)
	}
	if len(p.Environments[2].Targets) != 0 {
		t.Error("a denied reference would be read")
	}
}

// An expression shows every field of an object, which this program may read with rights that the pipeline's author does not have.
func TestExpressionsStayInOneNamespace(t *testing.T) {
	t.Parallel()
	gates := from(t, `[{name: a, http: {url: "https://a"}}, {name: b, cel: "targets.size() == 1"}]`)
	for field, namespace := range map[string]string{"spec.environments.0": "podinfo-dev", "spec.environments.1": ""} {
		for _, one := range []bool{false, true} {
			_, faults := resource.Parse(edited(t, field+".gates", gates), resource.Options{Now: now, NoCrossNamespaceRefs: one})
			want := ""
			if one && namespace != "" {
				want = `spec.environments[0].gates[1].cel: reads objects of namespace "podinfo-dev", which promoter.oneNamespace refuses`
			}
			if got := faults.Message(); got != want {
				t.Errorf("%s: got %q, want %q", field, got, want)
			}
		}
	}
}

func TestHeadBranchesAreValidAndApart(t *testing.T) {
	t.Parallel()
	seen := map[string]promotion.EnvName{}
	for _, env := range []promotion.EnvName{"prod", "prod eu", "prod~eu", "a..b", ".lock", "-", "Zürich", "Zörich",
		promotion.EnvName(strings.Repeat("a", 250)), promotion.EnvName(strings.Repeat("a", 251)), "x/", "x//"} {
		branch := resource.HeadBranch("apps", "podinfo", env)
		if first, taken := seen[branch]; taken {
			t.Errorf("%q and %q have the branch %s", first, env, branch)
		}
		seen[branch] = env
		if strings.ContainsAny(branch, " ~^:?*[\\") || strings.Contains(branch, "..") || strings.HasSuffix(branch, "/") ||
			len(branch) > 244 {
			t.Errorf("%q: %s is not the name of a branch", env, branch)
		}
	}
	if got := resource.HeadBranch("apps", "podinfo", "prod"); got != "promotion-apps-podinfo-prod" {
		t.Errorf("got %s", got)
	}
}

func TestPlainHTTPIsTheOperatorsChoice(t *testing.T) {
	t.Parallel()
	obj := edited(t, "spec.promotion.strategy.pull-request.url", "http://git.example.com/apps/fleet")
	if _, faults := resource.Parse(obj, resource.Options{Now: now, AllowPlainHTTP: true}); len(faults) > 0 {
		t.Error(faults)
	}
}

func TestRepositoriesMayBeReachedBySSH(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"ssh://git@git.example.com:2222/apps/fleet", "git@git.example.com:apps/fleet.git",
		"https://git.example.com/apps/fleet.git"} {
		parse(t, edited(t, "spec.promotion.strategy.pull-request.url", address))
	}
}

func TestOptionsAreRead(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		path, value string
		got         func(resource.Pipeline) any
		want        any
	}{
		{"spec.environments.2.minReady", `51%`, func(p resource.Pipeline) any { return p.Spec.Environments[2].Need }, 2},
		{"spec.environments.1.soak", `1d12h`, func(p resource.Pipeline) any { return p.Spec.Environments[1].Soak }, 36 * time.Hour},
		{"spec.environments.2.dependsOn", `[dev]`, func(p resource.Pipeline) any { return p.Spec.Environments[2].DependsOn },
			[]promotion.EnvName{"dev"}},
		{"spec.environments.2.dependsOnMode", `Any`, func(p resource.Pipeline) any { return p.Spec.Environments[2].Any }, true},
		{"spec.environments.2.approval", `{by: [ana, "group:ops", "key:apps/keys"]}`,
			func(p resource.Pipeline) any { return p.Spec.Environments[2].Approval },
			&admission.Approval{Count: 1, By: []string{"ana", "group:ops", "key:apps/keys"}}},
		{"spec.environments.2.rollback", `{mode: Automatic}`, func(p resource.Pipeline) any { return p.Spec.Environments[2].Rollback },
			&promotion.Rollback{After: 5 * time.Minute}},
		{"spec.environments.2.rollback", `{mode: "Off", after: 1m}`,
			func(p resource.Pipeline) any { return p.Spec.Environments[2].Rollback },
			(*promotion.Rollback)(nil)},
		{"spec.environments.2.hold", `{reason: audit, until: "2026-04-01T00:00:00+02:00", revision: "1"}`,
			func(p resource.Pipeline) any { return p.Spec.Environments[2].Hold.Until.UTC() },
			time.Date(2026, 3, 31, 22, 0, 0, 0, time.UTC)},
		{"spec.environments.1.autoMerge.requireChecks", `false`,
			func(p resource.Pipeline) any { return p.Spec.Environments[1].AutoMerge.IgnoreChecks }, true},
		{"spec.versionSource", `{type: label, key: app.kubernetes.io/version}`, func(p resource.Pipeline) any { return p.Spec.Source },
			promotion.Source{Type: promotion.SourceLabel, Key: "app.kubernetes.io/version"}},
		{"spec.notify", `[{"on": [Failed], webhook: {url: "https://a/b", format: slack, secretRef: {name: k}}}]`,
			func(p resource.Pipeline) any { return p.Notify }, []resource.Sink{{On: []v1alpha1.Occasion{v1alpha1.OnFailed},
				Sink: promotion.Sink{URL: "https://a/b", Secret: "k", Format: "slack"}}}},
		{"spec.windows", `[{kind: Deny, schedule: "@daily", duration: 1h}]`,
			func(p resource.Pipeline) any { return len(p.Spec.Environments[2].Windows) }, 2},
		{"spec.unknown", `{a: 1}`, func(p resource.Pipeline) any { return p.Spec.Suspend }, false},
		{"spec.suspend", `true`, func(p resource.Pipeline) any { return p.Spec.Suspend }, true},
	} {
		t.Run(c.path+" "+c.value, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(c.want, c.got(parse(t, edited(t, c.path, from(t, c.value))))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestSinksReceiveTheirOccasions(t *testing.T) {
	t.Parallel()
	some := resource.Sink{On: []v1alpha1.Occasion{v1alpha1.OnFailed}}
	if !some.Wants(v1alpha1.OnFailed) || some.Wants(v1alpha1.OnStarted) || !(resource.Sink{}).Wants(v1alpha1.OnStarted) {
		t.Error("got another choice")
	}
}
