package build_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/document"
	"github.com/waybill-dev/waybill/internal/fault"
)

// plannedSpec returns the specification of a step of a stage s.
func plannedSpec(t *testing.T, step string, variables map[string]string) build.Spec {
	t.Helper()
	plan := plannedStep(t, step, variables)
	return plan.Steps[0].Spec
}

// plannedStep returns the plan of a file that has only the step s/a.
func plannedStep(t *testing.T, step string, variables map[string]string) *build.Plan {
	t.Helper()
	file, problems := build.Parse(tree(t, "s: {a: "+step+"}"))
	if err := problems.Err(); err != nil {
		t.Fatal(err)
	}
	plan, problems := build.MakePlan(file, build.Choice{Variables: build.Variables{build.Texts("test", variables)}})
	if err := problems.Err(); err != nil {
		t.Fatalf("%s: %v", step, err)
	}
	return plan
}

// shop has the variables that fields are by default.
func shop() map[string]string {
	return map[string]string{"REG_URL": "reg", "REPO_GROUP": "team", "REPO_NAME": "shop", "CHART_REPO": "https://charts/", "PROJECT_ID": "7"}
}

// TestDestinationsOfImages: the name of an image.
func TestDestinationsOfImages(t *testing.T) {
	t.Parallel()
	for fields, want := range map[string]string{
		``:             "reg/team/shop/a:t",
		`, name: shop`: "reg/team/shop:t",
		`, name: x, group: g, registry: "r:5000"`: "r:5000/g/shop/x:t",
		`, destination: "h/Big/Name"`:             "h/big/name:t",
		`, destination: "${REG_URL}/x"`:           "reg/x:t",
	} {
		spec := plannedSpec(t, "{docker: {file: f, tag: t"+fields+"}}", shop())
		if got := strings.Join(spec.Build.Destinations, " "); got != want {
			t.Errorf("%s: %s, want %s", fields, got, want)
		}
	}
	spec := plannedSpec(t, `{docker: {file: d/Dockerfile, tag: " a,,b , a"}}`, shop())
	if diff := cmp.Diff([]string{"reg/team/shop/a:a", "reg/team/shop/a:b"}, spec.Build.Destinations); diff != "" {
		t.Error(diff)
	}
}

// TestCertificatesOfImages: a group that begins with default has them, unless the destination is written.
func TestCertificatesOfImages(t *testing.T) {
	t.Parallel()
	for fields, want := range map[string]bool{
		``:                                       false,
		`, group: Default-x`:                     true,
		`, group: default, destination: r/x`:     false,
		`, group: default, append-cert: false`:   false,
		`, destination: r/x, append-cert: true`:  true,
		`, group: x, append-cert: "${yes}"`:      true,
		`, group: default, append-cert: "${no}"`: false,
	} {
		variables := shop()
		variables["yes"], variables["no"] = "true", "false"
		if got := plannedSpec(t, "{docker: {file: f, tag: t"+fields+"}}", variables).Build.Certificates; got != want {
			t.Errorf("%s: %v, want %v", fields, got, want)
		}
	}
}

// TestSecretsOfTools: which Secret a tool gets.
func TestSecretsOfTools(t *testing.T) {
	t.Parallel()
	variables := shop()
	set := shop()
	set["REG_SECRET"], set["HELM_REG_SECRET"] = "from-variable", "charts"
	for _, c := range []struct {
		step      string
		variables map[string]string
		want      string
	}{
		{"{docker: {file: f, tag: t}}", variables, "gitlab-registry"},
		{"{docker: {file: f, tag: t}}", set, "from-variable"},
		{"{docker: {file: f, tag: t, secret: own}}", set, "own"},
		{"{docker: {file: f, tag: t, secret: \"\"}}", set, ""},
		{"{helm-package: {}}", variables, ""},
		{"{helm-package: {}}", set, "charts"},
		{"{helm-package: {secret: \"\"}}", set, ""},
	} {
		got := ""
		for _, m := range plannedSpec(t, c.step, c.variables).Mounts {
			if m.Kind == build.MountSecret {
				got = m.Object
			}
		}
		if got != c.want {
			t.Errorf("%s: the Secret %q, want %q", c.step, got, c.want)
		}
	}
}

// TestArgumentsOfTools: no value is taken for an option, for two values, or for a command.
func TestArgumentsOfTools(t *testing.T) {
	t.Parallel()
	for step, want := range map[string][]string{
		"{kubectl: {files: [-f, \"d/\", \"./x\"], file: \"a b\"}}": {"kubectl", "apply",
			"--filename", "./-f", "--filename", "d", "--filename", "x", "--filename", "a b"},
		"{kubectl: {file: f, action: delete, force: true, namespace: n}}": {"kubectl", "delete",
			"--namespace", "n", "--filename", "f", "--force"},
		"{helm: {chart: c, name: n, namespace: ns, helmVersion: v3.8.1}}": {"helm", "upgrade",
			"--install", "n", "c", "--repo", "https://charts/team", "--namespace", "ns"},
		"{helm: {chart: ./-c, name: n, namespace: ns, helmVersion: v3.8.1}}": {"helm", "upgrade",
			"--install", "n", "./-c", "--namespace", "ns"},
		"{helm: {chart: ./c, name: n, namespace: ns, helmVersion: v3.8.1}}": {"helm", "upgrade",
			"--install", "n", "./c", "--namespace", "ns"},
		"{helm: {chart: c, repo: \"oci://r/x/\", name: n, namespace: ns, helmVersion: v3.8.1}}": {"helm", "upgrade",
			"--install", "n", "oci://r/x/c", "--namespace", "ns"},
		"{helm: {chart: c, repo: r, name: n, namespace: ns, chartVersion: \">=1 <2\", helmVersion: v3.8.1, set: {b: 1.50, a: \"x,y\\\\z=1\", l: \"{a,b}\", m: \"{a},x={}\", t: true}}}": {"helm", "upgrade", "--install", "n", "c",
			"--repo", "r", "--namespace", "ns", "--version", ">=1 <2", "--set", "b=1.50", "--set", `a=x\,y\\z=1`, "--set",
			"l={a,b}", "--set", `m=\{a}\,x={}`, "--set", "t=true"},
		"{docker: {file: d/Dockerfile, tag: t, context: -x, args: [\"A=b,c=\\\"d\"], push: false}}": {
			"buildctl-daemonless.sh", "build", "--frontend", "dockerfile.v0", "--local", "context=./-x", "--local", "dockerfile=d",
			"--opt", "filename=Dockerfile", "--opt", "build-arg:A=b,c=\"d", "--output", "type=image,name=reg/team/shop/a:t,push=false"},
	} {
		if diff := cmp.Diff(want, plannedSpec(t, step, shop()).Argv); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", step, diff)
		}
	}
}

// TestInsecureRegistries: certificates are verified unless a variable turns that off.
func TestInsecureRegistries(t *testing.T) {
	t.Parallel()
	for step, words := range map[string][2]string{
		"{docker: {file: f, tag: t}}": {"type=image,name=reg/team/shop/a:t,push=true",
			"type=image,name=reg/team/shop/a:t,push=true,registry.insecure=true"},
		"{helm: {chart: c, name: n, namespace: n, helmVersion: v3.8.1}}": {"n", "--insecure-skip-tls-verify"},
		"{helm-package: {}}": {"false", "true"},
	} {
		for i, insecure := range []string{"false", "true"} {
			variables := shop()
			variables["REG_INSECURE"] = insecure
			argv := plannedSpec(t, step, variables).Argv
			if got := argv[len(argv)-1]; got != words[i] {
				t.Errorf("%s, %s: ends with %q, want %q", step, insecure, got, words[i])
			}
		}
	}
}

// TestNoPush: images stay where they are built.
func TestNoPush(t *testing.T) {
	t.Parallel()
	file, _ := build.Parse(tree(t, "s: {a: {docker: {file: f, tag: t}}}"))
	plan, problems := build.MakePlan(file, build.Choice{NoPush: true, Variables: build.Variables{build.Texts("test", shop())}})
	if problems != nil || plan.Steps[0].Spec.Build.Push {
		t.Errorf("%+v, %v", plan, problems)
	}
}

// TestAPasswordIsNotAnArgument: others can read the arguments of a process.
func TestAPasswordIsNotAnArgument(t *testing.T) {
	t.Parallel()
	for _, step := range []string{
		"{helm: {chart: c, name: n, namespace: n, helmVersion: v3, set: {a: \"${p}\"}}}",
		"{docker: {file: f, tag: t, args: [\"A=${p}\"]}}",
		"{services: [{name: a, image: i, cmds: [\"${p}\"]}], container: {image: i, cmds: [x]}}",
	} {
		file, _ := build.Parse(tree(t, "inputs: [{name: p, type: password}]\ns: {a: "+step+"}"))
		_, problems := build.MakePlan(file, build.Choice{Inputs: map[string]string{"p": "hunter22"},
			Variables: build.Variables{build.Texts("test", shop())}})
		if err := problems.Err(); err == nil || !strings.Contains(err.Error(),
			"f:2:5: s/a: a password must not be an argument") || strings.Contains(err.Error(), "hunter") {
			t.Errorf("%s: %v", step, err)
		}
	}
}

// TestSecretsOfAProject: the keys of a Secret are environment variables, from a file without a cluster.
func TestSecretsOfAProject(t *testing.T) {
	t.Parallel()
	plan := plannedStep(t, "{secrets: [TOKEN], container: {image: i, cmds: [x], secretName: npm}}", shop())
	plan.Steps = append(plan.Steps, plannedStep(t, "{docker: {file: f, tag: t, secretName: npm, secretArgs: [ARG=key]}}", shop()).Steps...)
	plan.Steps[1].ID = 2
	if diff := cmp.Diff([]build.SecretKeys{{Object: "wharf-local-project-7-secretname-npm", Local: "npm"},
		{Object: "wharf-local-project-7-secrets", Key: "TOKEN", Name: "TOKEN", Local: "default"}},
		plan.Steps[0].Spec.Secrets); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"default", "npm"}, plan.SecretFiles()); diff != "" {
		t.Error(diff)
	}
	left := plannedStep(t, "{secrets: [TOKEN], container: {image: i, cmds: [x], secretName: npm}}", shop())
	left.LeaveSecrets()
	if files, problems := left.SecretFiles(), left.SetSecrets(nil); len(files) > 0 || problems != nil {
		t.Errorf("left to the cluster: %q, %v", files, problems)
	}
	problems := plan.SetSecrets(nil)
	if diff := cmp.Diff("f:1:5: s/a: the step has a secret without a value; put NAME=… into npm.env of the folder of secrets (--secrets)\n"+
		"f:1:5: s/a: the step has a secret without a value; put key=… into npm.env of the folder of secrets (--secrets)\n"+
		"f:1:19: s/a/secrets: the secret TOKEN has no value; set WAYBILL_SECRET_TOKEN, or put TOKEN=… into default.env of the "+
		"folder of secrets (--secrets)", problems.Error()); diff != "" {
		t.Error(diff)
	}
	if problems := plan.SetSecrets(map[string]map[string]string{"default": {"TOKEN": "token"},
		"npm": {"key": "value", "b": "x1", "not a name": "y"}}); problems.Err() != nil || len(problems) != 1 {
		t.Error(problems)
	}
	if diff := cmp.Diff([][]string{{"TOKEN=token", "b=x1", "key=value"}, {"WAYBILL_ARG_ARG=value"}},
		[][]string{plan.Environ(1), plan.Environ(2)}); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"token", "x1", "value"}, plan.Secrets()); diff != "" {
		t.Error(diff)
	}
	if text, err := json.Marshal(plan); err != nil || strings.Contains(string(text), "value\"") {
		t.Errorf("stored: %s, %v", text, err)
	}
}

// TestQuantities reads the amounts of Kubernetes, rounded up.
func TestQuantities(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][2]int64{
		"1": {1000, 1}, "0.5": {500, 1}, ".5": {500, 1}, "1.": {1000, 1}, "500m": {500, 1}, "1500u": {2, 1}, "1n": {1, 1},
		"+2": {2000, 2}, "1e3": {1000000, 1000}, "1E1": {10000, 10},
		"1k": {1000000, 1000}, "1Ki": {0, 1024}, "1.5Gi": {0, 3 << 29}, "1M": {0, 1e6}, "2Ti": {0, 2 << 40}, "1Pi": {0, 1 << 50}, "1G": {0, 1e9},
	} {
		for i, resource := range []string{"cpu", "memory"} {
			file, problems := build.Parse(tree(t, "s: {a: {resources: {limits: {"+resource+": \""+text+"\"}}, container: {image: i, cmds: [x]}}}"))
			got := file.Stages[0].Steps[0].Spec.Limits
			if value := max(got.CPU, got.Memory); value != want[i] || (problems.Err() != nil) != (want[i] == 0) {
				t.Errorf("%s %s: %d, %v, want %d", resource, text, value, problems, want[i])
			}
		}
	}
	for _, text := range []string{"", "-1", "0", "0n", "1 Gi", "1gi", "1.2.3", "1e999", "e3", "1ki",
		"99999999999999999999", "0x10", "NaN", "inf", "2Pi"} {
		file, problems := build.Parse(tree(t, "s: {a: {resources: {limits: {memory: \""+text+"\"}}, container: {image: i, cmds: [x]}}}"))
		if problems.Err() == nil {
			t.Errorf("%q is %+v", text, file.Stages[0].Steps[0].Spec.Limits)
		}
	}
}

// TestFieldsMayBeVariables: a field whose value is a variable is the same as one in which the value is written.
func TestFieldsMayBeVariables(t *testing.T) {
	t.Parallel()
	for _, step := range []string{
		"{container: {image: i, cmds: [x, y], os: windows, shell: bash, secretName: s, serviceAccount: a, certificatesMountPath: /c}}",
		"{docker: {file: f, tag: \"a,b\", context: c, destination: r/x, secret: s, append-cert: true, push: false, args: " +
			"[A=b], secretName: s, secretArgs: [A=b]}}",
		"{docker: {file: f, tag: t, name: n, group: g, registry: r}}",
		"{helm: {chart: c, name: n, namespace: ns, repo: r, set: {a: 1, b: x, c: true, d: 1.50}, files: [a, b], chartVersion: " +
			"\"1\", helmVersion: v3, cluster: c, secret: s}}",
		"{helm-package: {version: \"1\", chart-path: c, destination: \"oci://x\", secret: s}}",
		"{kubectl: {files: [a, b], file: c, namespace: n, action: delete, force: true, cluster: c}}",
		"{nuget-package: {version: \"1\", project-path: p, repo: r, skip-duplicate: true, certificatesMountPath: /c}}",
		"{services: [{name: a, image: i, env: {A: 1}, cmds: [x], ports: [80], ready: 5s}], resources: {requests: {cpu: 1, " +
			"memory: 1Gi}, limits: {cpu: 2, ephemeral-storage: 5G}}, container: {image: i, cmds: [x]}}",
	} {
		literal := plannedSpec(t, step, shop())
		root := tree(t, "s: {a: "+step+"}")
		source := build.Texts("test", shop())
		makeVariables(root, source)
		file, problems := build.Parse(root)
		if err := problems.Err(); err != nil {
			t.Errorf("%s: %v", step, err)
			continue
		}
		plan, problems := build.MakePlan(file, build.Choice{Variables: build.Variables{source}})
		if err := problems.Err(); err != nil {
			t.Errorf("%s: %v", step, err)
			continue
		}
		if diff := cmp.Diff(literal, plan.Steps[0].Spec); diff != "" {
			t.Errorf("%s: (-written +variable)\n%s", step, diff)
		}
	}
}

// makeVariables puts a variable of its own in the place of each scalar.
func makeVariables(n *document.Node, source build.Source) {
	for _, item := range n.Items {
		makeVariables(item, source)
	}
	for _, f := range n.Fields {
		makeVariables(f.Value, source)
	}
	if n.Kind != document.List && n.Kind != document.Map {
		name := fmt.Sprintf("v%d", len(source.Values))
		source.Values[name] = build.Value{Text: n.Text, Kind: n.Kind}
		n.Kind, n.Text = document.String, "${"+name+"}"
	}
}

// TestAdviceAboutHelm: earlier versions took the files of values in the other order.
func TestAdviceAboutHelm(t *testing.T) {
	t.Parallel()
	for files, want := range map[string]string{"[a]": "",
		"[a, b]": "f:1:5: warning: s/a: of a value in several files the last one wins; where the first one did, turn the list around"} {
		file, _ := build.Parse(tree(t, "s: {a: {helm: {chart: c, name: n, namespace: n, files: "+files+"}}}"))
		if diff := cmp.Diff(want, file.Advice().Error()); diff != "" {
			t.Error(diff)
		}
	}
}

// TestListsOfAStepAreBounded: each item costs something for every file, or a container.
func TestListsOfAStepAreBounded(t *testing.T) {
	t.Parallel()
	repeated := func(n int, item string) string { return "[" + strings.Repeat(item+", ", n) + "]" }
	services := ""
	for i := range 17 {
		services += fmt.Sprintf("{name: s%d, image: i}, ", i)
	}
	for want, fields := range map[string][2]string{
		"a step has at most 16 services": {"services: [" + services + "]", "services: [{name: a, image: i}]"},
		"a service has at most 64 ports": {"services: [{name: a, image: i, ports: " + repeated(65, "80") + "}]",
			"services: [{name: a, image: i, ports: " + repeated(64, "80") + "}]"},
		"a step has at most 256 artifacts": {"artifacts: " + repeated(257, "a"), "artifacts: " + repeated(256, "a")},
		"a step has at most 32 caches": {"cache: " + repeated(33, "{key: k, paths: [p]}"),
			"cache: " + repeated(32, "{key: k, paths: [p]}")},
		"a cache has at most 64 paths": {"cache: [{key: k, paths: " + repeated(65, "p") + "}]",
			"cache: [{key: k, paths: " + repeated(64, "p") + "}]"},
		"a cache has at most 64 restore keys": {"cache: [{key: k, paths: [p], restore: " + repeated(65, "r") + "}]",
			"cache: [{key: k, paths: [p], restore: " + repeated(64, "r") + "}]"},
	} {
		parse := func(fields string) fault.Problems {
			_, problems := build.Parse(tree(t, "s: {a: {"+fields+", container: {image: i, cmds: [x]}}}"))
			return problems
		}
		if problems := parse(fields[0]); len(problems) != 1 || problems[0].Code != "too-large" || !strings.Contains(problems[0].Text, want) {
			t.Errorf("%v, want %s", problems, want)
		}
		if problems := parse(fields[1]); len(problems) > 0 {
			t.Errorf("%s: fewer are refused: %v", want, problems)
		}
	}
}

// TestServicesOfAPlan: the services of steps.
func TestServicesOfAPlan(t *testing.T) {
	t.Parallel()
	spec := plannedSpec(t,
		`{services: [{name: "${n}", image: "pg:${v}", env: {A: "${n}", B: 1.50}, cmds: [a, b], ports: ["${p}"], ready: "${r}"}, {name: c, image: i, ports: [1]}, {name: d, image: i}], container: {image: i, cmds: [x]}}`,
		map[string]string{"n": "db", "v": "18", "p": "5432", "r": "90s"})
	text, err := json.Marshal(spec.Services)
	if err != nil {
		t.Fatal(err)
	}
	want := `[{"name":"db","image":"pg:18","argv":["/bin/sh","-c","a\nb"],"environ":["A=db","B=1.50"],"ports":[5432],"ready":90000000000},` +
		`{"name":"c","image":"i","ports":[1],"ready":60000000000},{"name":"d","image":"i"}]`
	if diff := cmp.Diff(want, string(text)); diff != "" {
		t.Error(diff)
	}
}
