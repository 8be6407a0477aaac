package build

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/waybill-dev/waybill/internal/fault"
)

// Request is what a server is asked to build of a file.
type Request struct {
	Stages      []string // none: all
	Environment string
	Inputs      map[string]string // that are stored and shown
	Passwords   map[string]string
}

// CheckPlain returns the passwords of the file that are among plain inputs.
func (f *File) CheckPlain(inputs map[string]string) (problems fault.Problems) {
	for _, in := range PlainPasswords(f.Inputs, inputs) {
		problems.Add(in.PlainProblem())
	}
	return problems
}

// Check returns what is wrong with a request for a build of the file. Of a file with faults, which are for the build to report, only the
// passwords among its plain inputs are.
func (f *File) Check(r Request) (problems fault.Problems) {
	problems = f.CheckPlain(r.Inputs)
	if f.faulty || len(problems) > 0 {
		return problems
	}
	given := maps.Clone(r.Passwords)
	if given == nil {
		given = map[string]string{}
	}
	maps.Copy(given, r.Inputs)
	_, problems = f.inputSources(given)
	for _, in := range f.Inputs {
		if _, secret := r.Passwords[in.Name]; secret && in.Type != PasswordInput {
			name := VisibleText([]byte(in.Name))
			problems.Add(fault.Problem{Position: in.At, Code: "input-plain", Scope: keyInputs + "." + name,
				Text: fmt.Sprintf("the input %q is %s, so that its value is shown; give it by -i %s, or over HTTP in inputs", name, in.accepts(), name)})
		}
	}
	if r.Environment != "" && !slices.ContainsFunc(f.Environments, func(e Environment) bool { return e.Name == r.Environment }) {
		problems.Add(f.unknownEnvironment(r.Environment))
	}
	if !slices.ContainsFunc(f.Stages, func(s Stage) bool { return strings.Contains(s.Name, "${") }) {
		problems.Add(f.unknownStages(r.Stages, f.root.At)...)
	}
	problems.Sort()
	return problems
}
