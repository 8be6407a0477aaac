package build

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/waybill-dev/waybill/internal/document"
	"github.com/waybill-dev/waybill/internal/fault"
)

// Input is a variable whose value is requested when a build starts.
type Input struct {
	Name    string
	At      fault.Position
	Type    InputType
	Default Value
	Given   bool     // the file gives the default
	Values  []string // permitted values of a choice
}

// InputType is the type of the values of an input.
type InputType string

// The types of inputs.
const (
	StringInput   InputType = "string"
	PasswordInput InputType = "password" // a string that is neither stored nor shown
	NumberInput   InputType = "number"
	ChoiceInput   InputType = "choice" // one of its values
)

func inputTypes() []string {
	return []string{string(StringInput), string(PasswordInput), string(NumberInput), string(ChoiceInput)}
}

// inputs reads the list of inputs. Variables are replaced in their values when these are used, so a
// text with a variable is a string like any other.
func (r *reader) inputs(n *document.Node) []Input {
	if n.Kind != document.List {
		r.Add(n, "wrong-kind", keyInputs, "want a list of inputs, found %s", n.Kind)
		return nil
	}
	literal := &reader{}
	literal.Separator = "/"
	var out []Input
	names := map[string]fault.Position{}
	for i, item := range n.Items {
		in := literal.input(item, literal.Join(keyInputs, strconv.Itoa(i)))
		if first, ok := names[in.Name]; ok {
			literal.Add(item.Get("name"), "input-repeated", literal.Join(keyInputs, strconv.Itoa(i)),
				"the input %q is already at %d:%d", in.Name, first.Line, first.Column)
			continue
		}
		if in.Name != "" {
			names[in.Name] = item.Get("name").At
		}
		out = append(out, in)
	}
	r.Problems.Add(literal.Problems...)
	r.Problems.Add(inputClashes(out)...)
	return out
}

// input reads one input, by the table of its type.
func (r *reader) input(n *document.Node, scope string) Input {
	in := Input{At: n.At, Type: InputType(n.Str("type"))}
	known := in.Type
	if !slices.Contains(inputTypes(), string(known)) {
		known = ""
	}
	before := r.Problems.Count()
	if !r.Check(n, document.Place{Path: scope, At: n.At}, inputTable(known)) || r.Problems.Count() > before {
		in.Name = textOf(n.Get("name"))
		return in
	}
	in.Name, in.Values = n.Str("name"), n.Strs("values")
	in.Default = Value{Kind: document.String, At: n.At, Secret: known == PasswordInput}
	if known == NumberInput {
		in.Default.Text, in.Default.Kind = "0", document.Int
	}
	if given := n.Get("default"); given != nil {
		in.Given, in.Default.Text, in.Default.Kind, in.Default.At = true, given.Text, given.Kind, given.At
		if known == ChoiceInput && !slices.Contains(in.Values, given.Text) {
			r.Problems.Add(fault.Problem{Position: given.At, Code: "choice-default", Scope: r.Join(scope, "default"),
				Text:       fmt.Sprintf("%q is none of %s", given.Text, strings.Join(in.Values, ", ")),
				Suggestion: fault.Nearest(given.Text, in.Values)})
		}
	}
	return in
}

// textOf returns the text of a string; "" for anything else.
func textOf(n *document.Node) string {
	if n == nil || n.Kind != document.String {
		return ""
	}
	return n.Text
}

// value returns the input's value for a text that was given.
func (in Input) value(text string) (Value, error) {
	v := Value{Text: text, Kind: document.String, At: in.At, Secret: in.Type == PasswordInput}
	switch in.Type {
	case NumberInput:
		if v.Kind = document.Resolve(text); v.Kind != document.Int && v.Kind != document.Float {
			return Value{}, fmt.Errorf("%q is not a number", text)
		}
	case ChoiceInput:
		if !slices.Contains(in.Values, text) {
			return Value{}, fmt.Errorf("%q is none of %s", text, strings.Join(in.Values, ", "))
		}
	}
	return v, nil
}

// accepts describes the values that the input accepts.
func (in Input) accepts() string {
	if in.Type == ChoiceInput {
		return "one of " + strings.Join(in.Values, ", ")
	}
	return "a " + string(in.Type)
}

// PlainPasswords returns those of a file's inputs that are passwords although their values are among the plain inputs of a build.
func PlainPasswords(inputs []Input, plain map[string]string) (passwords []Input) {
	for _, in := range inputs {
		if _, given := plain[in.Name]; given && in.Type == PasswordInput {
			passwords = append(passwords, in)
		}
	}
	return passwords
}

// PlainProblem returns the faults of a password that is given as a plain input to a build of a server.
func (in Input) PlainProblem() fault.Problem {
	name := VisibleText([]byte(in.Name))
	return fault.Problem{Position: in.At, Code: "input-password", Scope: keyInputs + "." + name,
		Text: fmt.Sprintf(
			"the input %q is a password, and plain inputs are stored and shown; give it by -p %s, or over HTTP in passwords", name, name)}
}

// MissingProblem returns the faults of a password without a default that a build of a server uses and is not given.
func (in Input) MissingProblem() fault.Problem {
	name := VisibleText([]byte(in.Name))
	return fault.Problem{Position: in.At, Code: "input-missing", Scope: keyInputs + "." + name,
		Text: fmt.Sprintf(
			"the password %q is not given, and has no default; give it by -p %s, or over HTTP in passwords (-p %s= "+
				"is an empty one)", name, name, name)}
}

// inputSources returns the values that were given, and the defaults.
func (f *File) inputSources(given map[string]string) (Variables, fault.Problems) {
	var problems fault.Problems
	values, defaults := map[string]Value{}, map[string]Value{}
	for i, in := range f.Inputs {
		defaults[in.Name] = in.Default
		text, ok := given[in.Name]
		if !ok {
			continue
		}
		v, err := in.value(text)
		if err != nil {
			problems.Add(fault.Problem{Position: in.At, Code: "input-value", Scope: keyInputs + "/" + strconv.Itoa(i),
				Text: fmt.Sprintf("input %s: %v", in.Name, err), Suggestion: fault.Nearest(text, in.Values)})
			continue
		}
		values[in.Name] = v
	}
	problems = append(problems, f.unknownInputs(given)...)
	return Variables{{Name: "--input", Values: values}, {Name: "default of the input", Values: defaults}}, problems
}

// unknownInputs reports values for inputs that the file does not have, and lists those that it has.
func (f *File) unknownInputs(given map[string]string) fault.Problems {
	var names, accepted []string
	for _, in := range f.Inputs {
		names = append(names, in.Name)
		accepted = append(accepted, fmt.Sprintf("%s (%s)", in.Name, in.accepts()))
	}
	known := "the file has no inputs"
	if len(accepted) > 0 {
		known = "the file has " + strings.Join(accepted, ", ")
	}
	var problems fault.Problems
	for name := range given {
		if !slices.Contains(names, name) {
			problems.Add(fault.Problem{Position: f.rootKey(keyInputs), Code: "input-unknown", Scope: keyInputs,
				Text: fmt.Sprintf("input %q not found; %s", name, known), Suggestion: fault.Nearest(name, names)})
		}
	}
	problems.Sort()
	return problems
}

// rootKey returns the position of a root key, or of the file's root if it is absent.
func (f *File) rootKey(key string) fault.Position {
	for _, field := range f.root.Fields {
		if field.Key == key {
			return field.At
		}
	}
	return f.root.At
}
