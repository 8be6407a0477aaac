package config

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/cachekey"
	"github.com/waybill-dev/waybill/internal/callback"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/webhook"
)

// KindJob is the kind of an action that a process was executed by.
const KindJob = action.KindJob

// Process is one entry of workflows: a process that jobs are made of.
type Process struct {
	Name        string // the process's id
	Title       string
	Description string
	Version     int           // version, from 1; a job of an earlier version does not answer the same inputs
	Sync        time.Duration // how long a request may wait for the job's end; 0: jobs are asynchronous only
	Argo        *ArgoOptions  // options of a handler of type argo
	Cirrus      *CirrusOptions
	Cache       *cachekey.Rules     // rules for inputs that make two jobs the same; nil: none do, every execution is a new job
	Input       Schema              // schema of the inputs, together
	Output      Schema              // schema of the output, together
	Callbacks   []callback.Callback // what follows its jobs, in the order of the file
	handler     Handler
}

// ArgoOptions names the workflow that Argo makes for a job. Every input becomes an argument of its name, besides
// Parameters.
type ArgoOptions struct {
	Template       string // workflowtemplate/NAME or clusterworkflowtemplate/NAME
	Parameters     map[string]*webhook.Template
	ServiceAccount string
	Labels         map[string]string
	Annotations    map[string]string
	Output         *ArgoOutput // nil: an object of all outputs
}

// ArgoOutput names the output of a workflow that is the whole output of its job. One field is set.
type ArgoOutput struct {
	Parameter string
	Artifact  string
	Key       *webhook.Template // key of an object in the handler's bucket; it uses .id
}

// CirrusOptions names the work of Cirrus for a job.
type CirrusOptions struct {
	SfnArn string // ARN of a state machine; "": the handler's queue gets the payload
}

// Schema is a JSON Schema of an object whose properties are inputs or outputs. The zero Schema
// allows everything.
type Schema struct {
	Document map[string]any // as encoding/json decodes it, with numbers as json.Number; nil: none was given
	compiled *jsonschema.Schema
}

// Value describes one input or output.
type Value struct {
	Name     string
	Schema   map[string]any // empty: anything
	Required bool
	compiled *jsonschema.Schema // nil: not checked
	root     any                // the document that references in Schema lead through
}

// Values lists the names of the schema, in the order of names.
func (s Schema) Values() []Value {
	properties, _ := s.Document["properties"].(map[string]any)
	byName := map[string]*Value{}
	for name, schema := range properties {
		document, _ := schema.(map[string]any) // true and false are schemas too, with nothing to show
		byName[name] = &Value{Name: name, Schema: document, root: s.Document}
		if s.compiled != nil {
			byName[name].compiled = s.compiled.Properties[name]
		}
	}
	required, _ := s.Document["required"].([]any)
	for _, item := range required {
		name, _ := item.(string)
		if byName[name] == nil {
			byName[name] = &Value{Name: name}
		}
		byName[name].Required = true
	}
	var all []Value
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		all = append(all, *byName[name])
	}
	return all
}

// Check reports where a value breaks the schema; root names the value in the faults' paths.
func (s Schema) Check(root string, value any) fault.Problems {
	if s.compiled == nil {
		return nil
	}
	return broken(root, s.compiled.Validate(value))
}

// ArgoOutput returns which output of its workflow is the whole output of a process's job; nil: all
// outputs together.
func (c Config) ArgoOutput(process string) *ArgoOutput {
	if o := c.Processes[process].Argo; o != nil {
		return o.Output
	}
	return nil
}

// ArgoProcesses returns the argoOpts of a handler's processes, by their ids.
func (c Config) ArgoProcesses(handler string) map[string]*ArgoOptions {
	of := map[string]*ArgoOptions{}
	for name, w := range c.Processes {
		if w.handler.Name == handler && w.Argo != nil {
			of[name] = w.Argo
		}
	}
	return of
}

// Handler returns the name of the handler that does the process's jobs.
func (w Process) Handler() string { return w.handler.Name }

// Inputs lists the inputs that are described: by inputSchema, else by the handler's parameters.
func (w Process) Inputs() []Value {
	if w.Input.Document != nil || !w.handler.takesInputs() {
		return w.Input.Values()
	}
	all := make([]Value, len(w.handler.Parameters))
	for i, p := range w.handler.Parameters {
		all[i] = Value{Name: p.Name, Schema: p.document, Required: !p.Optional, compiled: p.schema, root: p.document}
	}
	slices.SortFunc(all, func(a, b Value) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// Refuses reports whether some of these inputs are refused whatever their values are, because the
// process does not know them.
func (w Process) Refuses(names []string) bool {
	closed := w.Input.compiled != nil && w.Input.compiled.AdditionalProperties == false && len(w.Input.compiled.PatternProperties) == 0
	return slices.ContainsFunc(names, func(name string) bool {
		if w.handler.takesInputs() && !slices.Contains(w.handler.Parameters.Names(), name) {
			return true
		}
		return closed && w.Input.compiled.Properties[name] == nil
	})
}

// takesInputs reports whether a job's inputs are the handler's own parameters.
func (h Handler) takesInputs() bool { return h.Type == TypeWebhook || h.Type == TypeShell }

// Prepare makes the job that these inputs request, without its id. The job's parameters are the inputs; the handler's
// other needs are the workflow's, and looked up by the job's name. The error is every fault of the inputs
// (fault.Problems).
func (w Process) Prepare(inputs json.RawMessage) (action.Action, error) {
	given, err := object("inputs", inputs)
	if err != nil {
		return action.Action{}, fault.Problems{{Code: "inputs", Text: err.Error()}}
	}
	problems := w.Input.Check("inputs", given)
	lane := w.handler.Name
	if w.handler.takesInputs() {
		filled, more := w.handler.Parameters.fill("input", given)
		problems = append(problems, more...)
		if len(problems) == 0 {
			if lane, err = w.handler.laneOf(filled); err != nil {
				problems = append(problems, fault.Problem{Code: "lane", Text: err.Error()})
			}
		}
	}
	var key action.ID
	if len(problems) == 0 { // a part that is missing or of another type is reported once
		key, problems = w.key(given)
	}
	if err := problems.Err(); err != nil {
		return action.Action{}, err
	}
	job := w.handler.action(inputs, lane)
	job.Kind, job.Name, job.Version, job.CacheKey = KindJob, w.Name, w.Version, key
	return job, nil
}

// CacheKey returns the payload cache's key for inputs; fault.NotFound for a process that has no
// payload cache.
func (w Process) CacheKey(inputs json.RawMessage) (action.ID, error) {
	if w.Cache == nil {
		return action.ID{}, fault.New(fault.NotFound, "process %q has no payload cache", w.Name).
			WithHint("it has one with cache: true, %s or %s in server.yaml", cachekey.Includes, cachekey.Excludes)
	}
	given, err := object("inputs", inputs)
	if err != nil {
		return action.ID{}, fault.Wrap(fault.Invalid, err)
	}
	key, problems := w.key(given)
	if err := problems.Err(); err != nil {
		return key, fault.Wrap(fault.InvalidParameters, err)
	}
	return key, nil
}

// payloadInput is the input that makes jobs the same, where a process has one of that name.
const payloadInput = "payload"

// key returns the payload cache's key; zero where the process has no cache.
func (w Process) key(inputs map[string]any) (action.ID, fault.Problems) {
	if w.Cache == nil {
		return action.ID{}, nil
	}
	var subject any = inputs
	at := "inputs"
	if value, ok := inputs[payloadInput]; ok || slices.ContainsFunc(w.Inputs(), func(v Value) bool { return v.Name == payloadInput }) {
		subject, at = value, at+"/"+payloadInput
	}
	key, err := cachekey.KeyOf(w.Name, *w.Cache, subject)
	if err == nil {
		return action.ID(key), nil
	}
	if misfit, ok := errors.AsType[*cachekey.Misfit](err); ok {
		at += misfit.At
	}
	return action.ID{}, fault.Problems{{Code: "inputs", Scope: at, Text: err.Error()}}
}

// Arguments returns the arguments of the workflow: every input, and Parameters. data has the values of their
// templates; its Parameters are filled in here.
func (o *ArgoOptions) Arguments(inputs json.RawMessage, data webhook.Data) (map[string]json.RawMessage, error) {
	filled, err := object("inputs", inputs)
	if err != nil {
		return nil, err
	}
	data.Parameters = filled
	arguments := map[string]json.RawMessage{}
	if err := json.Unmarshal(inputs, &arguments); err != nil && len(filled) > 0 {
		return nil, err
	}
	for name, t := range o.Parameters {
		text, err := t.Render(data.Fields())
		if err != nil {
			return nil, fmt.Errorf("argoOpts.parameters.%w", err)
		}
		arguments[name], _ = json.Marshal(text) // strings always marshal
	}
	return arguments, nil
}
