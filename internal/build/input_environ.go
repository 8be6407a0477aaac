package build

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/waybill-dev/waybill/internal/fault"
)

// Bounds of the values of inputs that steps get as environment variables, in bytes. A system starts no program with much more.
const (
	maxInputVariable  = 64 << 10  // bytes of one variable
	maxInputVariables = 256 << 10 // bytes of all variables
)

// InputVariable returns the environment variable that has the value of an input: WAYBILL_INPUT_LOG_LEVEL of log-level.
func InputVariable(input string) string {
	return "WAYBILL_INPUT_" + strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z':
			return r - 'a' + 'A'
		case 'A' <= r && r <= 'Z', '0' <= r && r <= '9':
			return r
		}
		return '_'
	}, input)
}

// inputEnviron is the inputs as environment variables.
type inputEnviron struct {
	plain  []string    // NAME=value, which every step gets
	secret [][2]string // names and values that have passwords, also empty ones
}

// hidden returns the variables with an impossible value for each password, also for empty ones.
func (vs Variables) hidden() Variables {
	hidden := Source{Values: map[string]Value{}}
	for _, s := range vs {
		for name := range s.Values {
			if v, _ := vs.Lookup(name); v.Secret {
				v.Text = "\x00"
				hidden.Values[name] = v
			}
		}
	}
	return append(Variables{hidden}, vs...)
}

// inputEnviron returns the values of the inputs, with their own variables replaced, and those that no variable can have.
func (f *File) inputEnviron(variables Variables) (e inputEnviron, problems fault.Problems) {
	hidden, size, seen := variables.hidden(), 0, map[string]bool{}
	var loops metLoops
	for i, in := range f.Inputs {
		name := InputVariable(in.Name)
		if seen[name] {
			continue // it has a warning of its own
		}
		seen[name] = true
		given, _ := variables.Lookup(in.Name)
		value, _, err := Substitute(variables, given.Text)
		if loops.again(err) {
			continue
		}
		if err != nil {
			problems.Add(fault.Problem{Position: in.At, Code: "variable-loop", Scope: keyInputs + "/" + strconv.Itoa(i),
				Text: fmt.Sprintf("the value of %q: %v; ${%%NAME%%} is a literal ${NAME}", in.Name, err)})
			continue
		}
		if size += len(name) + len(value); len(value) > maxInputVariable || size > maxInputVariables || strings.Contains(value, "\x00") {
			size -= len(name) + len(value)
			problems.Add(fault.Problem{Position: in.At, Code: "input-large", Scope: keyInputs, Warning: true,
				Text: fmt.Sprintf("the value of %q is too large to be an environment variable, or has a NUL; steps do not get %s", in.Name, name)})
			continue
		}
		shown, _ := hidden.Lookup(in.Name)
		if other, _, err := Substitute(hidden, shown.Text); err != nil || other != value {
			e.secret = append(e.secret, [2]string{name, value})
		} else {
			e.plain = append(e.plain, name+"="+value)
		}
	}
	return e, problems
}

// givePasswords gives the steps that name the variable of a password its value. Others do not get it.
func (p *Plan) givePasswords(inputs inputEnviron) {
	if len(inputs.secret) == 0 {
		return
	}
	p.passwords = map[int][]string{}
	for i := range p.Steps {
		step := &p.Steps[i]
		text, _ := json.Marshal(step.Spec) // strings and numbers always marshal
		for _, pair := range inputs.secret {
			if namesVariable(string(text), pair[0]) {
				p.passwords[step.ID] = append(p.passwords[step.ID], pair[0]+"="+pair[1])
				step.password = step.password || pair[1] != ""
			}
		}
	}
}

// namesVariable reports whether a text has the name of a variable, and not only that of a longer one.
func namesVariable(text, name string) bool {
	for {
		_, after, found := strings.Cut(text, name)
		if !found {
			return false
		}
		if after == "" || !strings.ContainsAny(after[:1], "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_") {
			return true
		}
		text = after
	}
}

// inputClashes warns of inputs whose environment variables have one name, of which the first is the one.
func inputClashes(inputs []Input) (warnings fault.Problems) {
	first := map[string]Input{}
	for _, in := range inputs {
		name := InputVariable(in.Name)
		if other, ok := first[name]; ok {
			warnings.Add(fault.Problem{Position: in.At, Code: "input-variable", Scope: keyInputs, Warning: true,
				Text: fmt.Sprintf("%s has the value of the input %q, not of %q", name, other.Name, in.Name)})
			continue
		}
		first[name] = in
	}
	return warnings
}
