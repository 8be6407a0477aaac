package build_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/build"
)

const inputsFile = `inputs:
- {name: log-level, type: string, default: info}
- {name: größe, type: number}
- {name: token, type: password}
- {name: url, type: string, default: "https://${token}@${log-level}"}
s:
  plain: {container: {image: i, cmds: ["echo $WAYBILL_INPUT_TOKENS"]}}
  named: {container: {image: i, cmds: ["echo $WAYBILL_INPUT_TOKEN"]}}
  other: {container: {image: i, cmds: [a, "curl \"$WAYBILL_INPUT_URL\""]}}
`

// TestInputsAreEnvironmentVariables: every step gets the values as they are, also those that mean something to a shell;
// passwords only the steps that name their variables, and never in the plan.
func TestInputsAreEnvironmentVariables(t *testing.T) {
	t.Parallel()
	file, problems := build.Parse(tree(t, inputsFile))
	if problems != nil {
		t.Fatal(problems)
	}
	plan, problems := build.MakePlan(file, build.Choice{Inputs: map[string]string{"log-level": "\"; touch x", "token": "hunter22"}})
	if problems != nil {
		t.Fatal(problems)
	}
	for i, secret := range [][]string{nil, {"WAYBILL_INPUT_TOKEN=hunter22"}, {`WAYBILL_INPUT_URL=https://hunter22@"; touch x`}} {
		if diff := cmp.Diff([]string{`WAYBILL_INPUT_LOG_LEVEL="; touch x`, "WAYBILL_INPUT_GR__E=0"}, plan.Steps[i].Spec.Environ); diff != "" {
			t.Errorf("step %d: %s", i, diff)
		}
		if diff := cmp.Diff(plan.Steps[i].Spec.Environ, plan.Steps[i].Clear().Spec.Environ); diff != "" {
			t.Errorf("step %d in clear: %s", i, diff)
		}
		if got := plan.Environ(i + 1); !slices.Equal(got, secret) {
			t.Errorf("the passwords of step %d are %q, want %q", i, got, secret)
		}
	}
	if problems := plan.SetSecrets(nil); problems != nil || len(plan.Environ(2)) != 1 {
		t.Errorf("beside secrets: %v, %v", plan.Environ(2), problems)
	}
	// The plan of the same inputs reuses steps that got no password; another value is another step.
	completed := func(int) string { return "" }
	again, _ := build.MakePlan(file, build.Choice{Inputs: map[string]string{"log-level": "\"; touch x", "token": "other"}})
	if diff := cmp.Diff(map[int]int{1: 1}, again.Reusable(plan.Earlier(completed)).Steps); diff != "" {
		t.Error(diff)
	}
	again, _ = build.MakePlan(file, build.Choice{Inputs: map[string]string{"log-level": "hush", "token": "hunter22"}})
	if same := again.Reusable(plan.Earlier(completed)).Steps; len(same) != 0 {
		t.Errorf("with another input these are reused: %v", same)
	}
	if got, want := again.Steps[0].Spec.Environ[0], "WAYBILL_INPUT_LOG_LEVEL=hush"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestInputsThatNoVariableCanHave: they are left out with a warning, and so is the second of two names that come to one.
func TestInputsThatNoVariableCanHave(t *testing.T) {
	t.Parallel()
	file, problems := build.Parse(tree(t, "inputs: [{name: a-b, type: string}, {name: a.b, type: string, default: second}, "+
		"{name: c, type: string}, {name: d, type: string}]\n"+
		"s: {t: {container: {image: i, cmds: [c]}}}\n"))
	if want := `f:1:37: warning: inputs: WAYBILL_INPUT_A_B has the value of the input "a-b", not of "a.b"`; problems.Error() != want {
		t.Errorf("got %v, want %s", problems, want)
	}
	plan, problems := build.MakePlan(file, build.Choice{Inputs: map[string]string{"c": strings.Repeat("x", 64<<10+1), "d": "a\x00b"}})
	if problems.Err() != nil || strings.Count(problems.Error(), "steps do not get WAYBILL_INPUT_") != 2 {
		t.Errorf("the problems are %v", problems)
	}
	if diff := cmp.Diff([]string{"WAYBILL_INPUT_A_B="}, plan.Steps[0].Spec.Environ); diff != "" {
		t.Error(diff)
	}
}

// TestAnInputThatNamesItselfIsRefused also where only its variable is used, which would be missing.
func TestAnInputThatNamesItselfIsRefused(t *testing.T) {
	t.Parallel()
	file, problems := build.Parse(tree(t,
		"inputs: [{name: a, type: string}, {name: b, type: string}]\ns: {t: {container: {image: i, cmds: ['echo $WAYBILL_INPUT_B']}}}\n"))
	if problems != nil {
		t.Fatal(problems)
	}
	_, problems = build.MakePlan(file, build.Choice{Inputs: map[string]string{"b": "x ${b}"}})
	if want := `f:1:35: inputs/1: the value of "b": these variables refer to each other in a circle: b (f:1:35) → b; ${%NAME%} is a literal ${NAME}`; problems.Err() == nil || problems.Error() != want {
		t.Errorf("got %v, want %s", problems, want)
	}
}

// TestInputsOfManyStepsAreBounded: each step has a copy of all values in the plan.
func TestInputsOfManyStepsAreBounded(t *testing.T) {
	t.Parallel()
	var steps strings.Builder
	for i := range 2000 {
		fmt.Fprintf(&steps, "  s%d: %s\n", i, ok)
	}
	for size, want := range map[int]string{
		10 << 10: "",
		20 << 10: "f:1:1: inputs: each of 2000 steps gets the values of the inputs, which come to more than 33554432 bytes in all",
	} {
		file, problems := build.Parse(tree(t, "inputs: [{name: a, type: string, default: "+strings.Repeat("x", size)+"}]\ns:\n"+steps.String()))
		if problems != nil {
			t.Fatal(problems)
		}
		if _, problems := build.MakePlan(file, build.Choice{}); problems.Error() != want {
			t.Errorf("%d bytes: %v", size, problems)
		}
	}
}
