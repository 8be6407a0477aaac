package build

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/document"
	"github.com/waybill-dev/waybill/internal/fault"
)

// Parse reads a document in the format. Every fault of it is returned at once,
// sorted by position; warnings among them do not block.
func Parse(root *document.Node) (*File, fault.Problems) {
	root = document.WithoutShared(root)
	file, problems := (&reader{}).read(root)
	file.root, file.faulty = root, problems.Err() != nil
	problems.Sort()
	return file, problems
}

// unknownField is the code of a key that its mapping does not have.
const unknownField = "field-unknown"

// Strict returns the problems with unknown fields of step types as faults, which otherwise are warnings.
func Strict(problems fault.Problems) fault.Problems {
	out := slices.Clone(problems)
	for i, p := range out {
		out[i].Warning = p.Warning && p.Code != unknownField
	}
	return out
}

// reader reads a file, before substitution or after it.
type reader struct {
	document.Reader
	replaced  map[*document.Node]bool // values that came from variables; nil: nothing was replaced yet
	variables Variables               // variables in the defaults of fields; nil: nothing was replaced yet
	project   Variables               // variables that name the project's Secrets; nil: variables do
	noPush    bool                    // images stay where they are built
	tools     Tools

	inType      bool           // the fields of a step type are read
	steps       int            // how many were read
	types, keys []document.Key // stepTypes and stepTable, which are made once
	stageKeys   []document.Key // the same of stageTable

	openKeys map[string]bool // scopes of mappings in which a variable is a key

	environmentNames []string        // names of environments in the file
	isEnvironment    map[string]bool // the same
	suggested        int             // how often nearest was called
}

func (r *reader) read(root *document.Node) (*File, fault.Problems) {
	r.types, r.keys, r.stageKeys, r.openKeys = stepTypes(), stepTable(), stageTable(), map[string]bool{}
	r.tools = r.tools.withDefaults()
	r.Separator = "/"
	r.Accept = r.accept
	r.Unknown, r.Missing = r.unknownKey, r.missingKey
	file := &File{}
	for i := range root.Fields {
		switch f := &root.Fields[i]; f.Key {
		case keyEnvironments:
			file.Environments = r.environments(f.Value)
			r.knowEnvironments(file.Environments)
		case keyInputs:
			file.Inputs = r.inputs(f.Value)
		}
	}
	for i := range root.Fields {
		f := &root.Fields[i]
		if f.Key == keyEnvironments || f.Key == keyInputs {
			continue
		}
		if len(file.Stages) == maxStages {
			r.Problems.Add(fault.Problem{Position: f.At, Code: "too-large", Scope: f.Key,
				Text: fmt.Sprintf("the file has more than %d stages", maxStages)})
			break
		}
		file.Stages = append(file.Stages, r.stage(f))
	}
	if r.stepNames(file) {
		r.needs(file)
	}
	r.Problems = slices.DeleteFunc(r.Problems, func(p fault.Problem) bool { return p.Text == "" })
	return file, r.Problems
}

// unknownKey lets a key pass that a variable decides, and an unknown field of a step type, which older programs
// ignored, both with a warning. It reports where a key belongs.
func (r *reader) unknownKey(p fault.Problem, scope, key string) fault.Problem {
	if r.replaced != nil || !strings.Contains(key, "${") {
		p.Warning = r.inType
		return r.atItsLevel(p, scope, key)
	}
	r.openKeys[scope] = true
	p.Code, p.Warning, p.Suggestion, p.Text = "name-variable", true, "", fmt.Sprintf("the variable in %q decides the name of a field", key)
	return p
}

// missingKey returns a problem without text, which is not reported, for a key that a variable may come to.
func (r *reader) missingKey(p fault.Problem, scope, _ string) fault.Problem {
	if r.openKeys[scope] {
		p.Text = ""
	}
	return p
}

// Bounds of a file.
const (
	maxStages    = 2000
	maxSteps     = 2000 // combinations of matrices included
	maxArtifacts = 256  // rules of a step, each of which is compared with every file
	maxCaches    = 32   // caches of a step
	maxPaths     = 64   // paths of a cache
)

// atMost reports a list with more items than are allowed; format is such as "a step has at most %d services".
func (r *reader) atMost(most int, n *document.Node, scope, format string) bool {
	if n == nil || len(n.Items) <= most {
		return true
	}
	r.Add(n.Items[most], "too-large", scope, format, most)
	return false
}

// stepNames reports names that cannot be shown, steps that a matrix gives the name of another, and a file with too
// many steps, for which it returns false.
func (r *reader) stepNames(file *File) bool {
	steps := 0
	for _, stage := range file.Stages {
		keys := map[string]string{} // keys of the steps, by name
		r.printable(stage.Name, stage.At, stage.Name)
		for _, step := range stage.Steps {
			r.printable(step.Name, step.At, r.Join(stage.Name, step.Name))
			if key, ok := keys[step.Name]; ok && (step.Name != step.Key || key != step.Key) { // else the key is repeated, which is reported
				r.Problems.Add(fault.Problem{Position: step.At, Code: "name-clash", Scope: r.Join(stage.Name, step.Key),
					Text: fmt.Sprintf("the stage has two steps %q", step.Name)})
			}
			keys[step.Name] = step.Key
			if steps++; steps == maxSteps+1 {
				r.Problems.Add(fault.Problem{Position: step.At, Code: "too-large", Scope: r.Join(stage.Name, step.Key),
					Text: fmt.Sprintf("the file comes to more than %d steps", maxSteps)})
			}
		}
	}
	return steps <= maxSteps
}

// printable reports a name that a terminal would obey, or that looks like several lines.
func (r *reader) printable(name string, at fault.Position, scope string) {
	if strings.ContainsFunc(name, func(c rune) bool { return isControl(c) || c == '\n' || c == '\t' }) {
		r.Problems.Add(fault.Problem{Position: at, Code: "name-control", Scope: scope,
			Text: fmt.Sprintf("the name %q has a control character", name)})
	}
}

// decided are the shapes of the values that a variable can decide: it has one value, so it is never a list or a
// mapping.
const decided = document.Text | document.Duration | document.Flag | document.Number | document.Scalar | document.Anything

// accept lets values pass that variables decide: before substitution a scalar that
// holds one, after it a scalar of any kind where a string is wanted, and the words true and false.
func (r *reader) accept(n *document.Node, want document.Shape) bool {
	switch {
	case r.replaced == nil:
		return n.Kind == document.String && strings.Contains(n.Text, "${") && want&decided != 0
	case !r.replaced[n] || n.Kind == document.List || n.Kind == document.Map:
		return false
	case want&document.Flag != 0:
		return n.Text == "true" || n.Text == "false"
	}
	return want&document.Text != 0 && n.Kind != document.String
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
		out = append(out, Environment{Name: f.Key, At: f.At, Values: r.values(f.Value, scope)})
	}
	return out
}

// knowEnvironments notes the names that stages may have.
func (r *reader) knowEnvironments(environments []Environment) {
	r.isEnvironment = map[string]bool{}
	for _, e := range environments {
		r.environmentNames = append(r.environmentNames, e.Name)
		r.isEnvironment[e.Name] = true
	}
}

// mostSuggested is the number of problems with suggestions from names of the file. A file may have very many wrong
// names beside very many right ones, and few of its problems are listed.
const mostSuggested = 100

// nearest suggests one of the known names of the file.
func (r *reader) nearest(name string, known []string) string {
	if r.suggested++; r.suggested > mostSuggested {
		return ""
	}
	return fault.Nearest(name, known)
}

// values reads a mapping of variables to scalars.
func (r *reader) values(n *document.Node, scope string) map[string]Value {
	values := map[string]Value{}
	for _, v := range n.Fields {
		if v.Value.Kind == document.List || v.Value.Kind == document.Map {
			r.Add(v.Value, "wrong-kind", r.Join(scope, v.Key), "want a scalar, found %s", v.Value.Kind)
			continue
		}
		values[v.Key] = Value{Text: scalarText(v.Value), Kind: v.Value.Kind, At: v.Value.At}
	}
	return values
}

// scalarText returns the text by which a scalar replaces a variable; null is empty.
func scalarText(n *document.Node) string {
	if n.Kind == document.Null {
		return ""
	}
	return n.Text
}

func (r *reader) stage(f *document.Field) Stage {
	stage := Stage{Name: f.Key, At: f.At, RunsIf: Success, FailFast: true}
	before := len(r.Problems)
	defer func() {
		if hint := stageHint(f.Key); len(r.Problems) > before && hint != "" {
			r.Problems[before].Text += hint
		}
	}()
	switch {
	case f.Value.Kind == document.Null, f.Value.Kind == document.Map && len(f.Value.Fields) == 0:
		r.Add(f.Value, "stage-empty", f.Key, "the stage has no steps")
	case f.Value.Kind != document.Map:
		r.Add(f.Value, "wrong-kind", f.Key, "want a mapping of steps, found %s", f.Value.Kind)
	}
	stage.Steps = make([]Step, 0, min(len(f.Value.Fields), max(maxSteps+1-r.steps, 0)))
	for i := range f.Value.Fields {
		field := &f.Value.Fields[i]
		switch {
		case r.isStageKey(field):
			r.stageKey(field, &stage)
		case r.steps <= maxSteps: // further ones are not worth the memory: stepNames refuses the file
			r.steps++
			stage.Steps = append(stage.Steps, r.step(field, f.Key))
		}
	}
	return stage
}

// stageHint suggests the reserved key that was misspelled, since a misspelled key becomes a stage.
func stageHint(name string) string {
	if near := fault.Nearest(strings.ToLower(name), []string{keyInputs, keyEnvironments}); near != "" ||
		strings.ToLower(name) == keyEnvironments {
		if near == "" {
			near = keyEnvironments
		}
		return fmt.Sprintf(`; %q is a stage, did you mean %q?`, name, near)
	}
	return ""
}

// isStageKey reports whether f is a stage's own key and not a step. Two of the names are a step
// when a mapping follows.
func (r *reader) isStageKey(f *document.Field) bool {
	if document.Find(r.stageKeys, f.Key) == nil {
		return false
	}
	older := f.Key == "run-if" || f.Key == "fail-fast"
	return !older || f.Value.Kind != document.Map
}

func (r *reader) stageKey(f *document.Field, stage *Stage) {
	scope := r.Join(stage.Name, f.Key)
	switch f.Key {
	case keyEnvironments:
		stage.Environments = r.stageEnvironments(f, scope)
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

func (r *reader) stageEnvironments(f *document.Field, scope string) []string {
	n := f.Value
	if n.Kind != document.List {
		r.Add(n, "wrong-kind", scope, "want a list of strings, found %s", n.Kind)
		return nil
	}
	var out []string
	for i, item := range n.Items {
		at := document.Index(scope, i)
		switch {
		case !r.fits(item, at, document.Text):
		case item.Text == "":
			r.Add(item, "environment-empty", at, "the name of an environment must not be empty")
		case !r.isEnvironment[item.Text] && !r.open(item):
			r.Problems.Add(fault.Problem{Position: item.At, Code: "environment-unknown", Scope: at,
				Text: fmt.Sprintf("environment %q not found", item.Text), Suggestion: r.nearest(item.Text, r.environmentNames)})
		default:
			out = append(out, item.Text)
		}
	}
	return out
}

func (r *reader) step(f *document.Field, stage string) Step {
	step := Step{Name: f.Key, Key: f.Key, At: f.At}
	scope := r.Join(stage, f.Key)
	if f.Value.Kind != document.Map && f.Value.Kind != document.Null {
		r.Add(f.Value, "wrong-kind", scope, "want a step, a mapping with a step type such as container, found %s", f.Value.Kind)
		return step
	}
	var types []*document.Field
	for i := range f.Value.Fields {
		field := &f.Value.Fields[i]
		switch {
		case document.Find(r.types, field.Key) != nil:
			types = append(types, field)
			r.stepType(field, scope, &step)
		case document.Find(r.keys, field.Key) != nil:
			r.stepKey(field, scope, &step)
		case r.replaced == nil && strings.Contains(field.Key, "${"):
			types = append(types, field) // a variable decides
			r.Problems.Add(fault.Problem{Position: field.At, Code: "name-variable", Scope: scope, Warning: true,
				Text: fmt.Sprintf("the variable in %q decides the type of the step", field.Key)})
		default:
			r.unknownType(field, f.Value, scope)
			types = append(types, field)
		}
	}
	if id := r.projectVariable("PROJECT_ID"); id != "" {
		for _, secret := range step.Secrets {
			step.Spec.Secrets = append(step.Spec.Secrets,
				SecretKeys{Object: r.projectObject(id) + "-secrets", Key: secret.Name, Name: secret.Name, Local: DefaultSecrets})
		}
	}
	switch {
	case len(types) == 0:
		r.Add(f.Value, "step-type-missing", scope, "the step has no type; want one of %s", strings.Join(document.Names(r.types), ", "))
	case len(types) > 1:
		r.tooManyTypes(types, f.Value, scope)
	}
	return step
}

// unknownType reports a key of a step that is not known. If it resembles none, and the step has no type, it lists the types.
func (r *reader) unknownType(f *document.Field, step *document.Node, scope string) {
	known := append(document.Names(r.types), document.Names(r.keys)...)
	text := fmt.Sprintf("%q is neither a step type nor a key of a step", f.Key)
	p := r.atItsLevel(fault.Problem{Position: f.At, Code: "step-type-unknown", Scope: scope, Text: text,
		Suggestion: fault.Nearest(f.Key, known)}, scope, f.Key)
	typed := slices.ContainsFunc(step.Fields, func(f document.Field) bool { return document.Find(r.types, f.Key) != nil })
	stage, _, _ := strings.Cut(scope, "/")
	if !typed && p.Suggestion == "" && p.Text == text && stageHint(stage) == "" {
		p.Text += "; the types are " + strings.Join(document.Names(r.types), ", ")
	}
	r.Problems.Add(p)
}

// tooManyTypes returns one fault for the step, unless the surplus has been reported as unknown.
func (r *reader) tooManyTypes(types []*document.Field, step *document.Node, scope string) {
	var names []string
	for _, f := range types {
		if document.Find(r.types, f.Key) != nil {
			names = append(names, f.Key)
		}
	}
	if len(names) > 1 {
		r.Add(step, "step-type-many", scope, "the step has %d types, %s; want one", len(names), strings.Join(names, " and "))
	}
}

// stepType checks and reads the fields of a step type.
func (r *reader) stepType(f *document.Field, scope string, step *Step) {
	path := r.Join(scope, f.Key)
	r.inType = true
	sound := r.Check(f.Value, document.Place{Path: path, At: f.At}, document.Find(r.types, f.Key).Keys)
	if r.inType = false; !sound {
		return
	}
	spec := fields{reader: r, node: f.Value, at: f.At, scope: path, step: step}.compile(f.Key)
	spec.Services, spec.Requests, spec.Limits = step.Spec.Services, step.Spec.Requests, step.Spec.Limits
	step.Type, step.Spec = f.Key, spec
}

// stepKey checks and reads one key beside the step type.
func (r *reader) stepKey(f *document.Field, scope string, step *Step) {
	path := r.Join(scope, f.Key)
	before := r.Problems.Count()
	r.CheckField(f, scope, document.Find(r.keys, f.Key))
	switch f.Key { // these are read with what is wrong, too
	case "services":
		step.Spec.Services = r.services(f.Value, path)
	case "resources":
		step.Spec.Requests, step.Spec.Limits = r.resources(f.Value, path)
	}
	if r.Problems.Count() > before {
		return
	}
	switch f.Key {
	case keyCache:
		step.Cache = r.caches(f.Value, path)
	case "secrets":
		step.Secrets = r.secretNames(f.Value, path)
	case keyMatrix:
		if r.replaced[f.Value] {
			step.Name, step.matrix = matrixName(step.Key, f.Value), matrixSource(step.Key, f.Value.Fields)
		} else {
			var problems fault.Problems
			matrixOf(f.Value, path, &problems)
			r.Problems.Add(problems...)
		}
	case "needs":
		step.Needs = readNeeds(f.Value)
	case "retry":
		step.Retry = r.retry(f.Value, path)
	case "timeout":
		step.Timeout = r.duration(f.Value, path)
	case "artifacts":
		step.Artifacts = r.artifacts(f.Value, path)
	case "test-results":
		step.Tests = r.testRules(f, path)
	}
}

// retry reads when an attempt is followed by another.
func (r *reader) retry(n *document.Node, scope string) *Retry {
	retry := &Retry{On: []Fault{Failure, Timeout, Infrastructure}, Backoff: defaultBackoff}
	attempts := n.Get("attempts")
	var err error
	if retry.Attempts, err = strconv.Atoi(attempts.Text); (err != nil || retry.Attempts < 1 ||
		retry.Attempts > maxAttempts) && !r.open(attempts) {
		r.Add(attempts, "retry-invalid", r.Join(scope, "attempts"), "want a whole number from 1 to %d", maxAttempts)
	}
	if on := n.Get("on"); on != nil {
		retry.On = nil
		for i, item := range on.Items {
			f := Fault(item.Text)
			if f != Failure && f != Timeout && f != Infrastructure && !r.open(item) {
				r.Add(item, "retry-invalid", document.Index(r.Join(scope, "on"), i), "%q is none of failure, timeout, infrastructure", item.Text)
			}
			retry.On = append(retry.On, f)
		}
	}
	if backoff := n.Get("backoff"); backoff != nil {
		retry.Backoff = r.duration(backoff, r.Join(scope, "backoff"))
	}
	return retry
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
	if !r.atMost(maxArtifacts, n, scope, "a step has at most %d artifacts") {
		return nil
	}
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
