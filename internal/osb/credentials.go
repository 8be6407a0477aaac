package osb

import (
	"fmt"
	"regexp"
	"strings"
)

// reference matches a text that a parameter of the service instance, or a field of its context, replaces.
var reference = regexp.MustCompile(`^\$\{(parameters|context)\.([A-Za-z0-9_-]+)\}$`)

// The sources of references.
const (
	fromParameters = "parameters"
	fromContext    = "context"
)

// values holds the values of references by source and name. A text with another source is not a reference.
type values map[string]map[string]any

// of returns the value of a reference, and whether it is there; known is false for a text that is not a reference.
func (v values) of(text string) (value any, there, known bool) {
	name := reference.FindStringSubmatch(text)
	if name == nil || v[name[1]] == nil {
		return nil, false, false
	}
	value, there = v[name[1]][name[2]]
	return value, there, true
}

// checkReferences calls report for each text in a template that looks like a reference to one of the sources and is none, and for
// each parameter that the schema of provisions does not have.
func checkReferences(template any, sources values, create *Schema, report func(text string)) {
	walk(template, func(text string) {
		_, _, known := sources.of(text)
		switch name := reference.FindStringSubmatch(text); {
		case !known && strings.Contains(text, "${"):
			report(fmt.Sprintf("%q is not a reference: want a whole text such as ${parameters.name}", text))
		case known && name[1] == fromParameters && create.lacks(name[2]):
			report(fmt.Sprintf("the plan's schema has no parameter %q", name[2]))
		}
	})
}

// walk visits the texts in a value.
func walk(value any, visit func(text string)) {
	switch v := value.(type) {
	case string:
		visit(v)
	case []any:
		for _, item := range v {
			walk(item, visit)
		}
	case map[string]any:
		for _, below := range v {
			walk(below, visit)
		}
	}
}

// fillCredentials returns a template with the values of parameters. A reference to an absent parameter is left out.
func fillCredentials(template, parameters Canonical) Canonical {
	filled, _ := fill(template.values(), values{fromParameters: parameters.values()})
	text, err := canonical(filled.(map[string]any))
	if err != nil {
		return Empty // the numbers of both were checked when they were read
	}
	return text
}

// fill returns a value with its references replaced, and whether it is there.
func fill(value any, by values) (any, bool) {
	switch v := value.(type) {
	case string:
		if given, there, known := by.of(v); known {
			return given, there
		}
	case []any:
		list := []any{}
		for _, item := range v {
			if one, ok := fill(item, by); ok {
				list = append(list, one)
			}
		}
		return list, true
	case map[string]any:
		object := map[string]any{}
		for name, below := range v {
			if one, ok := fill(below, by); ok {
				object[name] = one
			}
		}
		return object, true
	}
	return value, true
}
