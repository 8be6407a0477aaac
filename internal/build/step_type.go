package build

import (
	"fmt"
	"path"
	"regexp"
	"strings"

	"github.com/waybill-dev/waybill/internal/document"
	"github.com/waybill-dev/waybill/internal/fault"
)

// Versions of Helm.
const (
	packageVersion = "v3.8.1"  // by which helm-package packs
	helmVersion    = "v2.14.1" // unless helm names one
)

// fields is the mapping of a step type, which may have problems.
type fields struct {
	*reader
	node  *document.Node
	at    fault.Position // position of the step type
	scope string
	step  *Step
}

// settled returns a scalar field that can be judged; nil if it is absent, has no sound kind, or has a variable: after substitution that is
// one without a value, which was warned of, and stages that are not selected may have such.
func (f fields) settled(name string) *document.Node {
	n := f.node.Get(name)
	if n == nil || !isScalar(n) || n.Kind != document.String && !f.replaced[n] || n.Kind == document.Null || strings.Contains(n.Text, "${") {
		return nil
	}
	return n
}

// lack reports missing keys that a step needs only if it is to run.
func (f fields) lack(at fault.Position, scope, code, text string) {
	if f.replaced != nil {
		f.step.lacks.Add(fault.Problem{Position: at, Code: code, Scope: scope, Text: text})
	}
}

// text returns a field's text; fallback if the field is absent.
func (f fields) text(name, fallback string) string {
	if f.node.Get(name) == nil {
		return fallback
	}
	return f.node.Str(name)
}

// flag returns a field that is a boolean; fallback if it is absent.
func (f fields) flag(name string, fallback bool) bool {
	n := f.node.Get(name)
	if n == nil {
		return fallback
	}
	return !isFalse(n)
}

// items returns the items of a list that can be judged, by the scope of each.
func (f fields) items(name string) map[string]*document.Node {
	out := map[string]*document.Node{}
	if list := f.node.Get(name); list != nil {
		for i, item := range list.Items {
			if isScalar(item) && !strings.Contains(item.Text, "${") {
				out[document.Index(f.Join(f.scope, name), i)] = item
			}
		}
	}
	return out
}

// refuse reports a field whose value has no meaning.
func (f fields) refuse(name, code, format string, arguments ...any) {
	f.Add(f.node.Get(name), code, f.Join(f.scope, name), format, arguments...)
}

// matches reports a field that does not match a pattern.
func (f fields) matches(name, code string, pattern *regexp.Regexp, want string) {
	if n := f.settled(name); n != nil && n.Text != "" && !pattern.MatchString(n.Text) {
		f.refuse(name, code, "%q is not %s", n.Text, want)
	}
}

// warn reports a field without refusing it.
func (f fields) warn(at fault.Position, name, code, text string) {
	if f.replaced == nil {
		return // reported once variables are replaced
	}
	scope := f.scope
	if name != "" {
		scope = f.Join(scope, name)
	}
	f.Problems.Add(fault.Problem{Position: at, Code: code, Scope: scope, Text: text, Warning: true})
}

// path checks a field that is a path of the workspace, and returns it.
func (f fields) path(name, fallback string) string {
	if n := f.settled(name); n != nil {
		f.inside(n, f.Join(f.scope, name))
	}
	return cleanPath(f.text(name, fallback))
}

// cleanPath returns a path in its shortest form, which no program takes for an option.
func cleanPath(text string) string {
	cleaned := path.Clean(text)
	if strings.HasPrefix(cleaned, "-") {
		return "./" + cleaned
	}
	return cleaned
}

// inside reports a path that leaves the workspace, or that cannot be one of its files.
func (r *reader) inside(n *document.Node, scope string) {
	switch cleaned := path.Clean(n.Text); {
	case n.Text == "": // reported if it matters
	case path.IsAbs(n.Text), cleaned == "..", strings.HasPrefix(cleaned, "../"), strings.Contains(n.Text, "://"):
		r.Add(n, "path-outside", scope, "%q leaves the workspace", n.Text)
	case strings.ContainsFunc(n.Text, isControl):
		r.Add(n, "path-invalid", scope, "the path %q has a control character", n.Text)
	}
}

// variable returns the value of a variable with its own variables replaced; "" without one.
func (r *reader) variable(name string) string { return valueOf(r.variables, name) }

// projectVariable returns the value of a variable that names the project: a build's file must not name another, and
// get its Secrets.
func (r *reader) projectVariable(name string) string {
	if r.project != nil {
		return valueOf(r.project, name)
	}
	return r.variable(name)
}

func valueOf(variables Variables, name string) string {
	if _, ok := variables.Lookup(name); !ok {
		return ""
	}
	text, _, err := Substitute(variables, "${"+name+"}")
	if err != nil {
		return "" // reported where it is used
	}
	return text
}

// required returns the value of a variable of which the default of a field is made.
func (f fields) required(name, field string) string {
	text := f.variable(name)
	if text == "" {
		f.lack(f.at, f.scope, "builtin-missing",
			fmt.Sprintf(
				"the step needs the variable %s for the default of %q; give it a value, such as by WHARF_VAR_%s, or set %q", name, field, name, field))
	}
	return text
}

// insecure reports whether certificates of registries are not verified.
func (r *reader) insecure() bool { return strings.EqualFold(r.variable("REG_INSECURE"), "true") }

// objectName matches the names of objects of Kubernetes.
var objectName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$`)

const objectWords = "the name of an object in the cluster: lower-case letters, digits, dashes and dots"

// project returns the keys of a Secret of the project, all or one.
func (f fields) project(name string) SecretKeys {
	secret := f.text(name, "")
	id := f.projectVariable("PROJECT_ID")
	f.matches(name, "name-invalid", objectName, objectWords)
	if n := f.settled(name); n != nil && (id == "" || strings.Trim(id, "0123456789") != "") {
		was := "has no value"
		if id != "" {
			was = fmt.Sprintf("is %q", id)
		}
		f.lack(n.At, f.Join(f.scope, name), "project-id",
			fmt.Sprintf("the variable PROJECT_ID, a number, names the Secrets of the project, and %s; give it by --project-id", was))
	}
	return SecretKeys{Object: f.projectObject(id) + "-secretname-" + secret, Local: secret}
}

// projectObject returns how the names of a project's objects begin.
func (r *reader) projectObject(id string) string {
	instance := r.projectVariable("WHARF_INSTANCE")
	if instance == "" {
		instance = "local"
	}
	return "wharf-" + instance + "-project-" + id
}

// certificates returns the mount of the certificates that a field requests; none without it.
func (f fields) certificates(name string) ([]Mount, []string) {
	at := f.text(name, "")
	if at == "" {
		return nil, nil
	}
	if n := f.settled(name); n != nil && (!path.IsAbs(at) || path.Clean(at) == "/" ||
		strings.ContainsFunc(at, isControl) || strings.Contains(at, ":")) {
		f.refuse(name, "path-invalid", "%q is not the absolute path of a folder", at)
	}
	at = path.Clean(at)
	return []Mount{{Path: at, Kind: MountConfigMap, Object: CertificatesObject, Variable: "WAYBILL_CERTIFICATES"}},
		[]string{"WAYBILL_CERTIFICATES=" + at}
}

// mount adds a mount, whose variable has the path.
func (s *Spec) mount(m Mount, path string) {
	s.Mounts, s.Environ = append(s.Mounts, m), append(s.Environ, m.Variable+"="+path)
}

// compile reads the fields of a step type.
func (f fields) compile(name string) Spec {
	switch name {
	case "container":
		f.step.Container = f.container()
		return f.containerSpec(f.step.Container)
	case "docker":
		return f.docker()
	case "helm":
		return f.helm()
	case "helm-package":
		return f.helmPackage()
	case "kubectl":
		return f.kubectl()
	}
	return f.nugetPackage()
}

func (f fields) container() Container {
	c := Container{Image: f.node.Str("image"), Commands: f.node.Strs("cmds"), OS: f.text("os", "linux"), Shell: f.text("shell", "/bin/sh")}
	// Check leaves a value of another kind to its reader
	if os := f.node.Get("os"); os != nil && os.Kind != document.String && f.replaced[os] {
		f.Choice(os, f.Join(f.scope, "os"), []string{"linux", "windows"})
	}
	if c.OS == "" {
		c.OS = "linux"
	}
	if c.Shell == "" {
		c.Shell = "/bin/sh"
	}
	return c
}

// containerSpec returns the program of the step type container: one shell process for all commands.
func (f fields) containerSpec(c Container) Spec {
	shell, flag := c.Shell, "-c"
	if c.OS == "windows" && shell == "/bin/sh" {
		shell, flag = "powershell.exe", "-C"
	}
	spec := Spec{Image: c.Image, OS: c.OS, Argv: []string{shell, flag, strings.Join(c.Commands, "\n")}}
	if f.text("secretName", "") != "" {
		spec.Secrets = append(spec.Secrets, f.project("secretName"))
	}
	if account := f.text("serviceAccount", ""); account != "" {
		f.matches("serviceAccount", "name-invalid", objectName, objectWords)
		spec.ServiceAccount, spec.Token = account, true
	}
	spec.Mounts, spec.Environ = f.certificates("certificatesMountPath")
	return spec
}
