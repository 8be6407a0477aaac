package build_test

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/document"
)

// schemaOf returns the JSON Schema of the format.
func schemaOf(t *testing.T) (schema any) {
	t.Helper()
	text, err := build.Schema()
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &schema); err != nil {
		t.Fatal(err)
	}
	return schema
}

func TestSchemaAgreesWithTheParser(t *testing.T) {
	t.Parallel()
	schema := schemaOf(t)
	for name, test := range faults {
		if strings.Contains(test.file, "${") {
			continue // the schema cannot check the value of a variable
		}
		err := check(schema, plain(tree(t, test.file)), "")
		switch {
		case test.schema && err == "":
			t.Errorf("%s: the parser refuses the file and the schema takes it", name)
		case !test.schema && err != "":
			t.Errorf("%s: the schema refuses the file: %s", name, err)
		}
	}
}

// TestTheSchemaTakesWhatVariablesDecide, as the parser does, and conditions with capitals.
func TestTheSchemaTakesWhatVariablesDecide(t *testing.T) {
	t.Parallel()
	schema := schemaOf(t)
	for text, want := range map[string]bool{
		`s: {runs-if: Always, a: {container: {image: i, cmds: [x]}}}`:                         true,
		`s: {runs-if: "${COND}", a: {container: {image: i, cmds: [x]}}}`:                      true,
		`s: {runs-if: never, a: {container: {image: i, cmds: [x]}}}`:                          false,
		`s: {a: {docker: {file: Dockerfile, tag: t, push: "${push}", name: n, registry: r}}}`: true,
		`s: {a: {docker: {file: Dockerfile, tag: t, push: 3, name: n, registry: r}}}`:         false,
		`s: {a: {container: {image: i, os: "${os}", cmds: [x]}}}`:                             true,
		`s: {a: {container: {image: i, cmds: "${c}"}}}`:                                       false,
		`s: {a: {container: {image: i, cmds: ["${c}"]}}}`:                                     true,
		`s: {a: {container: {image: i, cmds: [x]}, artifacts: ["${a}"]}}`:                     true,
		`s: {a: {container: {image: i, cmds: [x]}, artifacts: "${a}"}}`:                       false,
	} {
		document := tree(t, text)
		_, problems := build.Parse(document)
		if taken := problems.Err() == nil; taken != want {
			t.Errorf("%s: the parser says %v", text, problems)
		}
		if err := check(schema, plain(document), ""); (err == "") != want {
			t.Errorf("%s: the schema says %q", text, err)
		}
	}
}

// plain returns a document as encoding/json would decode it.
func plain(n *document.Node) any {
	switch n.Kind {
	case document.Map:
		m := map[string]any{}
		for _, f := range n.Fields {
			m[f.Key] = plain(f.Value)
		}
		return m
	case document.List:
		l := []any{}
		for _, item := range n.Items {
			l = append(l, plain(item))
		}
		return l
	case document.Bool:
		return strings.EqualFold(n.Text, "true")
	case document.Int, document.Float:
		return json.Number(n.Text)
	case document.Null:
		return nil
	}
	return n.Text
}

// check returns the part of JSON Schema that Schema uses; "" when the value fits.
func check(schema, value any, at string) string {
	if allowed, ok := schema.(bool); ok {
		if !allowed {
			return at + ": not allowed"
		}
		return ""
	}
	s := schema.(map[string]any)
	if types, ok := s["type"]; ok && !hasType(types, value) {
		return at + ": type"
	}
	if enum, ok := s["enum"].([]any); ok && !contains(enum, value) {
		return at + ": enum"
	}
	for _, word := range []string{"anyOf", "oneOf"} {
		if some, ok := s[word].([]any); ok {
			fits := 0
			for _, one := range some {
				if check(one, value, at) == "" {
					fits++
				}
			}
			if fits == 0 || word == "oneOf" && fits > 1 {
				return at + ": " + word
			}
		}
	}
	switch v := value.(type) {
	case string:
		if pattern, ok := s["pattern"].(string); ok && !regexp.MustCompile(pattern).MatchString(v) {
			return at + ": pattern"
		}
		if least, ok := s["minLength"].(float64); ok && len(v) < int(least) {
			return at + ": minLength"
		}
	case []any:
		if least, ok := s["minItems"].(float64); ok && len(v) < int(least) {
			return at + ": minItems"
		}
		for _, item := range v {
			if items, ok := s["items"]; ok {
				if err := check(items, item, at+"[]"); err != "" {
					return err
				}
			}
		}
	case map[string]any:
		return checkObject(s, v, at)
	}
	return ""
}

func checkObject(s map[string]any, v map[string]any, at string) string {
	if least, ok := s["minProperties"].(float64); ok && len(v) < int(least) {
		return at + ": minProperties"
	}
	if required, ok := s["required"].([]any); ok {
		for _, key := range required {
			if _, there := v[key.(string)]; !there {
				return at + ": required " + key.(string)
			}
		}
	}
	properties, _ := s["properties"].(map[string]any)
	for key, value := range v {
		schema, known := properties[key]
		if !known {
			schema, known = s["additionalProperties"]
		}
		if known {
			if err := check(schema, value, at+"/"+key); err != "" {
				return err
			}
		}
	}
	return ""
}

func hasType(types, value any) bool {
	if name, ok := types.(string); ok {
		types = []any{name}
	}
	for _, name := range types.([]any) {
		var fits bool
		switch value.(type) {
		case nil:
			fits = name == "null"
		case bool:
			fits = name == "boolean"
		case json.Number:
			fits = name == "number"
		case string:
			fits = name == "string"
		case []any:
			fits = name == "array"
		case map[string]any:
			fits = name == "object"
		}
		if fits {
			return true
		}
	}
	return false
}

func contains(list []any, value any) bool {
	for _, item := range list {
		if item == value {
			return true
		}
	}
	return false
}
