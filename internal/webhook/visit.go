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
	walk(n, true, f, nil)
}

// visitCalls calls f with every function that is called, and its arguments.
func visitCalls(n *parse.ListNode, f func(name string, arguments []parse.Node)) {
	walk(n, true, func([]string) {}, f)
}

func speaksOf(n parse.Node, root string) bool {
	found := false
	walk(n, true, func(path []string) { found = found || len(path) == 0 || path[0] == root }, nil)
	return found
}

// walk visits a template's tree. top reports whether the dot is still the root.
func walk(n parse.Node, top bool, field func([]string), call func(string, []parse.Node)) {
	switch n := n.(type) {
	case *parse.ListNode:
		if n == nil {
			return
		}
		for _, item := range n.Nodes {
			walk(item, top, field, call)
		}
	case *parse.ActionNode:
		walk(n.Pipe, top, field, call)
	case *parse.TemplateNode:
		walk(n.Pipe, top, field, call)
	case *parse.IfNode:
		walkBranch(&n.BranchNode, top, top, field, call)
	case *parse.WithNode:
		walkBranch(&n.BranchNode, top, false, field, call)
	case *parse.RangeNode:
		walkBranch(&n.BranchNode, top, false, field, call)
	case *parse.PipeNode:
		if n == nil {
			return
		}
		for _, command := range n.Cmds {
			walkCommand(command, top, field, call)
		}
	case *parse.ChainNode:
		walk(n.Node, top, field, call)
	default:
		walkLeaf(n, top, field)
	}
}

// walkLeaf reports a node that names a field of the root, or all of it.
func walkLeaf(n parse.Node, top bool, field func([]string)) {
	switch n := n.(type) {
	case *parse.FieldNode:
		if top {
			field(n.Ident)
		}
	case *parse.VariableNode:
		if n.Ident[0] == "$" {
			field(n.Ident[1:])
		}
	case *parse.DotNode:
		if top {
			field(nil)
		}
	}
}

func walkBranch(n *parse.BranchNode, top, inside bool, field func([]string), call func(string, []parse.Node)) {
	walk(n.Pipe, top, field, call)
	walk(n.List, inside, field, call)
	walk(n.ElseList, top, field, call)
}

func walkCommand(n *parse.CommandNode, top bool, field func([]string), call func(string, []parse.Node)) {
	if name, ok := n.Args[0].(*parse.IdentifierNode); ok && call != nil {
		call(name.Ident, n.Args[1:])
	}
	for _, argument := range n.Args {
		walk(argument, top, field, call)
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
