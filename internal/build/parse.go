package build

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/document"
	"github.com/waybill-dev/waybill/internal/fault"
)

// Parse reads a document in the format. Every fault of it is returned at once,
// sorted by position; warnings among them do not block.
func Parse(root *document.Node) (*File, fault.Problems) {
	file, problems := read(root, nil)
	file.root = root
	problems.Sort()
	return file, problems
}

// reader reads a file, before substitution or after it.
type reader struct {
	document.Reader
	replaced map[*document.Node]bool // values that came from variables; nil: nothing was replaced yet
}

func read(root *document.Node, replaced map[*document.Node]bool) (*File, fault.Problems) {
	r := &reader{replaced: replaced}
	r.Separator = "/"
	r.Accept = r.accept
	r.Missing = func(p fault.Problem, _, _ string) fault.Problem { return p }
	file := &File{}
	for i := range root.Fields {
		switch f := &root.Fields[i]; f.Key {
		case keyEnvironments:
			file.Environments = r.environments(f.Value)
		case keyInputs:
			r.later(f, keyInputs)
		}
	}
	for i := range root.Fields {
		if f := &root.Fields[i]; f.Key != keyEnvironments && f.Key != keyInputs {
			file.Stages = append(file.Stages, r.stage(f, file.Environments))
		}
	}
	return file, r.Problems
}

// accept lets values pass that variables decide: before substitution whatever
// holds one, after it a scalar of any kind where a string is wanted, and the words true and false.
func (r *reader) accept(n *document.Node, want document.Shape) bool {
	switch {
	case r.replaced == nil:
		return n.Kind == document.String && strings.Contains(n.Text, "${")
	case !r.replaced[n] || n.Kind == document.List || n.Kind == document.Map:
		return false
	case want&document.Flag != 0:
		return n.Text == "true" || n.Text == "false"
	}
	return want&document.Text != 0 && n.Kind != document.String
}

func (r *reader) later(f *document.Field, scope string) {
	r.Problems.Add(fault.Problem{Position: f.At, Code: "not-supported", Scope: scope,
		Text: fmt.Sprintf("%q is not yet supported", f.Key)})
}

func (r *reader) environments(n *document.Node) []Environment {
	if n.Kind != document.Map {
		r.Add(n, "wrong-kind", keyEnvironments, "want a mapping of names to variables, found %s", n.Kind)
		return nil
	}
	var out []Environment
	for _, f := range n.Fields {
		scope := r.Join(keyEnvironments, f.Key)
		if f.Value.Kind != document.Map && f.Value.Kind != document.Null {
			r.Add(f.Value, "wrong-kind", scope, "want a mapping of variables, found %s", f.Value.Kind)
		}
		values := map[string]Value{}
		for _, v := range f.Value.Fields {
			if v.Value.Kind == document.List || v.Value.Kind == document.Map {
				r.Add(v.Value, "wrong-kind", r.Join(scope, v.Key), "want a scalar, found %s", v.Value.Kind)
				continue
			}
			values[v.Key] = Value{Text: scalarText(v.Value), Kind: v.Value.Kind, At: v.Value.At}
		}
		out = append(out, Environment{Name: f.Key, At: f.At, Values: values})
	}
	return out
}

// scalarText returns the text by which a scalar replaces a variable; null is empty.
func scalarText(n *document.Node) string {
	if n.Kind == document.Null {
		return ""
	}
	return n.Text
}

func (r *reader) stage(f *document.Field, known []Environment) Stage {
	stage := Stage{Name: f.Key, At: f.At, RunsIf: Success, FailFast: true}
	if f.Value.Kind != document.Map {
		r.Add(f.Value, "wrong-kind", f.Key, "want a mapping of steps, found %s%s", f.Value.Kind, stageHint(f.Key))
		return stage
	}
	if len(f.Value.Fields) == 0 {
		r.Add(f.Value, "stage-empty", f.Key, "the stage has no steps")
	}
	for i := range f.Value.Fields {
		field := &f.Value.Fields[i]
		if !isStageKey(field) {
			stage.Steps = append(stage.Steps, r.step(field, f.Key))
			continue
		}
		r.stageKey(field, &stage, known)
	}
	return stage
}

// stageHint suggests the reserved key that was misspelled, since a misspelled key becomes a stage.
func stageHint(name string) string {
	if near := fault.Nearest(strings.ToLower(name), []string{keyInputs, keyEnvironments}); near != "" || strings.ToLower(name) == keyEnvironments {
		if near == "" {
			near = keyEnvironments
		}
		return fmt.Sprintf(` (did you mean "%s"?)`, near)
	}
	return ""
}

// isStageKey reports whether f is a stage's own key and not a step. Two of the names are a step
// when a mapping follows.
func isStageKey(f *document.Field) bool {
	if document.Find(stageTable(), f.Key) == nil {
		return false
	}
	older := f.Key == "run-if" || f.Key == "fail-fast"
	return !older || f.Value.Kind != document.Map
}

func (r *reader) stageKey(f *document.Field, stage *Stage, known []Environment) {
	scope := r.Join(stage.Name, f.Key)
	switch f.Key {
	case keyEnvironments:
		stage.Environments = r.stageEnvironments(f, scope, known)
	case "fail-fast":
		if r.fits(f.Value, scope, document.Flag) {
			stage.FailFast = !isFalse(f.Value)
		}
	case "run-if", "runs-if":
		if f.Key == "run-if" {
			r.Problems.Add(fault.Problem{Position: f.At, Code: "renamed", Scope: scope,
				Text: "run-if is now runs-if", Warning: true})
		}
		if r.fits(f.Value, scope, document.Text) {
			stage.RunsIf = r.condition(f.Value, scope, "runs-if-invalid")
		}
	}
}

// fits checks one scalar against a shape and reports whether it may be read.
func (r *reader) fits(n *document.Node, scope string, want document.Shape) bool {
	if want.Fits(n) || r.accept(n, want) {
		return true
	}
	r.Add(n, "wrong-kind", scope, "want %s, found %s", want, n.Kind)
	return false
}

// open reports whether variables still decide the value.
func (r *reader) open(n *document.Node) bool {
	return r.replaced == nil && strings.Contains(n.Text, "${")
}

func (r *reader) condition(n *document.Node, scope, code string) Condition {
	c := Condition(strings.ToLower(n.Text))
	if c == Success || c == Fail || c == Always {
		return c
	}
	if !r.open(n) {
		r.Add(n, code, scope, "%q is none of success, fail, always", n.Text)
	}
	return Success
}

func (r *reader) stageEnvironments(f *document.Field, scope string, known []Environment) []string {
	n := f.Value
	if n.Kind != document.List {
		r.Add(n, "wrong-kind", scope, "want a list of strings, found %s", n.Kind)
		return nil
	}
	var names, out []string
	for _, e := range known {
		names = append(names, e.Name)
	}
	for i, item := range n.Items {
		at := document.Index(scope, i)
		switch {
		case !r.fits(item, at, document.Text):
		case item.Text == "":
			r.Add(item, "environment-empty", at, "the name of an environment must not be empty")
		case !slices.Contains(names, item.Text) && !r.open(item):
			r.Problems.Add(fault.Problem{Position: item.At, Code: "environment-unknown", Scope: at,
				Text: fmt.Sprintf("environment %q not found", item.Text), Suggestion: fault.Nearest(item.Text, names)})
		default:
			out = append(out, item.Text)
		}
	}
	return out
}

func (r *reader) step(f *document.Field, stage string) Step {
	step := Step{Name: f.Key, At: f.At}
	scope := r.Join(stage, f.Key)
	if f.Value.Kind != document.Map {
		r.Add(f.Value, "wrong-kind", scope, "want a step, a mapping with a step type such as container, found %s", f.Value.Kind)
		return step
	}
	var types []*document.Field
	for i := range f.Value.Fields {
		field := &f.Value.Fields[i]
		switch {
		case document.Find(stepTypes(), field.Key) != nil:
			types = append(types, field)
			r.stepType(field, scope, &step)
		case document.Find(stepTable(), field.Key) != nil:
			r.stepKey(field, scope, &step)
		case r.replaced == nil && strings.Contains(field.Key, "${"):
			types = append(types, field) // a variable decides
		default:
			r.unknownType(field, scope)
			types = append(types, field)
		}
	}
	switch {
	case len(types) == 0:
		r.Add(f.Value, "step-type-missing", scope, "the step has no type; want one of %s", strings.Join(document.Names(stepTypes()), ", "))
	case len(types) > 1:
		r.tooManyTypes(types, f.Value, scope)
	}
	return step
}

func (r *reader) unknownType(f *document.Field, scope string) {
	known := append(document.Names(stepTypes()), document.Names(stepTable())...)
	r.Problems.Add(fault.Problem{Position: f.At, Code: "step-type-unknown", Scope: scope,
		Text: fmt.Sprintf("%q is neither a step type nor a key of a step", f.Key), Suggestion: fault.Nearest(f.Key, known)})
}

// tooManyTypes returns one fault for the step, unless what is too much has been reported as unknown.
func (r *reader) tooManyTypes(types []*document.Field, step *document.Node, scope string) {
	var names []string
	for _, f := range types {
		if document.Find(stepTypes(), f.Key) != nil {
			names = append(names, f.Key)
		}
	}
	if len(names) > 1 {
		r.Add(step, "step-type-many", scope, "the step has %d types, %s; want one", len(names), strings.Join(names, " and "))
	}
}

// stepType checks and reads the fields of a step type.
func (r *reader) stepType(f *document.Field, scope string, step *Step) {
	key := document.Find(stepTypes(), f.Key)
	if key.Later {
		r.Problems.Add(fault.Problem{Position: f.At, Code: "not-supported", Scope: scope,
			Text: fmt.Sprintf("the step type %q is not yet supported; container is", f.Key)})
		return
	}
	path := r.Join(scope, f.Key)
	if !r.Check(f.Value, document.Place{Path: path, At: f.At}, key.Keys) {
		return
	}
	n := f.Value
	step.Type = f.Key
	step.Container = Container{Image: n.Str("image"), Commands: n.Strs("cmds"), OS: n.Str("os"), Shell: n.Str("shell")}
	if step.Container.OS == "" {
		step.Container.OS = "linux"
	}
	if step.Container.Shell == "" {
		step.Container.Shell = "/bin/sh"
	}
}

// stepKey checks and reads one key beside the step type.
func (r *reader) stepKey(f *document.Field, scope string, step *Step) {
	key := document.Find(stepTable(), f.Key)
	path := r.Join(scope, f.Key)
	if key.Later {
		r.later(f, path)
		return
	}
	single := &document.Node{Kind: document.Map, Fields: []document.Field{*f}}
	before := len(r.Problems)
	r.Check(single, document.Place{Path: scope, At: f.At}, []document.Key{*key})
	if len(r.Problems) > before {
		return
	}
	switch f.Key {
	case "timeout":
		step.Timeout = r.duration(f.Value, path)
	case "artifacts":
		step.Artifacts = r.artifacts(f.Value, path)
	case "test-results":
		step.Tests = r.testRules(f, path)
	}
}

func (r *reader) duration(n *document.Node, scope string) time.Duration {
	d, err := time.ParseDuration(n.Text)
	if (err != nil || d <= 0) && !r.open(n) {
		r.Add(n, "duration-invalid", scope, "%q is not a valid duration; write one such as 90s, 10m or 1h30m", n.Text)
		return 0
	}
	return d
}

func (r *reader) artifacts(n *document.Node, scope string) []ArtifactRule {
	var out []ArtifactRule
	for i, item := range n.Items {
		rule := ArtifactRule{Path: item.Text, When: Success}
		glob, at := item, document.Index(scope, i)
		if item.Kind == document.Map {
			rule.Path, rule.Name = item.Str("path"), item.Str("name")
			glob = item.Get("path")
			rule.Archive = item.Get("archive") != nil && !isFalse(item.Get("archive"))
			if when := item.Get("when"); when != nil {
				rule.When = r.condition(when, r.Join(at, "when"), "when-invalid")
			}
		}
		if !r.open(glob) {
			r.glob(glob, at)
		}
		out = append(out, rule)
	}
	return out
}

func (r *reader) glob(n *document.Node, scope string) {
	switch cleaned := path.Clean(n.Text); {
	case path.IsAbs(n.Text), cleaned == "..", strings.HasPrefix(cleaned, "../"):
		r.Add(n, "path-outside", scope, "%q leaves the workspace", n.Text)
	case CheckGlob(n.Text) != nil:
		r.Add(n, "glob-invalid", scope, "%q is not a valid glob: %v", n.Text, CheckGlob(n.Text))
	}
}

// isFalse reads a flag that has passed the check.
func isFalse(n *document.Node) bool { return strings.EqualFold(n.Text, "false") }
