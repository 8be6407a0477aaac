package build

import (
	"io"
	"path"
	"slices"
	"strings"

	"github.com/waybill-dev/waybill/internal/document"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/testresult"
)

// TestRules selects the files of a step's workspace that report about its tests.
type TestRules struct {
	JUnit    []string `json:"junit,omitempty"` // globs, as in ArtifactRule
	TRX      []string `json:"trx,omitempty"`
	Required bool     `json:"required,omitempty"` // the step fails if no file matches
}

// Globs lists all globs.
func (t *TestRules) Globs() []string {
	if t == nil {
		return nil
	}
	return slices.Concat(t.JUnit, t.TRX)
}

// TestSource is a file that reports about tests, for a sink.
type TestSource struct {
	Name   string // its path from the root of the workspace
	Format testresult.Format
	Open   func() (io.ReadCloser, error)
}

// CollectTests decides which of a workspace's files (slash-separated, relative)
// report about tests, sorted by name, and which globs match none. A file that
// several globs match is taken by the first.
func CollectTests(rules *TestRules, files []string) (found []TestSource, unmatched []string) {
	taken := map[string]bool{}
	for i, glob := range rules.Globs() {
		format, matches := testresult.JUnit, false
		if i >= len(rules.JUnit) {
			format = testresult.TRX
		}
		for _, f := range files {
			if !MatchGlob(glob, f) {
				continue
			}
			matches = true
			if !taken[f] {
				taken[f] = true
				found = append(found, TestSource{Name: f, Format: format})
			}
		}
		if !matches {
			unmatched = append(unmatched, glob)
		}
	}
	slices.SortFunc(found, func(a, b TestSource) int { return strings.Compare(a.Name, b.Name) })
	return found, unmatched
}

// testTable returns the keys of test-results.
func testTable() []document.Key {
	return []document.Key{
		{Name: "junit", Shape: document.Texts, Help: "Globs of files in JUnit XML, which nearly all test programs can write."},
		{Name: "trx", Shape: document.Texts, Help: "Globs of files in TRX, the format of dotnet test."},
		{Name: "required", Shape: document.Flag, Default: "false", Help: "The step fails if no file matches."},
	}
}

// testRules reads test-results. A list that is there must not be empty, and one must be there.
func (r *reader) testRules(f *document.Field, scope string) *TestRules {
	rules := &TestRules{Required: f.Value.Get("required") != nil && !isFalse(f.Value.Get("required"))}
	given := false
	for name, globs := range map[string]*[]string{"junit": &rules.JUnit, "trx": &rules.TRX} {
		list := f.Value.Get(name)
		if list == nil {
			continue
		}
		given = true
		if list.Kind == document.List && len(list.Items) == 0 {
			r.Add(list, "field-empty", r.Join(scope, name), "%q must not be empty", name)
		}
		for i, item := range list.Items {
			if !r.open(item) {
				r.glob(item, document.Index(r.Join(scope, name), i))
			}
			*globs = append(*globs, item.Text)
		}
	}
	if !given {
		r.Problems.Add(fault.Problem{Position: f.At, Code: "field-missing", Scope: scope,
			Text: "test-results names no files; want junit or trx, lists of globs"})
	}
	return rules
}

// testSchema completes the schema of test-results by rules that its table cannot express.
func testSchema(schema map[string]any) {
	var some []any
	for _, name := range []string{"junit", "trx"} {
		schema["properties"].(map[string]any)[name].(map[string]any)["minItems"] = 1
		some = append(some, map[string]any{"required": []string{name}})
	}
	schema["anyOf"] = some
}

// testAdvice returns the proposed changes of a step's test-results.
func testAdvice(step Step, scope string) (advice fault.Problems) {
	if step.Tests == nil {
		return nil
	}
	for _, glob := range step.Tests.JUnit {
		if strings.EqualFold(path.Ext(glob), ".trx") {
			advice = append(advice, fault.Problem{Position: step.At, Code: "test-format", Scope: scope + "/test-results", Warning: true,
				Text: glob + " is read as JUnit; list it under trx"})
		}
	}
	return advice
}
