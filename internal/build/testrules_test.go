package build_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/testresult"
)

// withTests returns a file whose only step has the value for test-results.
func withTests(value string) string {
	return "test: {a: {test-results: " + value + ", container: {image: i, cmds: [x]}}}"
}

func TestTestResultsAreChecked(t *testing.T) {
	t.Parallel()
	schema := schemaOf(t)
	for value, test := range map[string]struct {
		want   string
		schema bool // the schema refuses the file
	}{
		`{junit: ["out/*.xml"]}`:                             {"", false},
		`{junit: [a, b], trx: ["**/*.trx"], required: true}`: {"", false},
		`{trx: [a], required: FALSE}`:                        {"", false},
		`{junit: ["${x}"], required: "${y}"}`:                {"", false},
		`{junit: "${x}"}`:                                    {"f:1:34: test/a/test-results/junit: want a list of strings, found a string", true},
		`out/*.xml`:                                          {"f:1:26: test/a/test-results: want a mapping, found a string", true},
		`[a]`:                                                {"f:1:26: test/a/test-results: want a mapping, found a list", true},
		`{}`: {
			"f:1:12: test/a/test-results: test-results names no files; want junit or trx, lists of globs", true},
		`{required: true}`: {
			"f:1:12: test/a/test-results: test-results names no files; want junit or trx, lists of globs", true},
		`{junit: []}`:           {"f:1:34: test/a/test-results/junit: \"junit\" must not be empty", true},
		`{junit: [a], trx: []}`: {"f:1:44: test/a/test-results/trx: \"trx\" must not be empty", true},
		`{junit: out/*.xml}`:    {"f:1:34: test/a/test-results/junit: want a list of strings, found a string", true},
		`{junit: [1]}`: {
			"f:1:35: test/a/test-results/junit[0]: want a string, found a number; write \"1\" in quotes", true},
		`{junt: [a]}`: {
			"f:1:27: test/a/test-results: unknown key \"junt\" (did you mean \"junit\"?)", true},
		`{junit: [a], required: "yes"}`: {"f:1:49: test/a/test-results/required: want a boolean, found a string", true},
		`{junit: [../a], trx: ["[x", /y], required: true}`: {
			"f:1:35: test/a/test-results/junit[0]: \"../a\" leaves the workspace\n" +
				"f:1:48: test/a/test-results/trx[0]: \"[x\" is not a valid glob: a bracket or a backslash at its end is not closed\n" +
				"f:1:54: test/a/test-results/trx[1]: \"/y\" leaves the workspace", false},
	} {
		root := tree(t, withTests(value))
		_, problems := build.Parse(root)
		if diff := cmp.Diff(test.want, problems.Error()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", value, diff)
		}
		if err := check(schema, plain(root), ""); (err != "") != test.schema {
			t.Errorf("%s: the schema says %q", value, err)
		}
	}
}

func TestTestResultsArePlanned(t *testing.T) {
	t.Parallel()
	file, _ := build.Parse(tree(t, withTests(`{junit: ["${dir}/*.xml"], trx: [a], required: "${must}"}`)))
	variables := build.Variables{build.Texts("test", map[string]string{"dir": "out", "must": "true"})}
	plan, problems := build.MakePlan(file, build.Choice{Variables: variables})
	if problems.Err() != nil {
		t.Fatal(problems)
	}
	want := &build.TestRules{JUnit: []string{"out/*.xml"}, TRX: []string{"a"}, Required: true}
	if diff := cmp.Diff(want, plan.Steps[0].Tests); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"out/*.xml", "a"}, plan.Steps[0].Tests.Globs()); diff != "" {
		t.Error(diff)
	}

	for want, values := range map[string]map[string]string{
		`f:1:35: test/a/test-results/junit[0]: "../*.xml" leaves the workspace`: {"dir": "..", "must": "true"},
		`f:1:72: test/a/test-results/required: want a boolean, found a string`:  {"dir": "out", "must": "maybe"},
	} {
		_, problems = build.MakePlan(file, build.Choice{Variables: build.Variables{build.Texts("test", values)}})
		if diff := cmp.Diff(want, problems.Error()); diff != "" {
			t.Errorf("after substitution (-want +got):\n%s", diff)
		}
	}
}

func TestLintOfTestResults(t *testing.T) {
	t.Parallel()
	file, _ := build.Parse(tree(t, withTests(`{junit: [a/*.xml, b/*.TRX]}`)))
	const want = "f:1:8: warning: test/a/test-results: b/*.TRX is read as JUnit; list it under trx"
	if diff := cmp.Diff(want, file.Advice().Error()); diff != "" {
		t.Error(diff)
	}
}

func TestCollectTests(t *testing.T) {
	t.Parallel()
	rules := &build.TestRules{JUnit: []string{"out/*.xml", "out/u*.xml", "none/*"}, TRX: []string{"**/*.trx", "out/unit.xml", "*.trx"}}
	found, unmatched := build.CollectTests(rules, []string{"out/unit.xml", "b/c/d.trx", "go.mod", "out/a.xml"})
	var got []string
	for _, f := range found {
		got = append(got, f.Name+" "+string(f.Format))
	}
	if diff := cmp.Diff([]string{"b/c/d.trx trx", "out/a.xml junit", "out/unit.xml junit"}, got); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"none/*", "*.trx"}, unmatched); diff != "" {
		t.Error(diff)
	}
	if found, unmatched := build.CollectTests(nil, []string{"a"}); found != nil || unmatched != nil {
		t.Errorf("without rules: %v %v", found, unmatched)
	}
	if found, _ := build.CollectTests(&build.TestRules{TRX: []string{"a"}}, []string{"a"}); len(found) != 1 ||
		found[0].Format != testresult.TRX {
		t.Errorf("got %v", found)
	}
}
