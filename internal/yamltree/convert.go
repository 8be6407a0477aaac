package yamltree

import (
	"strings"

	yaml "go.yaml.in/yaml/v4"

	"github.com/waybill-dev/waybill/internal/document"
	"github.com/waybill-dev/waybill/internal/fault"
)

// converter copies the parser's nodes into a document, expanding aliases as it goes.
type converter struct {
	file     string
	nodes    int
	size     int                 // bytes of the texts
	maxSize  int                 // to which aliases may multiply these
	open     map[*yaml.Node]bool // the nodes that enclose the current node
	anchored int                 // how many nodes around the current one have an anchor
	problems fault.Problems
	full     bool // a limit was met: nothing further is read
	unused   []document.Node
}

// newNode returns a node, of those that are made many at a time.
func (c *converter) newNode() *document.Node {
	if len(c.unused) == 0 {
		c.unused = make([]document.Node, 64)
	}
	n := &c.unused[0]
	c.unused = c.unused[1:]
	return n
}

// maxGrowth bounds the texts that a file's aliases make, as a multiple of the file's size.
const maxGrowth = 4

// convert converts the documents of a file of at most limit bytes. Together they keep the limits.
func convert(file string, limit int, roots ...*yaml.Node) ([]*document.Node, fault.Problems) {
	c := &converter{file: file, maxSize: maxGrowth * limit, open: map[*yaml.Node]bool{}}
	var nodes []*document.Node
	for _, root := range roots {
		before := len(c.problems)
		node := c.node(root, fault.Position{}, 1)
		if node.Kind != document.Map && len(c.problems) == before {
			c.add(node.At, "wrong-kind", "want a mapping, found %s", node.Kind)
		}
		nodes = append(nodes, node)
	}
	c.problems.Sort()
	return nodes, c.problems
}

func (c *converter) add(at fault.Position, code, format string, args ...any) {
	c.problems.Add(problemAt(at, code, format, args...)...)
}

func (c *converter) at(n *yaml.Node) fault.Position {
	return fault.Position{File: c.file, Line: n.Line, Column: n.Column}
}

// node converts n, which is at the given level and came in through an alias at via, if any.
func (c *converter) node(n *yaml.Node, via fault.Position, depth int) *document.Node {
	out := c.newNode()
	out.At, out.Via = c.at(n), via
	if !c.admit(n, depth) {
		return out
	}
	switch n.Kind {
	case yaml.AliasNode:
		return c.alias(n, via, depth)
	case yaml.ScalarNode:
		c.scalar(n, out)
	case yaml.SequenceNode:
		out.Kind = document.List
		c.inside(n, func() {
			out.Items = make([]*document.Node, 0, len(n.Content))
			for i, item := range n.Content {
				out.Items = append(out.Items, c.node(item, via, depth+1))
				c.release(n, i)
			}
		})
	case yaml.MappingNode:
		out.Kind = document.Map
		c.inside(n, func() { out.Fields = c.fields(n, via, depth) })
	}
	return out
}

// admit counts n and keeps the limits. The first limit met is reported and ends the reading.
func (c *converter) admit(n *yaml.Node, depth int) bool {
	if c.full {
		return false
	}
	c.nodes++
	if n.Kind == yaml.ScalarNode {
		c.size += len(n.Value)
	}
	switch {
	case c.size > c.maxSize:
		c.add(c.at(n), "too-large", "the texts have more than %d bytes once aliases are expanded", c.maxSize)
	case c.nodes > maxNodes:
		c.add(c.at(n), "too-large", "there are more than %d keys and values once aliases are expanded", maxNodes)
	case depth > maxDepth && n.Kind != yaml.ScalarNode:
		c.add(c.at(n), "too-deep", "there are more than %d levels", maxDepth)
	default:
		return true
	}
	c.full = true
	return false
}

// release gives up a part of n that has been converted, so that both trees of a large file are never in memory as a whole. What an anchor
// names is converted again for each alias.
func (c *converter) release(n *yaml.Node, i int) {
	if c.anchored == 0 {
		n.Content[i] = nil
	}
}

// inside runs f with n marked as being read, so that an alias to it from within is seen.
func (c *converter) inside(n *yaml.Node, f func()) {
	if n.Anchor == "" { // no alias names it
		f()
		return
	}
	c.open[n] = true
	c.anchored++
	f()
	c.anchored--
	delete(c.open, n)
}

func (c *converter) alias(n *yaml.Node, via fault.Position, depth int) *document.Node {
	if c.open[n.Alias] {
		c.add(c.at(n), "alias-cycle", "the alias *%s is inside the node that it names", n.Value)
		return &document.Node{At: c.at(n)}
	}
	if via == (fault.Position{}) {
		via = c.at(n)
	}
	return c.node(n.Alias, via, depth)
}

// scalar gives out its text and kind: by tag when there is one, a string when quoted, else by the
// table.
func (c *converter) scalar(n *yaml.Node, out *document.Node) {
	const quotes = yaml.SingleQuotedStyle | yaml.DoubleQuotedStyle | yaml.LiteralStyle | yaml.FoldedStyle
	out.Text, out.Quoted = n.Value, n.Style&quotes != 0
	switch {
	case n.Style&yaml.TaggedStyle != 0:
		c.tagged(n, out)
	case out.Quoted:
		out.Kind = document.String
	default:
		out.Kind = document.Resolve(n.Value)
	}
}

// tags are the kinds that a file may name.
var tags = map[string]document.Kind{
	"!!null": document.Null, "!!bool": document.Bool, "!!int": document.Int, "!!float": document.Float,
	"!!timestamp": document.Timestamp, "!!str": document.String,
}

func (c *converter) tagged(n *yaml.Node, out *document.Node) {
	kind, known := tags[n.Tag]
	found := document.Resolve(n.Value)
	out.Kind = kind
	switch {
	case !known:
		out.Kind = document.String
		c.add(out.At, "wrong-kind", "the tag %s is not known", n.Tag)
	case kind != document.String && kind != found && !(kind == document.Float && found == document.Int):
		c.add(out.At, "wrong-kind", "%q is not what its tag %s says", n.Value, n.Tag)
	}
}

// fields converts a mapping's keys and values in the order of the file. What a
// merge key brings in takes that key's place; keys written out win at any position.
func (c *converter) fields(n *yaml.Node, via fault.Position, depth int) []document.Field {
	written := c.writtenKeys(n)
	out := make([]document.Field, 0, len(written.keys))
	for _, k := range written.keys {
		key, value := n.Content[k.at], n.Content[k.at+1]
		if isMerge(key) {
			out = append(out, c.merge(value, via, depth, written)...)
			continue
		}
		c.nodes, c.size = c.nodes+1, c.size+len(k.name)
		out = append(out, document.Field{Key: k.name, At: c.at(key), Value: c.node(value, via, depth+1)})
		c.release(n, k.at+1)
	}
	return out
}

// writtenKeys is the keys of a mapping, of each name the first.
type writtenKeys struct {
	keys   []writtenKey
	byName map[string]int // indices in keys; nil while there are few
}

// writtenKey is a key, which the content of its mapping has at an index.
type writtenKey struct {
	name string // << of one that merges
	at   int
}

// fewKeys is the number of keys up to which they are compared one by one, which takes less than a map.
const fewKeys = 16

// find returns the key of a name.
func (w *writtenKeys) find(name string) (found writtenKey, ok bool) {
	if w.byName != nil {
		i, ok := w.byName[name]
		if !ok {
			return found, false
		}
		return w.keys[i], true
	}
	for _, k := range w.keys {
		if k.name == name {
			return k, true
		}
	}
	return found, false
}

func (w *writtenKeys) add(k writtenKey) {
	w.keys = append(w.keys, k)
	switch {
	case w.byName != nil:
		w.byName[k.name] = len(w.keys) - 1
	case len(w.keys) > fewKeys:
		w.byName = map[string]int{}
		for i, k := range w.keys {
			w.byName[k.name] = i
		}
	}
}

// writtenKeys returns the keys of a mapping and reports the duplicates.
func (c *converter) writtenKeys(n *yaml.Node) *writtenKeys {
	written := &writtenKeys{keys: make([]writtenKey, 0, len(n.Content)/2)}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		name, ok := c.key(key)
		if isMerge(key) {
			name, ok = "<<", true
		}
		if !ok {
			c.badKey(key)
			continue
		}
		if len(name) > maxKey {
			c.add(c.at(key), "too-large", "the key has %d bytes; at most %d are read", len(name), maxKey)
			continue
		}
		if k, repeated := written.find(name); repeated {
			first := n.Content[k.at]
			c.add(c.at(key), "key-repeated", "the key %q is already at %d:%d", name, first.Line, first.Column)
			continue
		}
		written.add(writtenKey{name, i})
	}
	return written
}

// key returns the name that a key node spells; false when it is none.
func (c *converter) key(n *yaml.Node) (string, bool) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if n.Kind != yaml.ScalarNode || n.Value == "" || isMerge(n) {
		return "", false
	}
	var probe document.Node
	quiet := converter{}
	quiet.scalar(n, &probe)
	return n.Value, probe.Kind == document.String
}

func (c *converter) badKey(n *yaml.Node) {
	switch {
	case n.Kind == yaml.ScalarNode && n.Value == "":
		c.add(c.at(n), "key-empty", "a key must not be empty")
	case n.Kind == yaml.ScalarNode:
		c.add(c.at(n), "key-not-string", "the key %s is %s; put it in quotes", n.Value, document.Resolve(n.Value))
	default:
		c.add(c.at(n), "key-not-string", "a key must be a string")
	}
}

func isMerge(n *yaml.Node) bool {
	return n.Kind == yaml.ScalarNode && n.Value == "<<" &&
		(n.Style == 0 || n.Style&yaml.TaggedStyle != 0 && strings.HasSuffix(n.Tag, "merge"))
}

// merge returns the fields of one mapping, or of a list of mappings, whose names are not written out, each once.
func (c *converter) merge(value *yaml.Node, via fault.Position, depth int, written *writtenKeys) []document.Field {
	taken := map[string]bool{}
	source := c.node(value, via, depth+1)
	sources := []*document.Node{source}
	if source.Kind == document.List {
		sources = source.Items
	}
	var out []document.Field
	for _, s := range sources {
		if s.Kind != document.Map {
			if !c.full && len(c.problems) == 0 {
				c.add(c.at(value), "wrong-kind", "<< wants a mapping or a list of mappings, found %s", s.Kind)
			}
			continue
		}
		for _, f := range s.Fields {
			if _, isWritten := written.find(f.Key); !taken[f.Key] && !isWritten {
				taken[f.Key] = true
				out = append(out, f)
			}
		}
	}
	return out
}
