package cachekey

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// Rules select the parts of a value that count. The zero Rules count all of it.
type Rules struct {
	root *branch
	all  []rule // as they were written
}

// rule is one path of a list.
type rule struct {
	list  string // Includes or Excludes
	path  string
	steps []step
}

// branch holds the verdicts on one place and on those below it.
type branch struct {
	says verdict
	keys map[string]*branch
	each *branch // branch of a list's elements
}

// verdict is a rule's decision on exactly one place.
type verdict uint8

const (
	silent verdict = iota
	include
	exclude
)

// The lists that rules come from.
const (
	Includes = "cacheKeyHashIncludes"
	Excludes = "cacheKeyHashExcludes"
)

// RuleError is a rule that cannot be followed.
type RuleError struct {
	List  string // Includes or Excludes
	Index int    // in its list
	Err   error
}

func (e *RuleError) Error() string { return e.Err.Error() }

// ParseRules reads both lists. A path is dotted (.features), [] matches all elements of a list, a
// key with dots or brackets is quoted (."a.b"); a dot alone is the whole value. The deepest rule of
// a place wins. Without an include everything counts that no rule excludes. The errors list every
// rule that is not a valid path or contradicts an earlier one.
func ParseRules(includes, excludes []string) (Rules, []*RuleError) {
	var faults []*RuleError
	root := &branch{says: include}
	if len(includes) > 0 {
		root.says = exclude
	}
	stated := statements{}
	var all []rule
	add := func(list string, paths []string, says verdict) {
		for i, path := range paths {
			steps, err := parsePath(path)
			if err == nil {
				var at *branch
				if at, err = root.reach(steps); err != nil {
					err = fmt.Errorf("%s %w", path, err)
				} else {
					err = stated.add(at, says, path)
				}
			}
			if err == nil {
				all = append(all, rule{list, path, steps})
			}
			if err != nil {
				faults = append(faults, &RuleError{list, i, err})
			}
		}
	}
	add(Includes, includes, include)
	add(Excludes, excludes, exclude)
	return Rules{root, all}, faults
}

// statements are the places that rules name, with their statements.
type statements map[*branch]verdict

// add notes a rule's statement about a place; an error when another rule has named it.
func (s statements) add(at *branch, says verdict, path string) error {
	switch before, ok := s[at]; {
	case ok && before != says:
		return fmt.Errorf("%s is included and excluded", path)
	case ok:
		return fmt.Errorf("%s is listed twice", path)
	}
	s[at], at.says = says, says
	return nil
}

// reach returns the branch at the end of a path. A place cannot be a list for one rule and an
// object for another.
func (b *branch) reach(steps []step) (*branch, error) {
	for i, s := range steps {
		if s.each && len(b.keys) > 0 || !s.each && b.each != nil {
			return nil, fmt.Errorf("contradicts another rule: one wants a list at part %d, the other an object", i+1)
		}
		next := b.each
		if !s.each {
			next = b.keys[s.key]
		}
		if next == nil {
			next = &branch{}
			if s.each {
				b.each = next
			} else {
				if b.keys == nil {
					b.keys = map[string]*branch{}
				}
				b.keys[s.key] = next
			}
		}
		b = next
	}
	return b, nil
}

// Keep returns the rest of a value, and does not change the value. If nothing is left, it returns the empty form.
func (r Rules) Keep(value any) any {
	if r.root == nil {
		return value
	}
	if kept, ok := r.root.keep(value, true); ok {
		return kept
	}
	switch value.(type) {
	case map[string]any:
		return map[string]any{}
	case []any:
		return []any{}
	}
	return nil
}

// keep returns the rest of the value at a branch, and whether anything is. inherited is the statement of the nearest
// rule above.
func (b *branch) keep(value any, inherited bool) (any, bool) {
	if b == nil {
		return value, inherited
	}
	if b.says != silent {
		inherited = b.says == include
	}
	switch v := value.(type) {
	case map[string]any:
		return b.keepKeys(v, inherited)
	case []any:
		return b.keepElements(v, inherited)
	}
	return value, inherited
}

func (b *branch) keepKeys(object map[string]any, inherited bool) (any, bool) {
	left := make(map[string]any, len(object))
	for key, value := range object {
		if kept, ok := b.keys[key].keep(value, inherited); ok {
			left[key] = kept
		}
	}
	return left, inherited || len(left) > 0
}

func (b *branch) keepElements(list []any, inherited bool) (any, bool) {
	left := make([]any, 0, len(list))
	for _, value := range list {
		if kept, ok := b.each.keep(value, inherited); ok {
			left = append(left, kept)
		}
	}
	return left, inherited || len(left) > 0
}

// step is one part of a path: a key, or all elements.
type step struct {
	key  string
	each bool
}

var errPath = errors.New("want a path such as .features[].id")

func parsePath(path string) ([]step, error) {
	if path == "." {
		return nil, nil
	}
	var steps []step
	rest := path
	for rest != "" {
		if after, ok := strings.CutPrefix(rest, "[]"); ok && (len(steps) > 0) {
			steps, rest = append(steps, step{each: true}), after
			continue
		}
		after, ok := strings.CutPrefix(rest, ".")
		if !ok {
			return nil, fmt.Errorf("%q is not a valid path: %w", path, errPath)
		}
		if after, ok := strings.CutPrefix(after, "[]"); ok && len(steps) == 0 {
			steps, rest = append(steps, step{each: true}), after
			continue
		}
		key, behind, err := parseKey(after)
		if err != nil {
			return nil, fmt.Errorf("%q is not a valid path: %w", path, err)
		}
		steps, rest = append(steps, step{key: key}), behind
	}
	if len(steps) == 0 {
		return nil, fmt.Errorf("%q is not a valid path: %w", path, errPath)
	}
	return steps, nil
}

// parseKey reads a bare or quoted key from the front of a text.
func parseKey(text string) (key, rest string, err error) {
	if strings.HasPrefix(text, `"`) {
		decoder := json.NewDecoder(strings.NewReader(text))
		if err := decoder.Decode(&key); err != nil {
			return "", "", fmt.Errorf("a quoted key does not end well: %w", err)
		}
		return key, text[decoder.InputOffset():], nil
	}
	end := strings.IndexAny(text, `.[]"`)
	if end < 0 {
		end = len(text)
	}
	if end == 0 {
		return "", "", errPath
	}
	return text[:end], text[end:], nil
}
