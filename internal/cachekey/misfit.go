package cachekey

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Misfit is the error of a value that rules do not fit. Such a value has no key: a key of its reduced form would be
// that of other values too.
type Misfit struct {
	At   string // JSON pointer of the place in the value
	Text string // the rule, and what is wrong
}

func (m *Misfit) Error() string { return m.Text }

// Check reports a value that the rules do not fit: a rule meets another type than its path names, or no include finds
// its path. An empty list is found; a null is absent.
func (r Rules) Check(value any) error {
	var includes []string
	found := false
	for _, one := range r.all {
		finds, misfit := one.find(value, one.steps, nil)
		if misfit != nil {
			return misfit
		}
		if one.list == Includes {
			includes, found = append(includes, one.path), found || finds
		}
	}
	if len(includes) > 0 && !found {
		return &Misfit{Text: fmt.Sprintf("none of %s is found: %s", Includes, strings.Join(includes, ", "))}
	}
	return nil
}

// find reports whether the rest of a rule's path leads anywhere in a value, which is at a place.
func (r rule) find(value any, rest []step, at []string) (found bool, misfit *Misfit) {
	if len(rest) == 0 || value == nil {
		return len(rest) == 0, nil
	}
	if !rest[0].each {
		object, ok := value.(map[string]any)
		if !ok {
			return false, r.misfit(at, "an object", value)
		}
		below, ok := object[rest[0].key]
		if !ok {
			return false, nil
		}
		return r.find(below, rest[1:], append(slices.Clip(at), rest[0].key))
	}
	list, ok := value.([]any)
	if !ok {
		return false, r.misfit(at, "a list", value)
	}
	found = len(list) == 0
	for i, item := range list {
		finds, misfit := r.find(item, rest[1:], append(slices.Clip(at), strconv.Itoa(i)))
		if misfit != nil {
			return false, misfit
		}
		found = found || finds
	}
	return found, nil
}

func (r rule) misfit(at []string, want string, value any) *Misfit {
	found := "a list"
	switch value.(type) {
	case map[string]any:
		found = "an object"
	case string:
		found = "a text"
	case bool:
		found = "a boolean"
	case json.Number:
		found = "a number"
	}
	var pointer strings.Builder
	for _, part := range at {
		pointer.WriteString("/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(part))
	}
	return &Misfit{At: pointer.String(), Text: fmt.Sprintf("%s %s wants %s here, found %s", r.list, r.path, want, found)}
}
