package definition

import (
	"fmt"
	"maps"
	"net/url"
	"slices"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/pipeline"
)

// Target is a host of a definition with everything that it inherits, variables replaced.
type Target struct {
	Stage   pipeline.Stage
	Group   pipeline.Group
	Host    pipeline.Host
	Service pipeline.Service
	Test    []pipeline.Check
	Chain   []pipeline.Step
	Vars    map[string]string
}

// Revision holds the values of ${revision} and ${release}.
type Revision struct {
	Label   string // label of the revision
	Release string // name of the release's folder
}

// Address returns the value of ${address}, the address at which a host is reached, without the port.
func Address(h pipeline.Host) string {
	if u, err := url.Parse(h.URL); err == nil && h.Remote() {
		return u.Hostname()
	}
	return "127.0.0.1"
}

// Resolve returns the host at a full path such as greeter/prod/east/elm; fault.NotFound when the
// definition has none there, fault.Invalid for a variable that is not set.
func Resolve(d *pipeline.Definition, path string, rev Revision) (Target, error) {
	stage, group, host, ok := d.Find(path)
	if !ok || host == nil {
		return Target{}, fault.New(fault.NotFound, "host %s not found in the definition", path)
	}
	t := Target{Stage: *stage, Group: *group, Host: *host, Service: d.ServiceOf(stage, group, host), Vars: d.VarsOf(stage, group, host)}
	maps.Copy(t.Vars, map[string]string{"host": host.Name, "stage": stage.Name, "group": group.Name,
		"address": Address(*host), "revision": rev.Label, "release": rev.Release})
	return t, t.expand()
}

// expand replaces the variables in everything that may use them, on copies.
func (t *Target) expand() error {
	x := expander{vars: t.Vars}
	t.Service.Exec, t.Service.Before, t.Service.After = x.list(t.Service.Exec), x.list(t.Service.Before), x.list(t.Service.After)
	t.Service.Env, t.Service.Secrets = x.texts(t.Service.Env), x.texts(t.Service.Secrets)
	t.Test, t.Service.Ready.Checks = x.checks(t.Stage.Test), x.checks(t.Service.Ready.Checks)
	t.Chain = slices.Clone(t.Stage.Chain)
	for i := range t.Chain {
		t.Chain[i].Run = x.list(t.Chain[i].Run)
	}
	if x.err != nil {
		return fault.New(fault.Invalid, "%w for host %s/%s/%s", x.err, t.Stage.Name, t.Group.Name, t.Host.Name)
	}
	return nil
}

// expander keeps the first error.
type expander struct {
	vars map[string]string
	err  error
}

func (x *expander) text(s string) string {
	out, err := Expand(s, x.vars)
	if err != nil && x.err == nil {
		x.err = fmt.Errorf("expand %q: %w", s, err)
	}
	return out
}

func (x *expander) texts(in map[string]string) map[string]string {
	out := maps.Clone(in)
	for _, name := range slices.Sorted(maps.Keys(in)) {
		out[name] = x.text(in[name])
	}
	return out
}

func (x *expander) checks(in []pipeline.Check) []pipeline.Check {
	out := slices.Clone(in)
	for i := range out {
		c := &out[i]
		c.HTTP, c.TCP, c.Body, c.Run = x.text(c.HTTP), x.text(c.TCP), x.text(c.Body), x.list(c.Run)
		c.Headers = x.texts(c.Headers)
	}
	return out
}

func (x *expander) list(in []string) []string {
	var out []string
	for _, s := range in {
		out = append(out, x.text(s))
	}
	return out
}
