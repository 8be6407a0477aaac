package document

import (
	"slices"
	"strings"
)

// Shape is the set of kinds that a value may have: one of these, or several joined with |.
type Shape uint16

// The shapes.
const (
	Text      Shape = 1 << iota // a string
	Duration                    // a string such as 10s, which the caller parses
	Flag                        // a boolean
	Number                      // an integer or a fraction
	Scalar                      // any scalar but null, taken by its text
	Texts                       // a list of strings
	Scalars                     // a list of scalars
	Object                      // a mapping, whose keys Key.Keys lists when there are any
	Objects                     // a list of mappings, likewise
	TextMap                     // a mapping of free names to strings
	ScalarMap                   // a mapping of free names to scalars
	Entries                     // a list of strings and mappings, side by side
	Anything                    // the caller judges it
	numShapes = iota
)

var shapeWords = [numShapes]string{"a string", "a duration", "a boolean", "a number", "a scalar", "a list of strings", "a list of scalars",
	"a mapping", "a list of mappings", "a mapping of strings", "a mapping of scalars",
	"a list of strings or mappings", "a value"}

// String names the shapes, such as "a string or a mapping".
func (s Shape) String() string {
	var words []string
	for i, w := range shapeWords {
		if s&(1<<i) != 0 {
			words = append(words, w)
		}
	}
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// Key is one line of a format's field table. The table drives the reader, the
// suggestions and the JSON Schema, so that they cannot drift apart.
type Key struct {
	Name     string
	Shape    Shape
	Required bool     // there, and not empty
	Values   []string // the texts that are accepted; nil: any
	Keys     []Key    // keys of an Object, or of each mapping in Objects and Entries
	Default  string   // text for people
	Help     string   // one sentence, for the reference and the schema
	Later    bool     // known, and not yet supported: an error
	Code     string   // code of every fault of the value; "" is a code for each kind of fault
}

// Names lists the keys of a table in its order.
func Names(keys []Key) []string {
	names := make([]string, len(keys))
	for i, k := range keys {
		names[i] = k.Name
	}
	return names
}

// Find returns the table's line for a name; nil if there is none.
func Find(keys []Key, name string) *Key {
	for i := range keys {
		if keys[i].Name == name {
			return &keys[i]
		}
	}
	return nil
}

// Fits reports whether n itself has one of the shapes; the items of lists and mappings included,
// but not the keys inside Object and Objects.
func (s Shape) Fits(n *Node) bool {
	for ; s != 0; s &= s - 1 {
		if one := s & -s; one.fits(n) {
			return true
		}
	}
	return false
}

func (s Shape) fits(n *Node) bool {
	switch s { //exhaustive:enforce
	case Text, Duration:
		return n.Kind == String
	case Flag:
		return n.Kind == Bool
	case Number:
		return n.Kind == Int || n.Kind == Float
	case Scalar:
		return n.Kind != Null && n.Kind != List && n.Kind != Map
	case Texts, Scalars, Objects, Entries:
		return n.Kind == List && all(n.Items, s.element())
	case TextMap, ScalarMap:
		return n.Kind == Map && all(values(n), s.element())
	case Object:
		return n.Kind == Map
	case Anything:
		return true
	}
	return false
}

// element returns the shape of each item of a list or mapping.
func (s Shape) element() Shape {
	switch s {
	case Texts, TextMap:
		return Text
	case Scalars, ScalarMap:
		return Scalar
	case Objects:
		return Object
	case Entries:
		return Text | Object
	}
	return 0
}

func all(nodes []*Node, s Shape) bool {
	return !slices.ContainsFunc(nodes, func(n *Node) bool { return !s.Fits(n) })
}

func values(n *Node) []*Node {
	out := make([]*Node, len(n.Fields))
	for i, f := range n.Fields {
		out[i] = f.Value
	}
	return out
}
