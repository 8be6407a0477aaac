package build

import (
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/waybill-dev/waybill/internal/document"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/mask"
)

// maskedValue is in the place of a password.
const maskedValue = "***"

// passwords returns the variables that are passwords and not empty, by name.
func (vs Variables) passwords() map[string]Value {
	found := map[string]Value{}
	for _, s := range vs {
		for name := range s.Values {
			if v, _ := vs.Lookup(name); v.Secret && v.Text != "" {
				found[name] = v
			}
		}
	}
	return found
}

// masked returns the variables with *** for each password.
func (vs Variables) masked() Variables {
	passwords := vs.passwords()
	if len(passwords) == 0 {
		return vs
	}
	hidden := Source{Values: map[string]Value{}}
	for name, v := range passwords {
		v.Text = maskedValue
		hidden.Values[name] = v
	}
	return append(Variables{hidden}, vs...)
}

// maxSecrets is the size in bytes of all passwords of a build, each as it was given and with its
// variables replaced.
const maxSecrets = 256 << 10

// secrets returns the passwords, as they were given and with their variables replaced.
func (vs Variables) secrets() ([]string, fault.Problems) {
	found := map[string]bool{}
	size := 0
	passwords := vs.passwords()
	for _, name := range slices.Sorted(maps.Keys(passwords)) {
		v := passwords[name]
		found[v.Text] = true
		replaced, _, err := Substitute(vs, v.Text)
		if err == nil {
			found[replaced] = true
		}
		if size += len(v.Text) + len(replaced); size > maxSecrets {
			return nil, fault.Problems{{Position: v.At, Code: "password-large", Scope: keyInputs,
				Text: fmt.Sprintf("the passwords have more than %d bytes in all", maxSecrets)}}
		}
	}
	return slices.Sorted(maps.Keys(found)), nil
}

// shortPasswords warns of passwords that would be found in everything.
func (vs Variables) shortPasswords() fault.Problems {
	var problems fault.Problems
	for name, v := range vs.passwords() {
		if len(v.Text) < mask.Shortest {
			problems = append(problems, fault.Problem{Position: v.At, Code: "password-short", Scope: keyInputs, Warning: true,
				Text: fmt.Sprintf("the password %q has fewer than %d bytes, so it stays in what steps print", name, mask.Shortest)})
		}
	}
	problems.Sort()
	return problems
}

// maskProblems returns problems whose texts have no passwords.
func maskProblems(problems fault.Problems, secrets []string) fault.Problems {
	set := mask.NewSet(secrets...)
	out := slices.Clone(problems)
	for i, p := range out {
		out[i].Scope, out[i].Text, out[i].Suggestion = set.Text(p.Scope), set.Text(p.Text), set.Text(p.Suggestion)
	}
	return out
}

// cachePasswords reports keys of caches that passwords decide: they would be the names of files.
func (p *Plan) cachePasswords(clear *Plan) (problems fault.Problems) {
	for i, step := range p.Steps {
		for j, rule := range step.Cache {
			other := clear.Steps[i].Cache[j]
			if rule.Key != other.Key || !slices.Equal(rule.Restore, other.Restore) {
				problems.Add(fault.Problem{Position: step.At, Code: "cache-password", Scope: document.Index(step.Path()+"/"+keyCache, j),
					Text: "the key of a cache, which is the name of a file, must not have a password"})
			}
		}
	}
	return problems
}

// argumentPasswords reports passwords among the arguments of tools and services, which others can read. Those in commands of a step
// are passed in another way.
func (p *Plan) argumentPasswords(clear *Plan) (problems fault.Problems) {
	for i, step := range p.Steps {
		other := clear.Steps[i].Spec
		same := step.Type == "container" || slices.Equal(step.Spec.Argv, other.Argv)
		for j, service := range step.Spec.Services {
			same = same && slices.Equal(service.Argv, other.Services[j].Argv)
		}
		if !same {
			problems.Add(fault.Problem{Position: step.At, Code: "password-argument", Scope: step.Path(),
				Text: "a password must not be an argument of a program; a file that helm or kubectl reads may have it as a " +
					"variable, and secretArgs of docker name secrets"})
		}
	}
	return problems
}

// conceal puts the steps of a plan with passwords behind those of the plan without.
func (p *Plan) conceal(clear *Plan, secrets []string) {
	p.secrets = secrets
	for i := range p.Steps {
		step := &clear.Steps[i]
		secret := !slices.Equal(step.Spec.Argv, p.Steps[i].Spec.Argv)
		p.Steps[i].Spec.Secret, step.Spec.Secret = secret, secret
		p.Steps[i].clear, p.Steps[i].password = step, !reflect.DeepEqual(p.Steps[i].Spec, step.Spec)
	}
}

// Secrets returns the passwords of the build, which must be neither stored nor shown. A plan that
// was stored has none.
func (p *Plan) Secrets() []string { return p.secrets }

// Clear returns the step with its passwords, for a runner; it must be neither stored nor shown.
func (s PlanStep) Clear() PlanStep {
	if s.clear == nil {
		return s
	}
	return *s.clear
}
