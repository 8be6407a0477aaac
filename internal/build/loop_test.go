package build_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/build"
)

const step = "test: {unit: {container: {image: x, cmds: [make]}}}\n"

func TestCirclesOfVariablesAreFoundInTheFile(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ text, want string }{
		"none": {"inputs: [{name: a, type: string, default: '${b} ${%a%} ${c}'}]\nenvironments: {e: {b: '${c}', c: x}}\n", ""},
		"in an environment": {"environments: {e: {c: 'x${ a }', b: '${c}', a: '${b}${b}'}, f: {a: x, b: '${c}'}}\n",
			"f:1:23: these variables refer to each other in a circle: a (f:1:48) → b (f:1:37) → c (f:1:23) → a"},
		"itself": {"environments: {e: {PATH: '${PATH}:/opt'}}\n",
			"f:1:26: these variables refer to each other in a circle: PATH (f:1:26) → PATH"},
		"an input hides one": {"inputs: [{name: a, type: string, default: x}]\nenvironments: {e: {a: '${b}', b: '${a}'}}\n", ""},
		"inputs, in both once": {
			"inputs: [{name: a, type: string, default: '${b}'}, {name: b, type: string, default: '${a}'}]\nenvironments: {e: {c: " +
				"'${a}'}, f: {c: '${b}'}}\n", "f:1:43: these variables refer to each other in a circle: a (f:1:43) → b (f:1:85) → a"},
		"through one": {"inputs: [{name: a, type: string, default: '${b}'}]\nenvironments: {e: {b: '${a}'}, f: {b: '-${a}'}}\n",
			"f:1:43: these variables refer to each other in a circle: a (f:1:43) → b (f:2:23) → a\n" +
				"f:1:43: these variables refer to each other in a circle: a (f:1:43) → b (f:2:39) → a"},
	} {
		file, problems := build.Parse(tree(t, c.text+step))
		if problems.Err() != nil {
			t.Fatalf("%s: %v", name, problems)
		}
		var got string
		if problems := file.Loops(); problems.Err() != nil {
			got = problems.Error()
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// TestACircleIsReportedOnce wherever it is used, and not where it is not.
func TestACircleIsReportedOnce(t *testing.T) {
	t.Parallel()
	text := "inputs: [{name: in, type: string, default: '${a}'}]\nenvironments: {e: {a: '${b}', b: '${a}', c: '${c}'}}\n" +
		"test: {unit: {container: {image: '${a}', cmds: ['${b}', '${in}', '${c}', '${c}']}}}\n"
	file, _ := build.Parse(tree(t, text))
	_, problems := build.MakePlan(file, build.Choice{Environment: "e"})
	want := []string{
		`f:1:10: inputs/0: the value of "in": these variables refer to each other in a circle: a (f:2:23) → b (f:2:34) → a; ${%NAME%} is a literal ${NAME}`,
		"f:3:66: test/unit/container/cmds[2]: these variables refer to each other in a circle: c (f:2:45) → c"}
	if diff := cmp.Diff(want, strings.Split(problems.Error(), "\n")); diff != "" {
		t.Error(diff)
	}
	if _, problems := build.MakePlan(file, build.Choice{Inputs: map[string]string{"in": "x"}}); problems.Err() != nil {
		t.Error(problems)
	}
}

// TestTheSearchForCirclesIsBounded: every environment leads to every input.
func TestTheSearchForCirclesIsBounded(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString("inputs:\n")
	const n = 5000
	for i := range n {
		fmt.Fprintf(&b, "- {name: i%d, type: string, default: '${i%d}'}\n", i, i+1)
	}
	b.WriteString("environments:\n")
	for i := range n {
		fmt.Fprintf(&b, "  e%d: {a: '${i0}'}\n", i)
	}
	file, problems := build.Parse(tree(t, b.String()+step))
	if problems.Err() != nil {
		t.Fatal(problems)
	}
	if visits := file.LoopVisits(); visits > 1_100_000 {
		t.Errorf("%d visits", visits)
	}
}
