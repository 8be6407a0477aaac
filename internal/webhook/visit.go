package webhook

import (
	"slices"
	"strings"
	"text/template/parse"
)

// visit calls f with the path of every field that is taken of the root: [parameters team]; an empty
// path is the root itself. Inside with and range a dot is something else, so only what begins with
// $ counts there.
func visit(n *parse.ListNode, f func(path []string)) {
	walker{field: f}.walk(n, true)
}

// visitCalls calls f with every function that is called, and its arguments.
func visitCalls(n *parse.ListNode, f func(name string, arguments []parse.Node)) {
	walker{field: func([]string) {}, call: f}.walk(n, true)
}

func speaksOf(n parse.Node, root string) bool {
	found := false
	visit(&parse.ListNode{Nodes: []parse.Node{n}}, func(path []string) { found = found || len(path) == 0 || path[0] == root })
	return found
}

// walker visits a template's tree.
type walker struct {
	field func(path []string)                       // called for each field of the root
	call  func(name string, arguments []parse.Node) // called for each function; nil: none
}

// walk visits a node. top reports whether the dot is still the root.
func (w walker) walk(n parse.Node, top bool) {
	switch n := n.(type) {
	case *parse.ListNode:
		if n == nil {
			return
		}
		for _, item := range n.Nodes {
			w.walk(item, top)
		}
	case *parse.ActionNode:
		w.walk(n.Pipe, top)
	case *parse.TemplateNode:
		w.walk(n.Pipe, top)
	case *parse.IfNode:
		w.walkBranch(&n.BranchNode, top, top)
	case *parse.WithNode:
		w.walkBranch(&n.BranchNode, top, false)
	case *parse.RangeNode:
		w.walkBranch(&n.BranchNode, top, false)
	case *parse.PipeNode:
		if n == nil {
			return
		}
		for _, command := range n.Cmds {
			w.walkCommand(command, top)
		}
	case *parse.ChainNode:
		w.walk(n.Node, top)
	default:
		w.walkLeaf(n, top)
	}
}

// walkLeaf reports a node that names a field of the root, or all of it.
func (w walker) walkLeaf(n parse.Node, top bool) {
	switch n := n.(type) {
	case *parse.FieldNode:
		if top {
			w.field(n.Ident)
		}
	case *parse.VariableNode:
		if n.Ident[0] == "$" {
			w.field(n.Ident[1:])
		}
	case *parse.DotNode:
		if top {
			w.field(nil)
		}
	}
}

func (w walker) walkBranch(n *parse.BranchNode, top, inside bool) {
	w.walk(n.Pipe, top)
	w.walk(n.List, inside)
	w.walk(n.ElseList, top)
}

func (w walker) walkCommand(n *parse.CommandNode, top bool) {
	if name, ok := n.Args[0].(*parse.IdentifierNode); ok && w.call != nil {
		w.call(name.Ident, n.Args[1:])
	}
	for _, argument := range n.Args {
		w.walk(argument, top)
	}
}

// HostKnown reports whether a URL's scheme and host depend on nothing but parameters and the
// environment, so that the lane is known when the action is stored, and no secret decides where a
// request goes.
func (t *Template) HostKnown() bool {
	return t.hostWithout("id", "uuid", "attempt", "secrets", "action")
}

// HostConstant reports whether a URL's scheme and host are the same for every action.
func (t *Template) HostConstant() bool {
	return t.hostWithout(append([]string{"secrets"}, ofActions...)...)
}

// hostWithout reports whether a URL's scheme and host depend on none of these roots.
func (t *Template) hostWithout(roots ...string) bool {
	var before strings.Builder
	for _, n := range t.tree.Root.Nodes {
		if text, ok := n.(*parse.TextNode); ok {
			before.Write(text.Text)
			if hostEnded(before.String()) {
				return true
			}
			continue
		}
		if slices.ContainsFunc(roots, func(root string) bool { return speaksOf(n, root) }) {
			return false
		}
		before.WriteByte('x') // the action has text here
	}
	return true
}

// hostEnded reports whether the host of an address is complete at the end of its beginning.
func hostEnded(beginning string) bool {
	_, rest, ok := strings.Cut(beginning, "://")
	return ok && strings.ContainsAny(rest, "/?#")
}
