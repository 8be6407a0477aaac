package callback

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/waybill-dev/waybill/internal/jsonpath"
)

// Documents returns the names of the documents that paths and filters read.
func Documents() []string { return []string{"input", "output", "workflow", docFeature} }

const docFeature = "feature"

// Parameter is the source of a callback's parameter: a path into the documents, or a value.
type Parameter struct {
	Name  string
	Path  *jsonpath.Path // nil: Value
	Items *Items         // selection of items in the document under Path; nil: all
	Value any
}

// Items selects some elements of a list in a document.
type Items struct {
	From   *jsonpath.Path // singular, from the document on
	Filter *Filter
}

const (
	// pathLimit bounds the nodes that all paths and filters of one callback visit: several times those of the biggest
	// document.
	pathLimit = 10_000_000
	// itemCost is the cost of evaluating a filter on one item, in nodes.
	itemCost = 100
)

// ParsePath compiles a JSONPath (RFC 9535) into the documents; one that starts with . is read as
// after $.
func ParsePath(text string) (*jsonpath.Path, error) {
	if strings.HasPrefix(text, ".") {
		text = "$" + text
	}
	return jsonpath.Parse(text)
}

// documents are the decoded documents of a job by name; numbers are json.Number.
type documents map[string]any

// errNoNode is the fault of a singular path that selects nothing.
var errNoNode = errors.New("selects nothing")

// errTooManyItems is the fault of filters that are applied to too many items, over all features of a callback.
var errTooManyItems = fmt.Errorf("asks the filter about more than %d items together", pathLimit/itemCost)

// errNoList is the fault of a path that does not select the list of items.
var errNoList = errors.New("does not select a list")

// take returns the parameter's value: of a singular path the value of its node, of any other one
// always a list. It takes the nodes that it looks at from left.
func (p Parameter) take(docs documents, left *float64) (any, error) {
	if p.Path == nil {
		return p.Value, nil
	}
	nodes, err := p.Path.Select(map[string]any(docs), left)
	switch {
	case err != nil:
		return nil, err
	case !p.Path.Singular():
		return append([]any{}, nodes...), nil
	case len(nodes) == 0:
		return nil, fmt.Errorf("%s %w", p.Path, errNoNode)
	case p.Items == nil:
		return nodes[0], nil
	}
	value, err := p.Items.of(nodes[0], p.Items.From.Names(), docs, left)
	if err != nil {
		return nil, fmt.Errorf("%s with the items of %s: %w", p.Path, p.Items.From, err)
	}
	return value, nil
}

// of returns a copy of a document in which the list at the end of names has only the elements that
// the filter accepts.
func (i Items) of(node any, names []any, docs documents, left *float64) (any, error) {
	if len(names) == 0 {
		return i.accepted(node, docs, left)
	}
	switch name := names[0].(type) {
	case string:
		if object, ok := node.(map[string]any); ok && has(object, name) {
			changed, err := i.of(object[name], names[1:], docs, left)
			object = maps.Clone(object)
			object[name] = changed
			return object, err
		}
	case int:
		list, ok := node.([]any)
		if at := name; ok && at < len(list) && at >= -len(list) {
			if at < 0 {
				at += len(list)
			}
			changed, err := i.of(list[at], names[1:], docs, left)
			list = slices.Clone(list)
			list[at] = changed
			return list, err
		}
	}
	return nil, errNoList
}

func has(object map[string]any, name string) bool {
	_, ok := object[name]
	return ok
}

// accepted returns the elements of a list that the filter accepts, in their order.
func (i Items) accepted(node any, docs documents, left *float64) (any, error) {
	list, ok := node.([]any)
	if !ok {
		return nil, errNoList
	}
	if len(list) > maxFeatures {
		return nil, fmt.Errorf("it has %d items; a filter takes at most %d", len(list), maxFeatures)
	}
	if *left -= float64(len(list)) * itemCost; *left < 0 {
		return nil, errTooManyItems
	}
	some := []any{}
	for at, item := range list {
		yes, err := i.Filter.matches(docs.with(item), left)
		if *left < 0 {
			return nil, fmt.Errorf("the filter takes too much work: it came to item %d of %d", at, len(list))
		}
		if err != nil {
			return nil, fmt.Errorf("filter on item %d: %w", at, err)
		}
		if yes {
			some = append(some, item)
		}
	}
	return some, nil
}

// with returns the documents with one more, the feature.
func (d documents) with(feature any) documents {
	return documents{"input": d["input"], "output": d["output"], "workflow": d["workflow"], docFeature: feature}
}

// parameters returns the parameters of one action, as JSON. It takes the nodes that their paths
// look at, and those that are written, from left.
func (c *Callback) parameters(docs documents, left *float64) (json.RawMessage, error) {
	values := make(map[string]any, len(c.Parameters))
	for _, p := range c.Parameters {
		value, err := p.take(docs, left)
		if err == nil {
			err = jsonpath.Weigh([]any{value}, left) // nodes that contain each other are written several times
		}
		switch {
		case err == nil:
			values[p.Name] = value
		case !errors.Is(err, errNoNode) || c.Target.Optional == nil || !c.Target.Optional(p.Name):
			return nil, fmt.Errorf("parameter %q: %w", p.Name, err)
		}
	}
	raw, err := json.Marshal(values)
	if err != nil {
		return nil, fmt.Errorf("write the parameters: %w", err)
	}
	return raw, nil
}

// decode reads a document; numbers keep all their digits.
func decode(raw json.RawMessage) (any, error) {
	if len(bytes.TrimSpace(raw)) == 0 {
		return map[string]any{}, nil
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return nil, fmt.Errorf("is not valid JSON: %w", err)
	}
	if err := CheckNumbers(value); err != nil {
		return nil, err
	}
	return value, nil
}
