package build_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/build"
)

// planOfFiles returns the plan of a file with the step s/a, which reads files.
func planOfFiles(t *testing.T, prefix, step string, choice build.Choice) *build.Plan {
	t.Helper()
	file, problems := build.Parse(tree(t, prefix+"s: {a: "+step+"}"))
	if err := problems.Err(); err != nil {
		t.Fatal(err)
	}
	plan, problems := build.MakePlan(file, choice)
	if err := problems.Err(); err != nil {
		t.Fatal(err)
	}
	return plan
}

// TestFilesChangeInTheirVariablesOnly: line ends, the last newline and all other text stay.
func TestFilesChangeInTheirVariablesOnly(t *testing.T) {
	t.Parallel()
	plan := planOfFiles(t, "", "{matrix: {n: [7]}, kubectl: {file: f}}", build.Choice{
		Variables: build.Variables{build.Texts("test", map[string]string{"x": "1", "deep": "<${x}>", "loop": "${loop}", "same": "${%same%}"})}})
	for text, want := range map[string]string{
		"":                           "",
		"a\r\nb\n\n":                 "a\r\nb\n\n",
		"${x}":                       "1",
		"\ta: ${ x }\r\n${deep}\x0b": "\ta: 1\r\n<1>\x0b",
		"${%x%} ${HOME} $x ${":       "${x} ${HOME} $x ${",
		"${matrix.n}":                "7",
		"${same}":                    "${same}",
	} {
		got, count, problems := plan.Steps[0].SubstituteFile("f", text)
		if got != want || problems != nil || (count > 0) != (got != text) {
			t.Errorf("%q is %q with %d, %v; want %q", text, got, count, problems, want)
		}
	}
	got, _, problems := plan.Steps[0].SubstituteFile("d/f.yml", "é: ${x}\n  ü: ${loop} ${x}\n")
	if diff := cmp.Diff("d/f.yml:2:6: these variables refer to each other in a circle: loop → loop",
		problems.Error()); diff != "" || got != "é: 1\n  ü: ${loop} ${x}\n" {
		t.Errorf("%q, %s", got, diff)
	}
}

// TestAFileIsBounded: values do not multiply without end.
func TestAFileIsBounded(t *testing.T) {
	t.Parallel()
	plan := planOfFiles(t, "", "{kubectl: {file: f}}",
		build.Choice{Variables: build.Variables{build.Texts("test", map[string]string{"x": strings.Repeat("x", 1<<20)})}})
	_, _, problems := plan.Steps[0].SubstituteFile("f", strings.Repeat("${x}\n", 9))
	if diff := cmp.Diff("f:8:1: its variables grow to more than 8388608 bytes", problems.Error()); diff != "" {
		t.Error(diff)
	}
}

// TestFilesUnderStrictVariables: a name without a value is an error at its place, but not a variable that only a
// shell can mean.
func TestFilesUnderStrictVariables(t *testing.T) {
	t.Parallel()
	plan := planOfFiles(t, "", "{kubectl: {file: f}}", build.Choice{Strict: true})
	problems := plan.Replace(1, "d/f.yml", "a: ${x:-1}\nb: ${%HOME%} ${HOME}\n${ home } ü ${b}")
	want := "d/f.yml:2:14: the variable \"HOME\" has no value; ${%HOME%} is the text ${HOME}\n" +
		"d/f.yml:3:1: the variable \"home\" has no value; ${%home%} is the text ${home}\n" +
		"d/f.yml:3:13: the variable \"b\" has no value; ${%b%} is the text ${b}"
	if diff := cmp.Diff(want, problems.Error()); diff != "" || problems[0].Code != "variable-undefined" {
		t.Error(diff)
	}
}

// TestReplacingIsAPartOfWhatAStepIs: a step whose files get other values is another, and one whose files change
// elsewhere is not.
func TestReplacingIsAPartOfWhatAStepIs(t *testing.T) {
	t.Parallel()
	digest := func(value, text string) string {
		plan := planOfFiles(t, "", "{kubectl: {file: f}}",
			build.Choice{Variables: build.Variables{build.Texts("test", map[string]string{"x": value, "other": value})}})
		if problems := plan.Replace(1, "f", text); problems != nil {
			t.Fatal(problems)
		}
		return plan.Steps[0].Digest
	}
	base := digest("1", "a: ${x}")
	if digest("1", "b: ${x} more") != base {
		t.Error("a changed text is another step")
	}
	if digest("2", "a: ${x}") == base {
		t.Error("another value is the same step")
	}
	if digest("1", "a") != digest("2", "a") {
		t.Error("variables that are not used count")
	}
}

// TestPasswordsInFiles: a copy has them; the plan, its digest and its faults do not.
func TestPasswordsInFiles(t *testing.T) {
	t.Parallel()
	digests := map[string]bool{}
	for _, password := range []string{"hunter22", "hunter23"} {
		choice := build.Choice{Inputs: map[string]string{"p": password}, Strict: true}
		plan := planOfFiles(t, "inputs: [{name: p, type: password}]\n", "{kubectl: {file: f}}", choice)
		problems := plan.Replace(1, "f", "a: ${p}")
		if strings.Contains(problems.Error(), "hunter") {
			t.Error(problems)
		}
		step := plan.Step(1)
		if got, _, _ := step.Clear().SubstituteFile("f", "a: ${p}"); got != "a: "+password {
			t.Errorf("%q", got)
		}
		if got, count, _ := step.SubstituteFile("f", "a: ${p}"); got != "a: ***" || count != 1 {
			t.Errorf("%q, %d", got, count)
		}
		if problems == nil {
			digests[step.Digest] = true
		}
		if diff := cmp.Diff([]build.Replacement{{Path: "f", Variables: 1}}, step.Replaces); diff != "" {
			t.Error(diff)
		}
	}
	if len(digests) != 1 {
		t.Error("the digest depends on the password")
	}
}

// TestAStepWithAPasswordInAFileRunsAgain: the password may be another than before.
func TestAStepWithAPasswordInAFileRunsAgain(t *testing.T) {
	t.Parallel()
	completed := func(int) string { return "" }
	for step, want := range map[string]int{
		"{kubectl: {file: f}}": 0,
		"{kubectl: {file: g}}": 1,
		"{services: [{name: a, image: i, env: {A: \"${p}\"}}], container: {image: i, cmds: [x]}}": 0,
	} {
		plan := func() *build.Plan {
			plan := planOfFiles(t, "inputs: [{name: p, type: password}]\n", step,
				build.Choice{Inputs: map[string]string{"p": "hunter22"}, Variables: build.Variables{build.Texts("test", map[string]string{"x": "1"})}})
			for _, file := range plan.Steps[0].Spec.Files {
				if problems := plan.Replace(1, file, map[string]string{"f": "${p}", "g": "${x}"}[file]); problems != nil {
					t.Fatal(problems)
				}
			}
			return plan
		}
		if got := plan().Reusable(plan().Earlier(completed)); len(got.Steps) != want {
			t.Errorf("%s: %v is reused", step, got)
		}
	}
}

func FuzzSubstituteFile(f *testing.F) {
	f.Add("a: ${a}\r\n", "${b}", "x")
	f.Add("${%a%} ${ a\n}", "1", "${%b%}")
	f.Fuzz(func(t *testing.T, text, a, b string) {
		variables := build.Variables{build.Texts("", map[string]string{"a": a, "b": b})}
		plan := planOfFiles(t, "", "{kubectl: {file: f}}", build.Choice{Variables: variables})
		got, count, problems := plan.Steps[0].SubstituteFile("f", text)
		want, _, err := build.Substitute(variables, text)
		if (err == nil) != (problems == nil) || err == nil && got != want {
			t.Errorf("%q is %q, %v; want %q, %v", text, got, problems, want, err)
		}
		if err == nil && count == 0 && got != text {
			t.Errorf("%q became %q, without a variable that was replaced", text, got)
		}
	})
}
