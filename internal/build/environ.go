package build

import (
	"fmt"
	"maps"
	"regexp"
	"slices"

	"github.com/waybill-dev/waybill/internal/document"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/mask"
)

// SecretName is a secret that a step gets as an environment variable of that name.
type SecretName struct {
	Name string
	At   fault.Position
}

var secretName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// secretNames reads the secrets of a step.
func (r *reader) secretNames(n *document.Node, scope string) []SecretName {
	var out []SecretName
	for i, item := range n.Items {
		if !secretName.MatchString(item.Text) && !r.open(item) {
			r.Add(item, "secret-name", document.Index(scope, i), "%q cannot be the name of an environment variable", item.Text)
		}
		out = append(out, SecretName{item.Text, item.At})
	}
	return out
}

// DefaultSecrets is the Local of the secrets that steps name alone.
const DefaultSecrets = "default"

// LeaveSecrets leaves the secrets that are objects of a cluster to the cluster: SecretFiles and SetSecrets pass over them.
func (p *Plan) LeaveSecrets() {
	for i := range p.Steps {
		step := &p.Steps[i]
		step.secretsLeft = true
		if slices.ContainsFunc(step.Spec.Secrets, func(keys SecretKeys) bool { return keys.Local == DefaultSecrets }) {
			step.secretsAt = nil
		}
	}
}

// SecretFiles lists the Local of every secret of the plan, each once, sorted.
func (p *Plan) SecretFiles() []string {
	var files []string
	for _, step := range p.Steps {
		if len(step.secretsAt) > 0 {
			files = append(files, DefaultSecrets)
		}
		for _, keys := range step.Spec.Secrets {
			if !step.secretsLeft {
				files = append(files, keys.Local)
			}
		}
	}
	slices.Sort(files)
	return slices.Compact(files)
}

// SetSecrets gives the plan the values of the secrets that its steps want, by Local and then by key. Values that are
// missing are faults; one that is too short to be found in the output of steps is a warning.
func (p *Plan) SetSecrets(files map[string]map[string]string) fault.Problems {
	s := &secretSetter{plan: p, files: files}
	p.environ = map[int][]string{}
	for i := range p.Steps {
		step := &p.Steps[i]
		for _, named := range step.secretsAt {
			value, ok := files[DefaultSecrets][named.Name]
			if !ok {
				s.problems.Add(fault.Problem{Position: named.At, Code: "secret-missing", Scope: step.Path() + "/secrets",
					Text: fmt.Sprintf(
						"the secret %s has no value; set WAYBILL_SECRET_%s, or put %s=… into default.env of the folder of "+
							"secrets (--secrets)", named.Name, named.Name, named.Name)})
				continue
			}
			s.check(named.At, step.Path()+"/secrets", named.Name, value)
			s.give(step, named.Name, value)
		}
		for _, keys := range step.Spec.Secrets {
			if keys.Local != DefaultSecrets && !step.secretsLeft {
				s.giveKeys(step, keys)
			}
		}
	}
	s.problems.Sort()
	return s.problems
}

// secretSetter gives the steps of a plan their secrets.
type secretSetter struct {
	plan     *Plan
	files    map[string]map[string]string
	problems fault.Problems
}

// giveKeys gives a step the keys of a file, all or one. A key that cannot be the name of a variable is left out, as in a cluster.
func (s *secretSetter) giveKeys(step *PlanStep, keys SecretKeys) {
	file, ok := s.files[keys.Local]
	if _, there := file[keys.Key]; !ok || keys.Key != "" && !there {
		key := keys.Key
		if key == "" {
			key = "NAME"
		}
		s.problems.Add(fault.Problem{Position: step.At, Code: "secret-missing", Scope: step.Path(),
			Text: fmt.Sprintf("the step has a secret without a value; put %s=… into %s.env of the folder of secrets (--secrets)", key, keys.Local)})
		return
	}
	variables := map[string]string{keys.Key: keys.Name} // names of variables, by key
	if keys.Key == "" {
		variables = map[string]string{}
		for key := range file {
			if secretName.MatchString(key) {
				variables[key] = key
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(variables)) {
		s.check(step.At, step.Path()+"/"+step.Type, key, file[key])
		s.give(step, variables[key], file[key])
	}
}

// check warns of a secret that is too short to be masked.
func (s *secretSetter) check(at fault.Position, scope, secret, value string) {
	if len(value) < mask.Shortest {
		s.problems.Add(fault.Problem{Position: at, Code: "password-short", Scope: scope, Warning: true,
			Text: fmt.Sprintf("the secret %s has fewer than %d bytes, so it stays in what steps print", secret, mask.Shortest)})
	}
}

// give gives a step a variable with the value of a secret.
func (s *secretSetter) give(step *PlanStep, variable, value string) {
	s.plan.environ[step.ID] = append(s.plan.environ[step.ID], variable+"="+value)
	if !slices.Contains(s.plan.secrets, value) {
		s.plan.secrets = append(s.plan.secrets, value)
	}
}

// Environ returns the secrets and the passwords of a step as NAME=value, for a runner; they must be neither stored nor shown.
func (p *Plan) Environ(step int) []string { return slices.Concat(p.passwords[step], p.environ[step]) }
