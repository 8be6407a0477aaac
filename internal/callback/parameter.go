package callback

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/theory/jsonpath"
	"github.com/theory/jsonpath/spec"
)

// Documents are what paths and filters speak of, by their names.
func Documents() []string { return []string{"input", "output", "workflow", docFeature} }

const docFeature = "feature"

// Parameter is where a parameter of a callback comes from: a path into the documents, or a value.
type Parameter struct {
	Name  string
	Path  *jsonpath.Path // nil: Value
	Value any
}

// ParsePath compiles a JSONPath (RFC 9535) into the documents; one that starts with . is read as after $.
func ParsePath(text string) (*jsonpath.Path, error) {
	if strings.HasPrefix(text, ".") {
		text = "$" + text
	}
	path, err := jsonpath.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%q is no JSONPath: %s", text, strings.TrimPrefix(err.Error(), "jsonpath: "))
	}
	return path, nil
}

// DocumentOf is the name of the document that a path leads into; "" when it does not begin with one name.
func DocumentOf(path *jsonpath.Path) string {
	segments := path.Query().Segments()
	if len(segments) == 0 || segments[0].IsDescendant() || len(segments[0].Selectors()) != 1 {
		return ""
	}
	name, ok := segments[0].Selectors()[0].(spec.Name)
	if !ok {
		return ""
	}
	return string(name)
}

// documents are a job's, decoded; numbers are json.Number.
type documents map[string]any

// errNoNode says that a path selects nothing.
var errNoNode = errors.New("selects nothing")

// take is the parameter's value: of one node its value, of more a list.
func (p Parameter) take(docs documents) (any, error) {
	if p.Path == nil {
		return p.Value, nil
	}
	nodes := p.Path.Select(map[string]any(docs))
	switch len(nodes) {
	case 0:
		return nil, errNoNode
	case 1:
		return nodes[0], nil
	}
	return slices.Clone([]any(nodes)), nil
}

// parameters are those of one callback, as JSON.
func (c *Callback) parameters(docs documents) (json.RawMessage, error) {
	values := make(map[string]any, len(c.Parameters))
	for _, p := range c.Parameters {
		value, err := p.take(docs)
		switch {
		case err == nil:
			values[p.Name] = value
		case c.Target.Optional == nil || !c.Target.Optional(p.Name):
			return nil, fmt.Errorf("parameter %q: %s %w", p.Name, p.Path, err)
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
	err := decoder.Decode(&value)
	return value, err
}
