package trigger

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/waybill-dev/waybill/internal/cloudevent"
	"github.com/waybill-dev/waybill/internal/fault"
)

// Bounds of a filter.
const (
	MaxDepth      = 16  // levels of filters in filters
	MaxConditions = 256 // filters and compared attributes
)

// The dialects.
const (
	exact  = "exact"
	prefix = "prefix"
	suffix = "suffix"
	all    = "all"
	anyOf  = "any"
	not    = "not"
)

// Dialects lists the keys that a filter may have.
func Dialects() []string { return []string{exact, prefix, suffix, all, anyOf, not} }

// Fault is a fault of a filter.
type Fault struct {
	Path       []any // place of the fault from the filter on: keys (string) and indexes (int)
	Key        bool  // the last key of Path is wrong, rather than its value
	Text       string
	Suggestion string // key that was probably meant; may be empty
}

// Faults lists the faults of a filter, in the order of their keys. It is an error.
type Faults []Fault

func (fs Faults) Error() string {
	texts := make([]string, len(fs))
	for i, f := range fs {
		texts[i] = f.At() + ": " + f.Text
	}
	return strings.Join(texts, "; ")
}

// At returns the path as text, such as filter.all[0].exact.type.
func (f Fault) At() string {
	at := "filter"
	for _, step := range f.Path {
		switch step := step.(type) {
		case string:
			at += "." + step
		case int:
			at += "[" + strconv.Itoa(step) + "]"
		}
	}
	return at
}

// ParseFilter reads a filter from a value as encoding/json decodes it. Its error is Faults, with every fault.
func ParseFilter(value any) (*Filter, error) {
	p := parser{left: MaxConditions}
	f := p.filter(value, nil)
	if len(p.faults) > 0 {
		return nil, p.faults
	}
	return &f, nil
}

// parser reads one filter.
type parser struct {
	faults Faults
	left   int // conditions that may still be read
}

func (p *parser) add(path []any, format string, args ...any) {
	p.faults = append(p.faults, Fault{Path: path, Text: fmt.Sprintf(format, args...)})
}

// spend takes one condition. It reports the place at which there are too many once, and false from there on.
func (p *parser) spend(path []any) bool {
	p.left--
	if p.left == -1 {
		p.add(path, "the filter has more than %d conditions", MaxConditions)
	}
	return p.left >= 0
}

// below returns a path with one more step. It never shares memory with another path.
func below(path []any, step any) []any { return append(slices.Clone(path), step) }

// filter reads the filter at a path.
func (p *parser) filter(value any, path []any) (f Filter) {
	fields, ok := value.(map[string]any)
	switch {
	case !p.spend(path):
		return f
	case !ok || len(fields) == 0:
		p.add(path, "want an object with one of %s", strings.Join(Dialects(), ", "))
		return f
	case len(fields) > 1:
		p.add(path, "it has %s: want one; all combines several filters", strings.Join(slices.Sorted(maps.Keys(fields)),
			" and "))
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		p.dialect(&f, name, fields[name], below(path, name))
	}
	return f
}

// dialect reads the value of one key of a filter.
func (p *parser) dialect(f *Filter, name string, value any, path []any) {
	switch name {
	case exact:
		f.Exact = p.attributes(value, path)
	case prefix:
		f.Prefix = p.attributes(value, path)
	case suffix:
		f.Suffix = p.attributes(value, path)
	case all:
		f.All = p.list(value, path)
	case anyOf:
		f.Any = p.list(value, path)
	case not:
		if p.descends(path) {
			inner := p.filter(value, path)
			f.Not = &inner
		}
	default:
		p.faults = append(p.faults, Fault{Path: path, Key: true, Suggestion: fault.Nearest(name, Dialects()),
			Text: fmt.Sprintf("unknown key: want one of %s", strings.Join(Dialects(), ", "))})
	}
}

// descends reports whether the filters under a key are within MaxDepth.
func (p *parser) descends(path []any) bool {
	level := 1
	for _, step := range path {
		if name, ok := step.(string); ok && (name == all || name == anyOf || name == not) {
			level++
		}
	}
	if level > MaxDepth {
		p.add(path, "filters are more than %d levels deep", MaxDepth)
	}
	return level <= MaxDepth
}

// list reads the filters of all or any.
func (p *parser) list(value any, path []any) []Filter {
	items, ok := value.([]any)
	if !ok || len(items) == 0 {
		p.add(path, "want a list of filters, at least one")
		return nil
	}
	if !p.descends(path) {
		return nil
	}
	filters := make([]Filter, 0, min(len(items), MaxConditions))
	for i, item := range items {
		if p.left < 0 {
			return nil
		}
		filters = append(filters, p.filter(item, below(path, i)))
	}
	return filters
}

// attributes reads the texts that attributes are compared with.
func (p *parser) attributes(value any, path []any) map[string]string {
	fields, ok := value.(map[string]any)
	if !ok || len(fields) == 0 {
		p.add(path, "want an object of attributes and texts, at least one")
		return nil
	}
	wanted := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		at := below(path, name)
		if !p.spend(at) {
			return nil
		}
		text, isText := fields[name].(string)
		switch {
		case !cloudevent.IsName(name):
			p.faults = append(p.faults, Fault{Path: at, Key: true, Text: notAttribute(name)})
		case !isText:
			p.add(at, "want a text: write it in quotes")
		case text == "":
			p.add(at, "want a text that is not empty")
		}
		wanted[name] = text
	}
	return wanted
}

// notAttribute returns the fault of a name that cannot be that of an attribute.
func notAttribute(name string) string {
	if name == dataName {
		return "data is not an attribute"
	}
	return fmt.Sprintf("%.*q cannot be an attribute: want at most %d of a-z and 0-9", cloudevent.MaxName, name,
		cloudevent.MaxName)
}
