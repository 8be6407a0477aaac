package config

import (
	"maps"
	"slices"
	"strings"

	"github.com/waybill-dev/waybill/internal/document"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/webhook"
	"github.com/waybill-dev/waybill/internal/yamltree"
)

// OwnEngine names the workers of Waybill where another build engine may be named.
const OwnEngine = "waybill"

// engine holds the keys that every webhook of a build engine has, as a file would set them.
const engine = `
type: webhook
parameters:
  build: {type: integer}
  project: {type: string}
  repository: {type: string}
  subdirectory: {type: string}
  commit: {type: string}
  branch: {type: string}
  stages: {type: array, items: {type: string}}
  environment: {type: string}
  inputs: {type: object}
  report: {type: string}
`

// engineRequest holds the keys of its request unless server.yaml sets others.
const engineRequest = `
headers: {Content-Type: application/json}
body: "{{ json .parameters }}"
`

// mostReporters bounds the names of tokens of one build engine.
const mostReporters = 100

// engineKeys returns the keys of one build engine: those of a webhook that are not for the queue of its actions, and who reports.
func engineKeys() []document.Key {
	return append(slices.DeleteFunc(handlerKeys(TypeWebhook), func(k document.Key) bool { return k.Name != "secrets" && k.Name != "request" }),
		document.Key{Name: "tokens", Shape: document.Texts,
			Help: "names of the tokens that may report about its builds; default: the engine's name"})
}

// builds reads the projects that can be built without a deployment, and their branches.
func (r *reader) builds(n *document.Node, c *Config) {
	if !fits(n, document.Object) {
		return
	}
	r.projects(n.Get("projects"), &c.Builds)
	r.engines(n.Get("engines"), c)
	c.Builds.Engine = n.Str("engine")
	r.knownEngine(n.Get("engine"), "builds.engine", c.Builds)
	for name := range c.Builds.Projects {
		at := r.Join("builds.projects", name) + ".engine"
		r.knownEngine(n.Get("projects").Get(name).Get("engine"), at, c.Builds)
	}
}

// knownEngine adds a fault for the name of a build engine that the file does not have.
func (r *reader) knownEngine(n *document.Node, at string, b Builds) {
	if !fits(n, document.Text) || n.Text == "" {
		return
	}
	if _, err := b.EngineOf("", n.Text); err != nil {
		r.Add(n, "value-invalid", at, "%s", err)
	}
}

// engines reads every other build engine of the file.
func (r *reader) engines(n *document.Node, c *Config) {
	if !fits(n, document.Object) {
		return
	}
	c.Builds.Engines = map[string]Handler{}
	for _, f := range n.Fields {
		if !handlerName.MatchString(f.Key) || f.Key == OwnEngine {
			r.Add(&document.Node{At: f.At}, "value-invalid", "",
				"build engine %q: want a name of letters, digits, -, _ and . with at most 63 characters, other than %s", f.Key, OwnEngine)
			continue
		}
		at := r.Join("builds.engines", f.Key)
		if !r.Check(f.Value, document.Place{Path: at, At: f.At}, engineKeys()) {
			continue
		}
		r.reporters(f, at, &c.Builds)
		completeEngine(f.Value)
		h := handlerReader{reader: r, path: at, names: webhook.Names{Env: c.TemplateEnv}}
		c.Builds.Engines[f.Key] = h.read(f, TypeWebhook, c.Defaults)
	}
}

// reporters reads the tokens that may report about the builds of an engine.
func (r *reader) reporters(f document.Field, at string, b *Builds) {
	tokens := f.Value.Get("tokens")
	if !fits(tokens, document.Texts) {
		return
	}
	names := f.Value.Strs("tokens")
	if len(names) > mostReporters {
		r.Add(tokens, "value-invalid", at+".tokens", "want at most %d names of tokens", mostReporters)
		return
	}
	if b.Reporters == nil {
		b.Reporters = map[string][]string{}
	}
	b.Reporters[f.Key] = names
}

// MayReport reports whether the stored token with a name may report about the builds of another build engine.
func (b Builds) MayReport(engine, token string) bool {
	if names, ok := b.Reporters[engine]; ok {
		return slices.Contains(names, token)
	}
	return token == engine
}

// completeEngine adds the keys common to every build engine, and those that its request leaves out.
func completeEngine(n *document.Node) {
	root, _ := yamltree.Parse("engine", []byte(engine), maxSize) // it is written here, and tested
	n.Fields = append(n.Fields, root.Fields...)
	request := n.Get("request")
	if request == nil || request.Kind != document.Map || request.Get("body") != nil {
		return
	}
	standard, _ := yamltree.Parse("engine", []byte(engineRequest), maxSize)
	own := request.Get("headers")
	switch {
	case own == nil:
		request.Fields = append(request.Fields, standard.Fields...)
		return
	case own.Kind == document.Map && !slices.ContainsFunc(own.Fields,
		func(f document.Field) bool { return strings.EqualFold(f.Key, "content-type") }):
		own.Fields = append(own.Fields, standard.Get("headers").Fields...)
	}
	request.Fields = append(request.Fields, document.Field{Key: "body", At: request.At, Value: standard.Get("body")})
}

// EngineOf returns the build engine that starts a build of a project for which asked is named, if anything was; "": a
// worker of Waybill.
func (b Builds) EngineOf(project, asked string) (string, error) {
	for _, name := range []string{asked, b.Projects[project].Engine, b.Engine} {
		if name == OwnEngine {
			return "", nil
		}
		if name == "" {
			continue
		}
		if _, ok := b.Engines[name]; !ok {
			return "", fault.New(fault.NotFound, "build engine %q not found", name).WithNearest(name, slices.Sorted(maps.Keys(b.Engines))).
				WithHint(
					"server.yaml: builds: {engines: {jenkins: {request: {url: \"https://jenkins.example.org/…\"}}}}; workers of "+
						"Waybill are called %s", OwnEngine)
		}
		return name, nil
	}
	return "", nil
}
