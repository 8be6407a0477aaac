package osb

import (
	"fmt"
	"regexp"
	"strings"
)

// reference matches a text that a parameter of the service instance replaces.
var reference = regexp.MustCompile(`^\$\{parameters\.([A-Za-z0-9_-]+)\}$`)

// checkCredentials calls report for each text in a template that looks like a reference and is none, and for each
// parameter that the schema of provisions does not have.
func checkCredentials(value any, create *Schema, report func(text string)) {
	walk(value, func(text string) {
		switch name := reference.FindStringSubmatch(text); {
		case name == nil && strings.Contains(text, "${"):
			report(fmt.Sprintf("%q is not a reference: want a whole text such as ${parameters.name}", text))
		case name != nil && create.lacks(name[1]):
			report(fmt.Sprintf("the plan's schema has no parameter %q", name[1]))
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
	filled, _ := fill(template.values(), parameters.values())
	text, err := canonical(filled.(map[string]any))
	if err != nil {
		return Empty // the numbers of both were checked when they were read
	}
	return text
}

// fill returns a value with its references replaced, and whether it is there.
func fill(value any, parameters map[string]any) (any, bool) {
	switch v := value.(type) {
	case string:
		if name := reference.FindStringSubmatch(v); name != nil {
			given, ok := parameters[name[1]]
			return given, ok
		}
	case []any:
		list := []any{}
		for _, item := range v {
			if one, ok := fill(item, parameters); ok {
				list = append(list, one)
			}
		}
		return list, true
	case map[string]any:
		object := map[string]any{}
		for name, below := range v {
			if one, ok := fill(below, parameters); ok {
				object[name] = one
			}
		}
		return object, true
	}
	return value, true
}
