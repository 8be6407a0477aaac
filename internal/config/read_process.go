package config

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/cachekey"
	"github.com/waybill-dev/waybill/internal/document"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/webhook"
)

// templatePath matches the path of a workflow template.
var templatePath = regexp.MustCompile(`^(cluster)?workflowtemplate/[^/]+$`)

// workflows reads every process of the file, after its handlers.
func (r *reader) workflows(root *document.Node, c *Config) {
	n := root.Get("workflows")
	if !fits(n, document.Object) {
		return
	}
	c.Processes = map[string]Process{}
	for _, f := range n.Fields {
		if !handlerName.MatchString(f.Key) {
			r.Add(&document.Node{At: f.At}, "value-invalid", "",
				"process %q: want a name of letters, digits, -, _ and . with at most 63 characters", f.Key)
			continue
		}
		path := r.Join("workflows", f.Key)
		if r.Check(f.Value, document.Place{Path: path, At: f.At}, workflowKeys()) {
			w := workflowReader{handlerReader{reader: r, path: path}, f}
			c.Processes[f.Key] = w.read(root.Get("handlers"), c)
		}
	}
}

// workflowReader reads one process.
type workflowReader struct {
	handlerReader
	field document.Field
}

func (r *workflowReader) read(handlers *document.Node, c *Config) Process {
	n := r.field.Value
	w := Process{Name: r.field.Key, Title: n.Str("title"), Description: n.Str("description"), Version: 1}
	if w.Title == "" {
		w.Title = w.Name
	}
	if v := n.Get("version"); fits(v, document.Number) {
		var err error
		if w.Version, err = strconv.Atoi(v.Text); err != nil || w.Version < 1 {
			r.Add(v, "value-invalid", r.path+".version", "want a whole number from 1, found %s", v.Text)
		}
	}
	if sync := n.Get("sync"); fits(sync, document.Scalar) {
		w.Sync = r.span(sync, r.path+".sync")
	}
	w.Input = r.schema(n.Get("inputSchema"), "inputSchema")
	w.Output = r.schema(n.Get("outputSchema"), "outputSchema")
	w.Cache = r.cacheRules(n)
	w.handler = r.handlerOf(n.Get("handler"), handlers, c)
	r.names = webhook.Names{Parameters: namesOf(w.Input.Values()), Env: c.TemplateEnv}
	w.Argo = r.argoOptions(n.Get("argoOpts"))
	if w.handler.Cirrus != nil {
		w.Cirrus = r.cirrusOptions(n.Get("cirrusOpts"), w.handler.Cirrus)
	}
	r.options(n, w.handler)
	r.schemaOfPayload(n.Get("inputSchema"), w)
	if a := w.handler.Argo; a != nil && a.Resume {
		r.Add(n.Get("handler"), "value-invalid", r.path+".handler",
			"the handler %s resumes workflows; a process needs one that makes them", w.handler.Name)
	}
	return w
}

func namesOf(values []Value) []string {
	names := make([]string, len(values))
	for i, v := range values {
		names[i] = v.Name
	}
	return names
}

// handlerOf returns the handler that does the jobs. Faults of a handler that exists are reported at
// its own place.
func (r *workflowReader) handlerOf(n, handlers *document.Node, c *Config) Handler {
	if !fits(n, document.Text) || n.Text == "" {
		return Handler{}
	}
	if h, ok := c.Handlers[n.Text]; ok {
		return h
	}
	if n.Text == TypeNoop {
		return Handler{Name: TypeNoop, Type: TypeNoop, Policy: c.Defaults, Delivery: action.AtLeastOnce}
	}
	if handlers.Get(n.Text) != nil {
		return Handler{}
	}
	known := []string{TypeNoop}
	if fits(handlers, document.Object) {
		for _, f := range handlers.Fields {
			known = append(known, f.Key)
		}
	}
	r.unknownName(n, r.path+".handler", "handler", known)
	return Handler{}
}

// options reports options that do not fit the handler.
func (r *workflowReader) options(n *document.Node, h Handler) {
	for key, owner := range map[string]string{"argoOpts": TypeArgo, "cirrusOpts": TypeCirrus} {
		switch opts, kind := n.Get(key), h.Type; {
		case kind == "": // the handler's own fault
		case opts != nil && kind != owner:
			r.Add(opts, "value-invalid", r.path+"."+key, "the handler is of the type %s, not %s", kind, owner)
		case opts == nil && kind == owner && owner == TypeArgo:
			r.Add(&document.Node{At: r.field.At}, "field-missing", r.path, `a handler of the type argo needs "argoOpts"`)
		case owner == TypeArgo:
			r.bucketOf(opts.Get("output"), h)
		}
	}
}

// bucketOf reports an output that would come from a bucket, when the handler names none.
func (r *workflowReader) bucketOf(output *document.Node, h Handler) {
	if output != nil && output.Get("parameter") == nil && h.Argo != nil && h.Argo.Artifacts == "" {
		r.Add(output, "value-invalid", r.path+".argoOpts.output", "the handler %s has no argoConf.artifacts, from which it would be read", h.Name)
	}
}

func (r *workflowReader) argoOptions(n *document.Node) *ArgoOptions {
	if !fits(n, document.Object) {
		return nil
	}
	path := r.path + ".argoOpts"
	o := &ArgoOptions{Template: n.Str("template"), ServiceAccount: n.Str("serviceAccount"),
		Labels: scalars(n.Get("labels")), Annotations: scalars(n.Get("annotations"))}
	if t := n.Get("template"); fits(t, document.Text) && !templatePath.MatchString(t.Text) {
		r.Add(t, "value-invalid", path+".template", "want workflowtemplate/NAME or clusterworkflowtemplate/NAME, found %q", t.Text)
	} else if fits(t, document.Text) {
		r.kubernetesName(t, path+".template", t.Text[strings.IndexByte(t.Text, '/')+1:])
	}
	r.labels(n.Get("labels"), path+".labels", validation.IsValidLabelValue)
	if o.ServiceAccount != "" {
		r.kubernetesName(n.Get("serviceAccount"), path+".serviceAccount", o.ServiceAccount)
	}
	r.labels(n.Get("annotations"), path+".annotations", nil)
	if parameters := n.Get("parameters"); fits(parameters, document.ScalarMap) {
		o.Parameters = map[string]*webhook.Template{}
		for _, f := range parameters.Fields {
			if !argoParameter.MatchString(f.Key) {
				r.Add(&document.Node{At: f.At}, "value-invalid", path+".parameters",
					"%q is not a valid name of an Argo parameter: letters, digits, - and _ only", f.Key)
				continue
			}
			t, err := webhook.ParseTemplate(f.Key, f.Value.Text, r.names)
			if err != nil {
				r.Add(f.Value, "template", path+".parameters."+f.Key, "%s", err)
				continue
			}
			o.Parameters[f.Key] = t
		}
	}
	o.Output = r.argoOutput(n.Get("output"), path+".output")
	return o
}

// argoOutput reads which output is the whole one.
func (r *workflowReader) argoOutput(n *document.Node, path string) *ArgoOutput {
	if !fits(n, document.Object) {
		return nil
	}
	o := &ArgoOutput{Parameter: n.Str("parameter"), Artifact: n.Str("artifact")}
	key := n.Get("key")
	if len(n.Fields) != 1 {
		r.Add(n, "value-invalid", path, "want one of parameter, artifact and key")
	}
	if fits(key, document.Text) {
		var err error
		if o.Key, err = webhook.ParseTemplate("key", key.Text, webhook.Names{}); err == nil {
			_, err = o.Key.Render(map[string]any{"id": "x"}) // no other name is known
		}
		if err != nil {
			r.Add(key, "template", path+".key", "%s", err)
		}
	}
	return o
}

// argoParameter matches the names of parameters that Argo accepts.
var argoParameter = regexp.MustCompile(`^[-a-zA-Z0-9_]+$`)

// kubernetesName reports a name of an object that Kubernetes rejects.
func (r *workflowReader) kubernetesName(n *document.Node, path, name string) {
	if faults := validation.IsDNS1123Subdomain(name); len(faults) > 0 {
		r.Add(n, "value-invalid", path, "%q: Kubernetes rejects the name: %s", name, faults[0])
	}
}

// labels reports keys, and with value values, that Kubernetes rejects.
func (r *workflowReader) labels(n *document.Node, path string, value func(string) []string) {
	for _, f := range fieldsOf(n) {
		if faults := validation.IsQualifiedName(f.Key); len(faults) > 0 {
			r.Add(&document.Node{At: f.At}, "value-invalid", path, "%q: Kubernetes rejects the key: %s", f.Key, faults[0])
		}
		if value == nil || !fits(f.Value, document.Scalar) {
			continue
		}
		if faults := value(f.Value.Text); len(faults) > 0 {
			r.Add(f.Value, "value-invalid", path+"."+f.Key, "%q: Kubernetes rejects the value: %s", f.Value.Text, faults[0])
		}
	}
}

// scalars returns a mapping of scalars by their texts.
func scalars(n *document.Node) map[string]string {
	if !fits(n, document.ScalarMap) {
		return nil
	}
	texts := make(map[string]string, len(n.Fields))
	for _, f := range n.Fields {
		texts[f.Key] = f.Value.Text
	}
	return texts
}

// schemaOfPayload warns of an inputSchema that looks as in files of swoop, where it describes the
// payload alone.
func (r *workflowReader) schemaOfPayload(n *document.Node, w Process) {
	names := namesOf(w.Input.Values())
	workflow := w.handler.Type == TypeArgo || w.handler.Type == TypeCirrus
	if !workflow || slices.Contains(names, payloadInput) || !slices.Contains(names, "features") && !slices.Contains(names, "process") {
		return
	}
	r.Problems.Add(fault.Problem{Position: n.At, Code: "schema-of-payload", Scope: r.path + ".inputSchema", Warning: true,
		Text: "this describes all inputs together, and not the input payload alone as in swoop; " +
			"for that write {type: object, required: [payload], properties: {payload: …}}"})
}

// schema reads the JSON Schema of the inputs or the output.
func (r *workflowReader) schema(n *document.Node, key string) Schema {
	if !fits(n, document.Object) {
		return Schema{}
	}
	plain, _ := document.Plain(n).(map[string]any) // it is a mapping
	compiled, err := compile(key, plain)
	if err != nil {
		r.schemaFault(n, r.path+"."+key, err)
		return Schema{}
	}
	return Schema{Document: plain, compiled: compiled}
}

// cacheRules reads which inputs make two jobs the same; nil where the file has no rules and does
// not switch the cache on.
func (r *workflowReader) cacheRules(n *document.Node) *cachekey.Rules {
	var lists [2][]string
	for i, key := range []string{cachekey.Includes, cachekey.Excludes} {
		if fits(n.Get(key), document.Texts) {
			lists[i] = n.Strs(key)
		}
	}
	rules, faults := cachekey.ParseRules(lists[0], lists[1])
	for _, f := range faults {
		r.Add(n.Get(f.List).Items[f.Index], "value-invalid", document.Index(r.path+"."+f.List, f.Index), "%s", f.Error())
	}
	declared := n.Get(cachekey.Includes) != nil || n.Get(cachekey.Excludes) != nil
	if cache := n.Get("cache"); fits(cache, document.Flag) {
		on := strings.EqualFold(cache.Text, "true")
		if declared && !on {
			r.Add(cache, "value-invalid", r.path+".cache", "false contradicts %s and %s: remove one or the other",
				cachekey.Includes, cachekey.Excludes)
		}
		declared = declared || on
	}
	if !declared {
		return nil
	}
	return &rules
}
