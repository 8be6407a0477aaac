package build

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/waybill-dev/waybill/internal/fault"
)

// Request is a request to a server to build a file.
type Request struct {
	Stages      []string // none: all
	Environment string
	Inputs      map[string]string // inputs that are stored and shown
	Passwords   map[string]string
}

// CheckPlain returns the passwords of the file that are among plain inputs.
func (f *File) CheckPlain(inputs map[string]string) (problems fault.Problems) {
	for _, in := range PlainPasswords(f.Inputs, inputs) {
		problems.Add(in.PlainProblem())
	}
	return problems
}

// Check returns the faults of a request for a build of the file. Of a file with faults, which are for the build to
// report, only the passwords among its plain inputs are.
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
				Text: fmt.Sprintf("the input %q is %s, so that its value is shown; give it by -i %s, or over HTTP in inputs", name,
					in.accepts(), name)})
		}
	}
	if r.Environment != "" && !slices.ContainsFunc(f.Environments, func(e Environment) bool { return e.Name == r.Environment }) {
		problems.Add(f.unknownEnvironment(r.Environment))
	}
	if !slices.ContainsFunc(f.Stages, func(s Stage) bool { return strings.Contains(s.Name, "${") }) {
		problems.Add(f.unknownStages(r.Stages, f.root.At)...)
	}
	if problems.Err() == nil {
		problems = f.missingPasswords(r, given)
	}
	problems.Sort()
	return problems
}

// inputMark matches the value that missingPasswords gives the input with a number, to find it again in a plan. It is
// in lower case, as names of images are.
var inputMark = regexp.MustCompile(`waybill[0-9]+input`)

// missingPasswords returns the passwords without a value and a default that steps of a request use. Those that reach
// them through files and variables that are not known here is for the worker to report. given has all values of the
// request.
func (f *File) missingPasswords(r Request, given map[string]string) (problems fault.Problems) {
	missing := map[string]Input{} // by mark
	for i, in := range f.Inputs {
		if _, ok := given[in.Name]; !ok && in.Type == PasswordInput && !in.Given {
			mark := fmt.Sprintf("waybill%dinput", i)
			given[in.Name], missing[mark] = mark, in
		}
	}
	if len(missing) == 0 {
		return nil
	}
	unknown := Texts("known to the worker", map[string]string{"PROJECT_ID": "1", "REPO_NAME": "x", "REPO_GROUP": "x",
		"REG_URL": "x", "CHART_REPO": "x"})
	plan, faults := MakePlan(f, Choice{Environment: r.Environment, Stages: r.Stages, Inputs: given, Variables: Variables{unknown}})
	if faults.Err() != nil {
		return nil // the worker reports it, whatever the passwords are
	}
	for _, step := range plan.Steps {
		text, _ := json.Marshal(step.Clear()) // strings and numbers always marshal
		for _, mark := range inputMark.FindAllString(string(text)+strings.Join(plan.Environ(step.ID), " "), -1) {
			if in, ok := missing[mark]; ok {
				problems.Add(in.MissingProblem())
				delete(missing, mark)
			}
		}
	}
	return problems
}
