package webhook

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"text/template"
	"text/template/parse"

	"github.com/waybill-dev/waybill/internal/fault"
)

// maxText is the size in bytes that a rendered template may have: that of a request's body.
const maxText = 1 << 20

// Names is what a template may speak of; what it names besides is a fault at load.
type Names struct {
	Parameters []string
	Secrets    []string
	Env        []string // names that the function env may read
}

// The roots of a template's data.
var roots = []string{"id", "uuid", "attempt", "parameters", "secrets", "action"}

// Template is a text with places that an action's data fills. Parameter values are data, never
// templates.
type Template struct {
	field string
	text  string
	tmpl  *template.Template
	tree  *parse.Tree
}

// ParseTemplate compiles a text. field names it in errors, such as url or body.
func ParseTemplate(field, text string, names Names) (*Template, error) {
	return parseTemplate(field, text, checker{names: names, roots: roots}, functions(names.Env))
}

// ParseLane compiles a lane's text. It may speak of .parameters and of .url, the rendered address.
func ParseLane(text string, names Names) (*Template, error) {
	functions := functions(names.Env)
	functions["urlHost"] = urlHost
	return parseTemplate("lane", text, checker{names: names, roots: []string{"parameters", "url"}}, functions)
}

func parseTemplate(field, text string, check checker, functions template.FuncMap) (*Template, error) {
	tmpl, err := template.New(field).Option("missingkey=error").Funcs(functions).Parse(text)
	if err != nil {
		return nil, errors.New(plainError(field, err))
	}
	t := &Template{field: field, text: text, tmpl: tmpl, tree: tmpl.Tree}
	if t.tree == nil { // nothing but definitions
		t.tree = &parse.Tree{Root: &parse.ListNode{}}
	}
	check.list(t.tree.Root)
	if check.fault != nil {
		return nil, check.fault
	}
	return t, nil
}

// Text returns the template as it was written.
func (t *Template) Text() string { return t.text }

// Constant reports whether the text is the same for every action.
func (t *Template) Constant() bool { return !slices.ContainsFunc(ofActions, t.Uses) }

// ofActions are the roots of a template's data that differ between actions.
var ofActions = []string{"id", "uuid", "attempt", "parameters", "action"}

// Uses reports whether the template speaks of a root of its data, such as secrets.
func (t *Template) Uses(root string) bool { return speaksOf(t.tree.Root, root) }

// UsesName reports whether it speaks of one name below a root. A template that takes the root whole
// uses all of its names.
func (t *Template) UsesName(root, name string) bool {
	uses := false
	visit(t.tree.Root, func(path []string) {
		whole := len(path) == 0 || path[0] == root && len(path) == 1
		uses = uses || whole || path[0] == root && path[1] == name
	})
	return uses
}

// Render fills the template. An error names the field and what is missing; it may quote values, so
// redact it.
func (t *Template) Render(data any) (string, error) {
	var b bounded
	if err := t.tmpl.Execute(&b, data); err != nil {
		if errors.Is(err, errTooLong) {
			return "", fmt.Errorf("%s: %w", t.field, errTooLong)
		}
		return "", errors.New(plainError(t.field, err))
	}
	return b.String(), nil
}

// plainError returns what the template package says, without its own words around it: "url:
// .parameters.team: …".
func plainError(field string, err error) string {
	text := strings.TrimPrefix(err.Error(), "template: ")
	if _, rest, ok := strings.Cut(text, " at <"); ok {
		if at, what, ok := strings.Cut(rest, ">: "); ok {
			return field + ": " + at + ": " + what
		}
	}
	if rest, ok := strings.CutPrefix(text, field+":"); ok {
		if place, what, ok := strings.Cut(rest, ": "); ok {
			return fmt.Sprintf("%s, line %s: %s", field, place, what)
		}
	}
	return text
}

var errTooLong = fmt.Errorf("the text is longer than %d bytes", maxText)

// bounded is a buffer that refuses to grow beyond maxText.
type bounded struct{ strings.Builder }

func (b *bounded) Write(p []byte) (int, error) {
	if b.Len()+len(p) > maxText {
		return 0, errTooLong
	}
	return b.Builder.Write(p)
}

// checker finds the first thing in a template that nothing will ever fill.
type checker struct {
	names Names
	roots []string
	fault error
}

func (c *checker) list(n *parse.ListNode) {
	visit(n, c.path)
	visitCalls(n, c.call)
}

func (c *checker) path(path []string) {
	if c.fault != nil || len(path) == 0 {
		return
	}
	if !slices.Contains(c.roots, path[0]) {
		c.fault = unknown("."+path[0], path[0], c.roots)
		return
	}
	var known []string
	switch path[0] {
	case "parameters":
		known = c.names.Parameters
	case "secrets":
		known = c.names.Secrets
	default:
		return
	}
	if len(path) > 1 && !slices.Contains(known, path[1]) {
		c.fault = unknown("."+path[0]+"."+path[1], path[1], known)
	}
}

func (c *checker) call(name string, arguments []parse.Node) {
	if c.fault != nil || name != "env" || len(arguments) != 1 {
		return
	}
	if text, ok := arguments[0].(*parse.StringNode); ok && !slices.Contains(c.names.Env, text.Text) {
		c.fault = fmt.Errorf("env %q: add it to templateEnv, or it may not be read", text.Text)
	}
}

func unknown(what, name string, known []string) error {
	if near := fault.Nearest(name, known); near != "" {
		return fmt.Errorf("%s not found (did you mean %q?)", what, near)
	}
	return fmt.Errorf("%s not found", what)
}
