// Package document is a file that a person wrote, as a tree whose every node
// knows its place. Package yamltree reads YAML into it; packages build and
// definition read their formats out of it, reporting every fault at once.
package document

import (
	"slices"
	"strings"

	"github.com/waybill-dev/waybill/internal/fault"
)

// Kind is the kind of a node.
type Kind uint8

// The kinds of nodes.
const (
	Null Kind = iota
	Bool
	Int
	Float
	Timestamp
	String
	List
	Map
)

var kindNames = [...]string{"nothing", "a boolean", "a number", "a number", "a timestamp", "a string", "a list", "a mapping"}

// String returns the kind as an error names it, such as "a mapping".
func (k Kind) String() string { return kindNames[k] }

// Node is one value of a document.
type Node struct {
	Kind   Kind
	Text   string // a scalar's text, with quotes removed and escapes resolved
	Items  []*Node
	Fields []Field // fields of a Map, in the order of the file
	Quoted bool    // a scalar in quotes, or a block scalar
	At     fault.Position
	Via    fault.Position // where an alias or a merge key brought it in; zero when it is written where it is used
}

// Field is a key and its value.
type Field struct {
	Key   string
	At    fault.Position // position of the key
	Value *Node
}

// sharedPrefix begins the keys of a file that hold the shared nodes of its aliases.
const sharedPrefix = "x-"

// WithoutShared returns a mapping without its keys that begin with "x-", such as x-go: they hold the shared nodes of
// the file's aliases, and mean nothing themselves. Another node is returned as it is.
func WithoutShared(n *Node) *Node {
	shared := func(f Field) bool { return strings.HasPrefix(f.Key, sharedPrefix) }
	if n == nil || n.Kind != Map || !slices.ContainsFunc(n.Fields, shared) {
		return n
	}
	out := *n
	out.Fields = slices.DeleteFunc(slices.Clone(n.Fields), shared)
	return &out
}

// Get returns the value of a key of a Map; nil if there is none.
func (n *Node) Get(key string) *Node {
	if n == nil {
		return nil
	}
	for i := range n.Fields {
		if n.Fields[i].Key == key {
			return n.Fields[i].Value
		}
	}
	return nil
}
