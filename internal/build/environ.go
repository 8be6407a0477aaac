package build

import (
	"fmt"
	"regexp"

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

// SetSecrets gives the plan the values of the secrets that its steps name. Values that are missing are faults; one that is too short to be
// found in what steps print is a warning.
func (p *Plan) SetSecrets(values map[string]string) fault.Problems {
	var problems fault.Problems
	p.environ = map[string]string{}
	for _, step := range p.Steps {
		for _, s := range step.secretsAt {
			value, ok := values[s.Name]
			switch _, known := p.environ[s.Name]; {
			case !ok:
				problems.Add(fault.Problem{Position: s.At, Code: "secret-missing", Scope: step.Path() + "/secrets",
					Text: fmt.Sprintf("the secret %s has no value; set WAYBILL_SECRET_%s, or put %s=… into default.env of the folder of secrets (--secrets)", s.Name, s.Name, s.Name)})
				continue
			case known:
				continue
			case len(value) < mask.Shortest:
				problems.Add(fault.Problem{Position: s.At, Code: "password-short", Scope: step.Path() + "/secrets", Warning: true,
					Text: fmt.Sprintf("the secret %s has fewer than %d bytes, so it stays in what steps print", s.Name, mask.Shortest)})
			}
			p.environ[s.Name] = value
			p.secrets = append(p.secrets, value)
		}
	}
	problems.Sort()
	return problems
}

// Environ returns the secrets of a step as NAME=value, for a runner; they must be neither stored nor shown.
func (p *Plan) Environ(step int) (environ []string) {
	for _, name := range p.Step(step).Secrets {
		environ = append(environ, name+"="+p.environ[name])
	}
	return environ
}
