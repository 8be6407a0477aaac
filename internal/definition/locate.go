package definition

import (
	"strconv"
	"strings"

	"github.com/waybill-dev/waybill/internal/document"
	"github.com/waybill-dev/waybill/internal/fault"
)

// Locate returns the position of a field path of pipeline.Definition, such as stages[2].after[0]. A field that the
// file leaves out is at the mapping that encloses it.
func Locate(root *document.Node, path string) fault.Position {
	if root == nil {
		return fault.Position{}
	}
	at, n := root.At, root
	parts := split(path)
	for i := 0; i < len(parts); i++ {
		next := n.Get(keyOf(parts[i].key))
		if next == nil && keyOf(parts[i].key) == "steps" {
			next = root.Get("steps")
		}
		if parts[i].key == "groups" && next == nil && n.Get("hosts") != nil {
			continue // the short form: its one group is the stage itself
		}
		if next == nil {
			return at
		}
		n, at = next, next.At
		if parts[i].index < 0 {
			continue
		}
		if n.Kind != document.List || parts[i].index >= len(n.Items) {
			return at
		}
		n = n.Items[parts[i].index]
		at = n.At
	}
	return at
}

// keyOf returns the file's word for a field.
func keyOf(field string) string {
	if field == "chain" {
		return "steps"
	}
	return field
}

// part is a key of a path and the index behind it; -1 is none.
type part struct {
	key   string
	index int
}

func split(path string) []part {
	var parts []part
	for _, text := range strings.Split(path, ".") {
		key, rest, indexed := strings.Cut(text, "[")
		p := part{key: key, index: -1}
		if indexed {
			if i, err := strconv.Atoi(strings.TrimSuffix(rest, "]")); err == nil && i >= 0 {
				p.index = i
			}
		}
		parts = append(parts, p)
	}
	return parts
}

// groupNode returns the node of a stage's group: in the short form the stage itself.
func groupNode(stage *document.Node, i int) *document.Node {
	if stage.Get("hosts") != nil {
		return &document.Node{Kind: document.Map, Fields: []document.Field{{Key: "hosts", Value: stage.Get("hosts")}}, At: stage.At}
	}
	return stage.Get("groups").Items[i]
}

// hostNode returns the node of a group's host; one that is a plain URL has no fields.
func hostNode(group *document.Node, i int) *document.Node {
	n := group.Get("hosts").Items[i]
	if n.Kind != document.Map {
		return &document.Node{Kind: document.Map, At: n.At}
	}
	return n
}
