package build

import (
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/document"
)

// Bounds of the services of a step.
const (
	maxServices = 16
	maxPorts    = 64
	maxReady    = time.Hour

	defaultReady = time.Minute
)

// hostName matches the names by which a service can be reached.
var hostName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

// serviceTable returns the keys of a service.
func serviceTable() []document.Key {
	return []document.Key{
		{Name: "name", Shape: document.Text, Required: true, Help: "The host name by which the step reaches it."},
		{Name: "image", Shape: document.Text, Required: true, Help: "The image to run."},
		{Name: "env", Shape: document.ScalarMap, Help: "Environment variables."},
		{Name: "cmds", Shape: document.Texts, Default: "the image's own", Help: "Commands; one /bin/sh runs them all."},
		{Name: "ports", Shape: document.Scalars, Help: "Ports, from 1 to 65535, on which it listens."},
		{Name: "ready", Shape: document.Duration, Default: "60s", Help: "How long the step waits until all ports answer; 0s: it does not wait."},
	}
}

// services reads the programs beside a step.
func (r *reader) services(n *document.Node, scope string) []Service {
	if !r.atMost(maxServices, n, scope, "a step has at most %d services") {
		return nil
	}
	var out []Service
	seen := map[string]bool{}
	for i, item := range n.Items {
		at := document.Index(scope, i)
		s := Service{Name: item.Str("name"), Image: item.Str("image"), Environ: r.environ(item.Get("env"), r.Join(at, "env")),
			Ports: r.ports(item.Get("ports"), r.Join(at, "ports"))}
		name := item.Get("name")
		switch {
		case s.Name == "", r.open(name): // reported already, or open
		case !hostName.MatchString(s.Name), s.Name == "localhost":
			r.Add(name, "name-invalid", r.Join(at, "name"), "%q cannot be the name of a host; write lower-case letters, digits and dashes", s.Name)
		case seen[s.Name]:
			r.Add(name, "name-clash", r.Join(at, "name"), "the step has two services %q", s.Name)
		}
		seen[s.Name] = true
		if cmds := item.Strs("cmds"); len(cmds) > 0 {
			s.Argv = []string{"/bin/sh", "-c", strings.Join(cmds, "\n")}
		}
		if len(s.Ports) > 0 {
			s.Ready = r.ready(item.Get("ready"), r.Join(at, "ready"))
		}
		out = append(out, s)
	}
	return out
}

// environ reads a mapping of environment variables as NAME=value, in its order.
func (r *reader) environ(n *document.Node, scope string) (environ []string) {
	if n == nil {
		return nil
	}
	for _, f := range n.Fields {
		if !secretName.MatchString(f.Key) && (r.replaced != nil || !strings.Contains(f.Key, "${")) {
			r.Add(f.Value, "name-invalid", r.Join(scope, f.Key), "%q cannot be the name of an environment variable", f.Key)
		}
		environ = append(environ, f.Key+"="+scalarText(f.Value))
	}
	return environ
}

func (r *reader) ports(n *document.Node, scope string) (ports []int) {
	if n == nil || !r.atMost(maxPorts, n, scope, "a service has at most %d ports") {
		return nil
	}
	for i, item := range n.Items {
		if !isScalar(item) {
			continue
		}
		port, err := strconv.Atoi(item.Text)
		if (err != nil || port < 1 || port > 65535) && !r.open(item) {
			r.Add(item, "port-invalid", document.Index(scope, i), "%q is not a port; want a number from 1 to 65535", item.Text)
		}
		ports = append(ports, port)
	}
	return ports
}

// ready reads how long a step waits for a service.
func (r *reader) ready(n *document.Node, scope string) time.Duration {
	if n == nil || n.Kind != document.String {
		return defaultReady
	}
	d, err := time.ParseDuration(n.Text)
	if (err != nil || d < 0 || d > maxReady) && !r.open(n) {
		r.Add(n, "duration-invalid", scope, "%q is not a duration of up to %s; write one such as 90s, or 0s for no wait", n.Text, maxReady)
	}
	return d
}
