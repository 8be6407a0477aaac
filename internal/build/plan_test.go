package build_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/goldentest"
)

// choice is a plan's choice as the archives hold it.
type choice struct {
	Environment string            `json:"environment"`
	Stages      []string          `json:"stages"`
	Inputs      map[string]string `json:"inputs"`
	Variables   map[string]string `json:"variables"`
}

// TestPlans compares the plans of testdata/plan/*.txtar: .wharf-ci.yml, choice.json, and
// the plan or the problems that follow.
func TestPlans(t *testing.T) {
	t.Parallel()
	archives, err := filepath.Glob("testdata/plan/*.txtar")
	if err != nil || len(archives) == 0 {
		t.Fatal("no plans", err)
	}
	for _, path := range archives {
		t.Run(filepath.Base(path), func(t *testing.T) {
			t.Parallel()
			archive, err := txtar.ParseFile(path)
			if err != nil {
				t.Fatal(err)
			}
			got := planOf(t, archive)
			if goldentest.Rewrite() {
				archive.Files = append(archive.Files[:2:2], txtar.File{Name: "plan", Data: got})
				if err := os.WriteFile(path, txtar.Format(archive), 0o600); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(string(archive.Files[2].Data), string(got)); diff != "" {
				t.Errorf("%s (-rewrite writes it):\n%s", path, diff)
			}
		})
	}
}

func planOf(t *testing.T, archive *txtar.Archive) []byte {
	t.Helper()
	var c choice
	if err := json.Unmarshal(archive.Files[1].Data, &c); err != nil {
		t.Fatal(err)
	}
	file, problems := build.Parse(tree(t, string(archive.Files[0].Data)))
	if problems.Err() != nil {
		t.Fatal(problems)
	}
	plan, problems := build.MakePlan(file, build.Choice{Environment: c.Environment, Stages: c.Stages, Inputs: c.Inputs, MaxParallel: 2,
		Variables: build.Variables{build.Texts("test", c.Variables)}})
	var out bytes.Buffer
	for _, p := range problems {
		out.WriteString(p.String() + "\n")
	}
	if plan != nil {
		text, err := json.MarshalIndent(plan, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		out.Write(append(text, '\n'))
	}
	return out.Bytes()
}

func TestDigestFollowsTheDefinitionOnly(t *testing.T) {
	t.Parallel()
	digest := func(file string, i int) string {
		parsed, _ := build.Parse(tree(t, file))
		plan, problems := build.MakePlan(parsed, build.Choice{})
		if problems.Err() != nil {
			t.Fatal(problems)
		}
		return plan.Steps[i].Digest
	}
	base := digest("s: {a: "+ok+"}", 0)
	if got := digest("r: {z: "+ok+"}\n\ns:\n\n  a: "+ok, 1); got != base {
		t.Error("a step that moved has another digest")
	}
	if got := digest("s: {a: {container: {image: i, cmds: [y]}}}", 0); got == base {
		t.Error("a step with another command has the same digest")
	}
}

func TestAPlanHidesPasswords(t *testing.T) {
	t.Parallel()
	file, problems := build.Parse(tree(t, `inputs:
  - {name: token, type: password, default: "of-${who}"}
  - {name: pin, type: password}
environments: {e: {url: "https://u:${token}@h"}}
s:
  a: {container: {image: "i-${token}", cmds: ["curl ${url}", "echo ${pin}"]}}
  b: {container: {image: i, cmds: [x]}}
`))
	if problems != nil {
		t.Fatal(problems)
	}
	plan, problems := build.MakePlan(file, build.Choice{Environment: "e", Inputs: map[string]string{"pin": "12"},
		Variables: build.Variables{build.Texts("test", map[string]string{"who": "ana"})}})
	want := "f:3:5: warning: inputs: the password \"pin\" has fewer than 4 bytes, so it stays in what steps print"
	if diff := cmp.Diff(want, problems.Error()); diff != "" {
		t.Error(diff)
	}
	text, err := json.Marshal(plan)
	if err != nil || bytes.Contains(text, []byte("of-")) || bytes.Contains(text, []byte("12\"")) {
		t.Errorf("stored as %s, %v", text, err)
	}
	a, b := plan.Steps[0], plan.Steps[1]
	if diff := cmp.Diff(build.Spec{Step: "s/a", Image: "i-***", OS: "linux",
		Argv: []string{"/bin/sh", "-c", "curl https://u:***@h\necho ***"}, Secret: true}, a.Spec); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"/bin/sh", "-c", "curl https://u:of-ana@h\necho 12"}, a.Clear().Spec.Argv); diff != "" ||
		!a.Clear().Spec.Secret {
		t.Error(diff)
	}
	if b.Spec.Secret || b.Clear().Spec.Secret {
		t.Error("a step without passwords is secret")
	}
	if diff := cmp.Diff([]string{"12", "of-${who}", "of-ana"}, plan.Secrets()); diff != "" {
		t.Error(diff)
	}
	var stored build.Plan
	if err := json.Unmarshal(text, &stored); err != nil || stored.Secrets() != nil || stored.Steps[0].Clear().Spec.Image != "i-***" {
		t.Errorf("read back as %+v, %v", stored, err)
	}
}

func TestProblemsHidePasswords(t *testing.T) {
	t.Parallel()
	for file, want := range map[string]string{
		`s: {a: {container: {image: i, cmds: [x], os: "${token}"}}}`:          `f:2:46: s/a/container/os: "***" is none of linux, windows`,
		`s: {a: {artifacts: ["${token}"], container: {image: i, cmds: [x]}}}`: `f:2:21: s/a/artifacts[0]: "***" leaves the workspace`,
	} {
		parsed, problems := build.Parse(tree(t, "inputs: [{name: token, type: password}]\n"+file))
		if problems != nil {
			t.Fatal(problems)
		}
		_, problems = build.MakePlan(parsed, build.Choice{Inputs: map[string]string{"token": "../hunter22"}})
		if diff := cmp.Diff(want, problems.Error()); diff != "" {
			t.Error(diff)
		}
	}
}

func TestADigestDoesNotDependOnPasswords(t *testing.T) {
	t.Parallel()
	parsed, _ := build.Parse(tree(t, "inputs: [{name: token, type: password}]\ns: {a: {container: {image: i, cmds: [\"${token}\"]}}}"))
	digests := map[string]bool{}
	for _, token := range []string{"hunter22", "hunter23"} {
		plan, problems := build.MakePlan(parsed, build.Choice{Inputs: map[string]string{"token": token}})
		if problems != nil {
			t.Fatal(problems)
		}
		digests[plan.Steps[0].Digest] = true
	}
	if len(digests) != 1 {
		t.Error("the stored digest would be a means to try passwords")
	}
}

// TestAMissingVariableNamesItsEnvironments: a name that other environments define is not simply unknown.
func TestAMissingVariableNamesItsEnvironments(t *testing.T) {
	t.Parallel()
	environments := "environments:\n  a: {x: 1, y: 1}\n  b: {x: 2}\n"
	step := "s: {t: {timeout: \"${%s}\", container: {image: i, cmds: [c]}}}\n"
	for _, c := range []struct{ environments, variable, selected, want string }{
		{environments, "x", "", `the variable "x" has no value but in environments a, b, which are not selected, so ${x} stays as it is`},
		{environments, "y", "b", `the variable "y" has no value but in environment a, which is not selected, so ${y} stays as it is`},
		{environments, "z", "b", `the variable "z" has no value, so ${z} stays as it is`},
		{environments + "  c: {x: 1}\n  d: {x: 1}\n  e: {x: 1}\n  f: {x: 1}\n", "x", "",
			"in environments a, b, c, d, e and 1 more, which are not selected"},
	} {
		file, problems := build.Parse(tree(t, c.environments+fmt.Sprintf(step, c.variable)))
		if problems.Err() != nil {
			t.Fatal(problems)
		}
		if _, problems = build.MakePlan(file, build.Choice{Environment: c.selected}); !strings.Contains(problems.Error(), c.want) {
			t.Errorf("%s in %q: %v, want %s", c.variable, c.selected, problems, c.want)
		}
	}
}

// TestStagesThatDoNotRunAreNotWarnedOf: a build without an environment does not warn about gaps in its stages; their
// faults count.
func TestStagesThatDoNotRunAreNotWarnedOf(t *testing.T) {
	t.Parallel()
	file, problems := build.Parse(tree(t, "environments: {prod: {ns: shop}}\ntest: {unit: {container: {image: \"${x}\", cmds: [a]}}}\n"+
		"deploy: {environments: [prod], apply: {kubectl: {file: a.yml, namespace: \"${ns}\", extra: b}}}\n"))
	if problems.Err() != nil {
		t.Fatal(problems)
	}
	_, problems = build.MakePlan(file, build.Choice{})
	if want := `f:2:34: warning: test/unit/container/image: the variable "x" has no value, so ${x} stays as it is`; problems.Error() != want {
		t.Errorf("%v, want %s", problems, want)
	}
	if _, problems = build.MakePlan(file, build.Choice{Strict: true}); !strings.Contains(problems.Error(),
		`deploy/apply/kubectl/namespace: the variable "ns" has no value but in environment prod, which is not selected; ${%ns%}`) {
		t.Errorf("strict: %v", problems)
	}
	if _, problems = build.MakePlan(file, build.Choice{Environment: "prod"}); !strings.Contains(problems.Error(),
		`deploy/apply/kubectl: unknown key "extra"`) {
		t.Errorf("prod: %v", problems)
	}
}

func TestStepsAreFoundByTheirIDs(t *testing.T) {
	t.Parallel()
	for _, ids := range [][]int{{}, {1, 2, 3}, {2, 3, 9}} {
		var p build.Plan
		for _, id := range ids {
			p.Steps = append(p.Steps, build.PlanStep{ID: id})
		}
		for id := -1; id < 12; id++ {
			step := p.Step(id)
			if slices.Contains(ids, id) != (step != nil) || step != nil && step.ID != id {
				t.Errorf("steps %v: step %d is %+v", ids, id, step)
			}
		}
	}
}
