// Package kube_test proves the promises of the definitions below: they accept every object that those of
// the original controllers accept, they agree with the Go types, and the page documents them.
package kube_test

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	clusters "github.com/waybill-dev/waybill/api/kube/gitops/v1alpha1"
	pipelines "github.com/waybill-dev/waybill/api/kube/v1alpha1"
)

// node is a value of a definition.
type node = map[string]any

// parse reads a definition.
func parse(t *testing.T, text []byte) (n node) {
	t.Helper()
	if err := yaml.UnmarshalStrict(text, &n); err != nil {
		t.Fatal(err)
	}
	return n
}

// original reads the definition of an original controller.
func original(t *testing.T, name string) node {
	t.Helper()
	text, err := os.ReadFile("testdata/" + name + ".yaml")
	if err != nil {
		t.Fatal(err)
	}
	return parse(t, text)
}

// at returns the value at a path; nil if there is none.
func at(n any, path ...any) any {
	for _, step := range path {
		switch step := step.(type) {
		case string:
			m, _ := n.(node)
			n = m[step]
		case int:
			list, _ := n.([]any)
			if step >= len(list) {
				return nil
			}
			n = list[step]
		}
	}
	return n
}

// schema returns the schema of the only version of a definition.
func schema(definition node) node {
	s, _ := at(definition, "spec", "versions", 0, "schema", "openAPIV3Schema").(node)
	return s
}

func TestDefinitionsAreSupersetsOfTheOriginals(t *testing.T) {
	t.Parallel()
	for name, text := range map[string][]byte{"pipelines": pipelines.Definition, "gitopsclusters": clusters.Definition} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			old, now := original(t, name), parse(t, text)
			for _, path := range [][]any{{"metadata", "name"}, {"spec", "group"}, {"spec", "names"}, {"spec", "scope"},
				{"spec", "versions", 0, "name"}, {"spec", "versions", 0, "served"}, {"spec", "versions", 0, "storage"},
				{"spec", "versions", 0, "subresources"}} {
				if a, b := fmt.Sprint(at(old, path...)), fmt.Sprint(at(now, path...)); a != b {
					t.Errorf("%v: got %s, want %s", path, b, a)
				}
			}
			columns, _ := at(old, "spec", "versions", 0, "additionalPrinterColumns").([]any)
			for i, column := range columns {
				if got := at(now, "spec", "versions", 0, "additionalPrinterColumns", i); fmt.Sprint(got) != fmt.Sprint(column) {
					t.Errorf("column %d: got %v, want %v", i, got, column)
				}
			}
			for _, fault := range narrower(schema(old), schema(now), "") {
				t.Error(fault)
			}
		})
	}
}

func TestPipelinesHaveColumns(t *testing.T) {
	t.Parallel()
	columns, _ := at(parse(t, pipelines.Definition), "spec", "versions", 0, "additionalPrinterColumns").([]any)
	var names []string
	for _, c := range columns {
		names = append(names, fmt.Sprint(at(c, "name")))
	}
	want := []string{"App Kind", "App Name", "Age", "Ready", "Status", "Revision", "Waiting"}
	if !slices.Equal(names, want) {
		t.Errorf("got %q, want %q", names, want)
	}
}

// lower and upper are bounds that may only become lower, or higher.
var (
	lower = []string{"minimum", "minLength", "minItems", "minProperties"}
	upper = []string{"maximum", "maxLength", "maxItems", "maxProperties"}
	same  = []string{"pattern", "format", "x-kubernetes-list-type", "x-kubernetes-map-type", "uniqueItems", "multipleOf"}
)

// narrower lists the values that the old schema accepts and the new one refuses, drops or changes, as far as the words
// that the definitions use can show.
func narrower(old, now node, path string) (faults []string) {
	fault := func(format string, args ...any) { faults = append(faults, path+": "+fmt.Sprintf(format, args...)) }
	if now == nil {
		return []string{path + ": removed"}
	}
	if a, b := old["type"], now["type"]; a != b {
		fault("has type %v, had %v", b, a)
	}
	if a, b := fmt.Sprint(old["default"]), fmt.Sprint(now["default"]); a != b {
		fault("has default %s, had %s", b, a)
	}
	for _, name := range texts(now["required"]) {
		if !slices.Contains(texts(old["required"]), name) {
			fault("requires %s", name)
		}
	}
	if values := texts(now["enum"]); values != nil {
		if old["enum"] == nil {
			fault("is an enumeration")
		}
		for _, value := range texts(old["enum"]) {
			if !slices.Contains(values, value) {
				fault("refuses %s", value)
			}
		}
	}
	for _, rule := range rules(now) {
		if !slices.Contains(rules(old), rule) {
			fault("has the rule %s", rule)
		}
	}
	faults = append(faults, tighter(old, now, path)...)
	for _, field := range slices.Sorted(maps.Keys(fields(old))) {
		faults = append(faults, narrower(fields(old)[field], fields(now)[field], path+"."+field)...)
	}
	for _, inner := range []string{"items", "additionalProperties"} {
		if of, ok := old[inner].(node); ok {
			next, _ := now[inner].(node)
			faults = append(faults, narrower(of, next, path+"[]")...)
		}
	}
	return faults
}

// tighter lists bounds that the new schema adds or tightens.
func tighter(old, now node, path string) (faults []string) {
	for _, word := range slices.Concat(lower, upper, same) {
		a, had := old[word]
		b, has := now[word]
		x, _ := a.(float64)
		y, _ := b.(float64)
		switch {
		case !has:
		case !had, slices.Contains(lower, word) && y > x, slices.Contains(upper, word) && y < x,
			slices.Contains(same, word) && a != b:
			faults = append(faults, fmt.Sprintf("%s: %s is %v, was %v", path, word, b, a))
		}
	}
	return faults
}

// fields returns the fields of an object's schema.
func fields(s node) map[string]node {
	out := map[string]node{}
	properties, _ := s["properties"].(node)
	for name, field := range properties {
		out[name], _ = field.(node)
	}
	return out
}

func texts(list any) (out []string) {
	items, _ := list.([]any)
	for _, item := range items {
		out = append(out, fmt.Sprint(item))
	}
	return out
}

// rules returns the rules of a schema, without parentheses around them.
func rules(s node) (out []string) {
	items, _ := s["x-kubernetes-validations"].([]any)
	for _, item := range items {
		rule := fmt.Sprint(at(item, "rule"))
		if strings.HasPrefix(rule, "(") && strings.HasSuffix(rule, "))") {
			rule = rule[1 : len(rule)-1]
		}
		out = append(out, rule)
	}
	return out
}

// TestNarrowerSeesNarrowing breaks the comparison's promise in each way that it knows.
func TestNarrowerSeesNarrowing(t *testing.T) {
	t.Parallel()
	for change, want := range map[string]string{
		`{type: object, properties: {b: {type: array, items: {type: string}}}}`:                                                                     ".a: removed",
		`{type: object, properties: {a: {type: integer}, b: {type: array, items: {type: string}}}}`:                                                 ".a: has type integer, had string",
		`{type: object, required: [a], properties: {a: {type: string}, b: {type: array, items: {type: string}}}}`:                                   ": requires a",
		`{type: object, properties: {a: {type: string, enum: [x]}, b: {type: array, items: {type: string}}}}`:                                       ".a: is an enumeration",
		`{type: object, properties: {a: {type: string, maxLength: 3}, b: {type: array, items: {type: string}}}}`:                                    ".a: maxLength is 3",
		`{type: object, properties: {a: {type: string}, b: {type: array, items: {type: string, pattern: x}}}}`:                                      ".b[]: pattern is x",
		`{type: object, properties: {a: {type: string}, b: {type: array, items: {type: string}}}, default: {}}`:                                     ": has default map[], had <nil>",
		`{type: object, properties: {a: {type: string}, b: {type: array}}}`:                                                                         ".b[]: removed",
		`{type: object, x-kubernetes-validations: [{rule: has(self.a)}], properties: {a: {type: string}, b: {type: array, items: {type: string}}}}`: ": has the rule has(self.a)",
	} {
		old := parse(t, []byte(`{type: object, properties: {a: {type: string}, b: {type: array, items: {type: string}}}}`))
		got := narrower(old, parse(t, []byte(change)), "")
		if len(got) != 1 || !strings.HasPrefix(got[0], want) {
			t.Errorf("%s: got %q, want %q", change, got, want)
		}
	}
}
