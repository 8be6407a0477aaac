package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"mime"

	"github.com/waybill-dev/waybill/internal/action"
)

// Outputs are the results of a job, by the names of its process's outputs.
type Outputs struct {
	Values  map[string]json.RawMessage
	Schemas map[string]map[string]any // schemas of the outputs that the process describes
}

// loneOutput is the name of an output that is not an object, and therefore has no names of its own.
const loneOutput = "output"

// Outputs reads the outputs of a job of the process. Those besides the outputs that the process describes is there
// too.
func (w Process) Outputs(made json.RawMessage) Outputs {
	o := Outputs{Values: map[string]json.RawMessage{}, Schemas: map[string]map[string]any{}}
	if json.Unmarshal(made, &o.Values) != nil && len(made) > 0 {
		o.Values = map[string]json.RawMessage{loneOutput: made}
	}
	for _, v := range w.Output.Values() {
		o.Schemas[v.Name] = resolve(v.Schema, v.root)
	}
	return o
}

const typeJSON = "application/json"

// MediaType returns the media type of an output: that of its schema, else JSON.
func (o Outputs) MediaType(name string) string {
	kind, _ := o.Schemas[name]["contentMediaType"].(string)
	if _, _, err := mime.ParseMediaType(kind); err != nil {
		return typeJSON
	}
	return kind
}

// Binary reports whether an output is bytes, stored as base64.
func (o Outputs) Binary(name string) bool { return binary(o.Schemas[name]) }

// Result returns an output as a results document has it (results.yaml of OGC API – Processes 1.0):
// an object as a qualified value.
func (o Outputs) Result(name string) json.RawMessage {
	value := o.Values[name]
	if bytes.HasPrefix(bytes.TrimSpace(value), []byte("{")) || string(value) == "null" {
		return fmt.Appendf(nil, `{"value":%s,"mediaType":%q}`, value, o.MediaType(name))
	}
	return value
}

// Results returns the results document of a job that made this. Its process may be gone from the
// configuration.
func (c *Config) Results(job action.Action, made json.RawMessage) map[string]json.RawMessage {
	o := c.Processes[job.Name].Outputs(made)
	results := make(map[string]json.RawMessage, len(o.Values))
	for name := range o.Values {
		results[name] = o.Result(name)
	}
	return results
}
