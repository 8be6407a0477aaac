package definition

import (
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/document"
	"github.com/waybill-dev/waybill/internal/pipeline"
)

var defaultReady = pipeline.Ready{For: action.Duration(5 * time.Second), Within: action.Duration(60 * time.Second)}

// overrideService reads the fields of n's service over those that it inherits.
func (r *reader) overrideService(s scope, n *document.Node, at string) scope {
	node := n.Get("service")
	at = r.Join(at, "service")
	if node == nil || node.Kind != document.Map {
		s.service.Manager = manager(s)
		return s
	}
	if name := node.Get("name"); name != nil {
		s.service.Name = name.Text
		r.unique("service").check(name, name.Text, at+".name")
	}
	if m := node.Get("manager"); m != nil {
		s.service.Manager, s.managerSet = m.Text, true
	}
	s.service = r.program(s.service, node, at)
	if restart := node.Str("restart"); restart != "" {
		s.service.Restart = restart
	}
	if node.Get("shared") != nil {
		s.service.Shared = r.shared(node, at)
	}
	if node.Get("secrets") != nil {
		s.service.Secrets = r.secrets(node.Get("secrets"), at+".secrets")
	}
	s.service.Env = r.env(s.service.Env, node.Get("env"), at+".env")
	r.onceInEnvironment(s.service, node, at)
	s.service = r.hooksReadyConfirm(s.service, node, at)
	s.service.Manager = manager(s)
	r.startable(s.service, node, at)
	return s
}

// unitName is a name of a service's unit, as systemd has them.
var unitName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9:_.@\\-]*\.service$`)

// maxUnitName is the number of bytes that systemd permits in the name of a unit.
const maxUnitName = 255

// program reads the service's start: exec or unit. Each replaces the other one of an outer level.
func (r *reader) program(s pipeline.Service, node *document.Node, at string) pipeline.Service {
	unit := node.Get("unit")
	if node.Get("exec") != nil {
		s.Exec, s.Unit = r.argv(node, "exec", at), ""
	}
	switch {
	case unit == nil:
		return s
	case node.Get("exec") != nil:
		r.Add(unit, "bad-value", at+".unit", "the service has both exec and unit")
	case !unitName.MatchString(unit.Text) || len(unit.Text) > maxUnitName:
		r.Add(unit, "bad-name", at+".unit", "unit %.300q: want the name of a unit such as greeter.service", unit.Text)
	case strings.HasPrefix(unit.Text, "waybill-"):
		r.Add(unit, "bad-name", at+".unit", "unit %q: units named waybill-… are written by Waybill: set exec, or choose another name", unit.Text)
	}
	s.Exec, s.Unit = nil, unit.Text
	return s
}

// startable reports the obstacles of the manager in force to starting the service.
func (r *reader) startable(s pipeline.Service, node *document.Node, at string) {
	switch {
	case s.Unit != "" && s.Manager != pipeline.ManagerSystemd:
		r.Add(node, "bad-value", at, "unit needs manager systemd, not %s", s.Manager)
	case s.Unit != "" && len(s.Env)+len(s.Secrets) > 0:
		r.Add(node, "bad-value", at, "the service has env or secrets, and unit %s sets its environment itself", s.Unit)
	case s.Manager == pipeline.ManagerSystemd && s.Unit == "" && len(s.Exec) == 0:
		r.Add(node, "field-missing", at, "manager systemd needs exec or unit")
	case s.Manager == pipeline.ManagerProcess && len(s.Exec) == 0:
		r.Add(node, "field-missing", at, "manager process needs exec")
	}
}

// manager returns the manager in force. If none is set, it is the process manager for exec, and systemd for unit.
func manager(s scope) string {
	switch {
	case s.managerSet:
		return s.service.Manager
	case s.service.Unit != "":
		return pipeline.ManagerSystemd
	case len(s.service.Exec) > 0:
		return pipeline.ManagerProcess
	}
	return "none"
}

func (r *reader) hooksReadyConfirm(s pipeline.Service, node *document.Node, at string) pipeline.Service {
	if h := node.Get("hooks"); h.Get("before") != nil {
		s.Before = r.argv(h, "before", at+".hooks")
	}
	if h := node.Get("hooks"); h.Get("after") != nil {
		s.After = r.argv(h, "after", at+".hooks")
	}
	wait := node.Get("ready")
	s.Ready.For = r.duration(wait.Get("for"), at+".ready.for", s.Ready.For)
	s.Ready.Within = r.positive(wait.Get("within"), at+".ready.within", s.Ready.Within)
	if wait != nil && s.Ready.For > s.Ready.Within {
		r.Add(wait, "out-of-range", at, "ready.for (%s) must not be longer than ready.within (%s)",
			time.Duration(s.Ready.For), time.Duration(s.Ready.Within))
	}
	if checks := wait.Get("checks"); checks != nil {
		s.Ready.Checks = r.checks(checks, at+".ready.checks", readyTry)
	}
	if confirm := node.Get("confirm"); confirm != nil {
		s.Confirm, s.ConfirmSet = r.duration(confirm, at+".confirm", 0), true
		if s.Confirm > 0 && s.Confirm <= s.Ready.Within {
			r.Add(confirm, "out-of-range", at, "confirm (%s) must be longer than ready.within (%s)", time.Duration(s.Confirm),
				time.Duration(s.Ready.Within))
		}
	}
	return s
}

// Time limits of one try of a check. Those of ready are short: the service may have just begun.
const (
	readyTry = action.Duration(2 * time.Second)
	testTry  = action.Duration(5 * time.Second)
)

// argv reads an argument list; one that is there must not be empty.
func (r *reader) argv(n *document.Node, key, at string) []string {
	list := n.Get(key)
	if list != nil && list.Kind == document.List && len(list.Items) == 0 {
		r.Add(list, "field-empty", at, "%s must not be empty", key)
	}
	if list != nil && len(list.Items) > 0 && list.Items[0].Text == "" {
		r.Add(list.Items[0], "field-empty", at, "%s must begin with a program", key)
	}
	return n.Strs(key)
}

// shared reads names that stay inside a release.
func (r *reader) shared(n *document.Node, at string) []string {
	names := n.Strs("shared")
	for i, name := range names {
		item := n.Get("shared").Items[i]
		switch {
		case name == "" || path.IsAbs(name) || path.Clean(name) != name || !inside(name) || hasControl(name):
			r.Add(item, "bad-path", at, "shared %q: want a path inside the release, such as data", name)
		case slices.Contains(names[:i], name):
			r.Add(item, "name-repeated", at, "shared %q is named twice", name)
		}
	}
	return names
}

// Most of a service's environment.
const (
	maxEnv      = 1_000    // names that a host has
	maxEnvName  = 255      // bytes of one name
	maxEnvValue = 32 << 10 // bytes of one value
)

// ofShells are names that some shell sets itself, or refuses to set. The unit is a shell file, so a service's values
// of them depend on its host.
var ofShells = []string{"_", "BASHOPTS", "BASH_VERSINFO", "DIRSTACK", "EUID", "FUNCNAME", "GROUPS", "HISTCMD", "LINENO", "OPTIND",
	"PPID", "RANDOM", "SECONDS", "SHELLOPTS", "SHLVL", "UID"}

// env reads NAME: text over the names that are inherited, which stay as they are.
func (r *reader) env(inherited map[string]string, n *document.Node, at string) map[string]string {
	if n == nil || n.Kind != document.Map || len(n.Fields) == 0 {
		return inherited
	}
	out := merged(inherited)
	for _, f := range n.Fields {
		name := &document.Node{At: f.At}
		switch {
		case !r.environmentName(name, at, "env", f.Key):
		case len(f.Value.Text) > maxEnvValue:
			r.Add(f.Value, "too-long", at, "env.%s has %d bytes, at most %d", f.Key, len(f.Value.Text), maxEnvValue)
		case strings.ContainsRune(f.Value.Text, 0):
			r.Add(f.Value, "bad-value", at, "env.%s has a zero byte, which no environment can hold", f.Key)
		}
		out[f.Key] = f.Value.Text
	}
	if len(out) > maxEnv {
		r.Add(n, "too-many", at, "the service has %d names in env, at most %d", len(out), maxEnv)
	}
	return out
}

// environmentName reports whether a service may have a variable with a name, and adds the fault at n if
// not. kind is env or secret.
func (r *reader) environmentName(n *document.Node, at, kind, name string) bool {
	switch {
	case !variable.MatchString(name):
		r.Add(n, "bad-name", at, `%s name %q: letters, digits and "_" only`, kind, name)
	case len(name) > maxEnvName:
		r.Add(n, "too-long", at, "%s name %.32q… has %d bytes, at most %d", kind, name, len(name), maxEnvName)
	case slices.Contains(ofShells, name):
		r.Add(n, "bad-name", at, "%s name %q is one that shells set themselves: choose another name", kind, name)
	default:
		return true
	}
	return false
}

// onceInEnvironment reports names that are in both env and secrets of a service, each once, at the
// inner of the two; n is the level that was read last.
func (r *reader) onceInEnvironment(s pipeline.Service, n *document.Node, at string) {
	reported := map[string]bool{}
	if env := n.Get("env"); env != nil {
		for _, f := range env.Fields {
			if _, secret := s.Secrets[f.Key]; secret {
				reported[f.Key] = true
				r.Add(&document.Node{At: f.At}, "name-repeated", at, "%s is in secrets of the service too", f.Key)
			}
		}
	}
	if secrets := n.Get("secrets"); secrets != nil {
		for _, f := range secrets.Fields {
			if _, plain := s.Env[f.Key]; plain && !reported[f.Key] {
				r.Add(&document.Node{At: f.At}, "name-repeated", at, "%s is in env of the service too", f.Key)
			}
		}
	}
}

// secrets reads NAME: {file: …}.
func (r *reader) secrets(n *document.Node, at string) map[string]string {
	if n.Kind != document.Map {
		r.Add(n, "wrong-kind", at, "want a mapping of names to {file: …}, found %s", n.Kind)
		return nil
	}
	out := map[string]string{}
	for _, f := range n.Fields {
		switch file := f.Value.Get("file"); {
		case !r.environmentName(f.Value, at, "secret", f.Key):
		case file == nil || file.Kind != document.String || file.Text == "" || len(f.Value.Fields) != 1:
			r.Add(f.Value, "bad-secret", at, "secrets.%s: want {file: …}", f.Key)
		default:
			out[f.Key] = file.Text
		}
	}
	return out
}

// inside reports whether a clean relative path stays below its root.
func inside(clean string) bool { return clean != "." && clean != ".." && !hasPrefixDir(clean, "..") }

func hasPrefixDir(p, dir string) bool {
	return len(p) > len(dir) && p[:len(dir)] == dir && p[len(dir)] == '/'
}

func hasControl(text string) bool {
	return slices.ContainsFunc([]rune(text), func(c rune) bool { return c < ' ' || c == 0x7f })
}
