package marker

import (
	"fmt"

	yaml "go.yaml.in/yaml/v4"
)

// verify parses the edited file and compares it with the original: the trees are equal except for the marked scalars, and
// each of these reads back as the wanted text.
func (f *located) verify(edited []byte) error {
	fail := func(text string) error { return f.values[0].unusable(f.file, text) }
	roots, err := parse(edited)
	if err != nil {
		return fail("the edited file cannot be read as YAML: " + err.Error())
	}
	c := comparison{marked: make(map[*yaml.Node]*value, len(f.values))}
	for _, v := range f.values {
		c.marked[v.node] = v
	}
	if len(roots) != len(f.roots) {
		return fail("the edited file has another number of documents")
	}
	for i := range roots {
		if !c.equal(f.roots[i], roots[i]) {
			return fail(fmt.Sprintf("the edited file differs at line %d also in what is not marked", c.line))
		}
	}
	return nil
}

// comparison compares the trees of a file and of the edited file.
type comparison struct {
	marked map[*yaml.Node]*value
	line   int // line of the first difference
}

func (c *comparison) equal(was, is *yaml.Node) bool {
	c.line = was.Line
	same := sameFrame(was, is)
	if v, ok := c.marked[was]; ok {
		return same && is.Value == v.want && v.keepsType(is)
	}
	if !same || was.Tag != is.Tag || was.Style != is.Style || was.Value != is.Value {
		return false
	}
	for i := range was.Content {
		if !c.equal(was.Content[i], is.Content[i]) {
			return false
		}
	}
	return true
}

// sameFrame reports whether two nodes are the same but for their values: kind, line, anchor, comments and number of children.
func sameFrame(was, is *yaml.Node) bool {
	return was.Kind == is.Kind && was.Line == is.Line && was.Anchor == is.Anchor && len(was.Content) == len(is.Content) &&
		was.LineComment == is.LineComment && was.HeadComment == is.HeadComment && was.FootComment == is.FootComment
}

// keepsType reports whether the edited scalar has the tag and the style of the original, or has become text in double quotes.
func (v *value) keepsType(is *yaml.Node) bool {
	if is.Tag == v.node.Tag && is.Style == v.node.Style {
		return true
	}
	const quoted = yaml.SingleQuotedStyle | yaml.DoubleQuotedStyle
	tagged := v.node.Style & yaml.TaggedStyle
	return v.node.Style&quoted == 0 && is.Style == tagged|yaml.DoubleQuotedStyle &&
		(tagged != 0 && is.Tag == v.node.Tag || is.ShortTag() == "!!str")
}
