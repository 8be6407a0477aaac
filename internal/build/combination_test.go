package build_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/internal/build"
)

// wantNoOptions fails the test if a value of the file is an option of a tool.
func wantNoOptions(t *testing.T, step build.PlanStep) {
	t.Helper()
	known := map[string]bool{"--install": false, "--force": false, "--insecure-skip-tls-verify": false,
		"--namespace": true, "--filename": true, "--repo": true, "--version": true, "--values": true, "--set": true} // true: a value follows
	argv := step.Spec.Argv
	if step.Type != "helm" && step.Type != "kubectl" {
		return
	}
	for i := 1; i < len(argv); i++ {
		value, ok := known[argv[i]]
		if !ok && strings.HasPrefix(argv[i], "-") {
			t.Errorf("%q has the option %q", argv, argv[i])
		}
		if value {
			i++
		}
	}
}

// TestCombinationsAndStepsHaveNamesOfTheirOwn: whichever comes first.
func TestCombinationsAndStepsHaveNamesOfTheirOwn(t *testing.T) {
	t.Parallel()
	matrix, plain := "  a: {matrix: {v: [1]}, "+ok[1:]+"\n", "  a (v=1): "+ok+"\n"
	for _, text := range []string{"s:\n" + matrix + plain, "s:\n" + plain + matrix} {
		file, problems := build.Parse(tree(t, text))
		if problems.Err() == nil {
			_, problems = build.MakePlan(file, build.Choice{})
		}
		if want := `the stage has two steps "a (v=1)"`; len(problems) != 1 || problems[0].Code != "name-clash" ||
			problems[0].Line != 3 || problems[0].Text != want {
			t.Errorf("%s: %v", text, problems)
		}
	}
}

// TestNamesAndNeedsThatMultiply: the growth of a small file by variables and matrices is bounded.
func TestNamesAndNeedsThatMultiply(t *testing.T) {
	t.Parallel()
	axis := "[" + strings.Repeat("a,", 200)[:399] + "]"
	for i := range 200 {
		axis = strings.Replace(axis, "a", fmt.Sprint(i), 1)
	}
	matrix := "{needs: [\"${x}\", \"${y}\"], matrix: {v: " + axis + "}, " + ok[1:]
	values := build.Variables{build.Texts("test",
		map[string]string{"x": "a", "y": "b", "control": "a\x1b[2J\nb", "long": strings.Repeat("y", 2000)})}
	for text, want := range map[string]string{
		"s:\n  a: {matrix: {v: [\"${long}\"]}, " + ok[1:]: "f:2:7: s/a/matrix: the name of a combination has 2008 bytes; at most 1000 are read",
		"s:\n  \"${long}\": {" + ok[1:]:                   "f:2:3: s: the name has 2000 bytes; at most 1000 are read",
		"s:\n  \"${control}\": {" + ok[1:]:                "f:2:3: s/a\x1b[2J\nb: the name \"a\\x1b[2J\\nb\" has a control character",
		"s:\n  a: " + matrix + "\n  b: " + matrix + "\n  c: " + matrix + "\n  d: " + matrix://
		"f:4:15: s/c (v=100)/needs[0]: the steps of the file need each other more than 200000 times, combinations of matrices included",
	} {
		file, problems := build.Parse(tree(t, text))
		if problems.Err() != nil {
			t.Fatal(problems)
		}
		_, problems = build.MakePlan(file, build.Choice{Variables: values})
		if got := fmt.Sprint(problems.Err()); got != want {
			t.Errorf("%s", got)
		}
	}
	file, _ := build.Parse(tree(t, "s:\n  a: "+matrix+"\n  b: "+matrix))
	_, problems := build.MakePlan(file, build.Choice{Variables: values})
	if text := problems.Err().Error(); len(problems) != 3 || len(text) > 10<<10 {
		t.Errorf("%d problems in %d bytes about circles", len(problems), len(text))
	}
}

// TestAFileCannotNameAnotherProject and so get the Secrets of that one, where the caller names the project.
func TestAFileCannotNameAnotherProject(t *testing.T) {
	t.Parallel()
	for name, file := range map[string]string{
		"an environment": "environments: {e: {PROJECT_ID: 7, WHARF_INSTANCE: other}}",
		"inputs": `inputs: [{name: PROJECT_ID, type: string, default: "7"}, {name: WHARF_INSTANCE, type: string, default: other}]` +
			"\nenvironments: {e: {x: 1}}",
	} {
		parsed, problems := build.Parse(tree(t, file+"\na: {x: {secrets: [TOKEN], container: {image: i, cmds: [x], secretName: db}}}"))
		if err := problems.Err(); err != nil {
			t.Fatal(err)
		}
		own := build.Variables{build.Texts("test", map[string]string{"PROJECT_ID": "3", "WHARF_INSTANCE": "waybill"})}
		for want, project := range map[string]build.Variables{"wharf-waybill-project-3": own, "wharf-other-project-7": nil} {
			plan, problems := build.MakePlan(parsed, build.Choice{Environment: "e", Variables: own, Project: project})
			if err := problems.Err(); err != nil {
				t.Fatal(err)
			}
			secrets := plan.Steps[0].Spec.Secrets
			if len(secrets) != 2 || !strings.HasPrefix(secrets[0].Object, want+"-secret") || !strings.HasPrefix(secrets[1].Object, want+"-secret") {
				t.Errorf("%s: %+v, want those of %s", name, secrets, want)
			}
		}
		if _, problems := build.MakePlan(parsed, build.Choice{Environment: "e",
			Project: build.Variables{}}); !strings.Contains(problems.Error(),
			"PROJECT_ID, a number, names the Secrets of the project, and has no value") {
			t.Errorf("%s: %v", name, problems)
		}
	}
}

func TestKeysOfAliasesAreNotStages(t *testing.T) {
	t.Parallel()
	file, problems := build.Parse(tree(t,
		"x-go: &go {image: \"${image}\", shell: /bin/sh}\ntest: {unit: {container: {<<: *go, image: i, cmds: [x]}}}\n"))
	if len(problems) > 0 || len(file.Stages) != 1 || file.Stages[0].Name != "test" {
		t.Errorf("stages %+v, problems %v", file.Stages, problems)
	}
	if step := file.Stages[0].Steps[0]; step.Type != "container" {
		t.Errorf("%+v", step)
	}
}
