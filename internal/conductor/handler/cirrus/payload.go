package cirrus

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/config"
	"github.com/waybill-dev/waybill/internal/fault"
)

// work is the work of one action.
type work struct {
	machine   string // ARN of a state machine; "": the queue
	payload   string // JSON
	payloadID string // id of a payload for the queue
}

// Check reports what the parameters' schemas cannot express: whether a payload for the queue is one.
func Check(parameters json.RawMessage) fault.Problems {
	_, problems := (&Handler{}).read(action.Action{Name: "any", Parameters: parameters})
	return problems
}

// read reads the work and its input.
func (h *Handler) read(a action.Action) (work, fault.Problems) {
	payload, machine, err := h.asked(a)
	if err != nil {
		return work{machine: machine}, fault.Problems{{Code: "parameters", Text: err.Error()}}
	}
	if machine != "" {
		return work{machine: machine, payload: string(payload)}, nil
	}
	w, err := processPayload(payload, a)
	if err != nil {
		return w, fault.Problems{{Code: "payload", Scope: "payload", Text: err.Error()}}
	}
	return w, nil
}

// asked returns the payload and the state machine: for a job its input payload, or all inputs, and the settings of
// its process; else the parameters.
func (h *Handler) asked(a action.Action) (payload json.RawMessage, machine string, err error) {
	if a.Kind == config.KindJob {
		machine, known := h.cfg.Processes[a.Name]
		if !known {
			return nil, "", fmt.Errorf("process %q was removed from the configuration of this handler", a.Name)
		}
		var inputs map[string]json.RawMessage
		if err := json.Unmarshal(a.Parameters, &inputs); err != nil {
			return nil, machine, fmt.Errorf("read the inputs: %w", err)
		}
		if payload, named := inputs["payload"]; named {
			return payload, machine, nil
		}
		return a.Parameters, machine, nil
	}
	var given struct {
		Payload json.RawMessage `json:"payload"`
		SfnArn  string          `json:"sfnArn"`
	}
	decoder := json.NewDecoder(bytes.NewReader(a.Parameters))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&given); err != nil {
		return nil, "", fmt.Errorf("read the parameters: %w", err)
	}
	if len(given.Payload) == 0 {
		return nil, given.SfnArn, errors.New(`the parameter "payload" is missing`)
	}
	return given.Payload, given.SfnArn, nil
}

// processPayload returns the message for Cirrus's queue: the payload with an id of this action's own, and with a
// process definition. Cirrus distinguishes payloads by their ids only, so a second delivery is recognized.
func processPayload(raw json.RawMessage, a action.Action) (work, error) {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	var payload map[string]any
	if err := decoder.Decode(&payload); err != nil || payload == nil {
		return work{}, errors.New("the payload is not a JSON object")
	}
	if payload["process"] == nil {
		payload["process"] = []any{map[string]any{"workflow": a.Name}}
	}
	steps, _ := payload["process"].([]any)
	var definition map[string]any
	if len(steps) > 0 {
		definition, _ = steps[0].(map[string]any)
	}
	name, _ := definition["workflow"].(string)
	if name == "" || strings.Contains(name, "/") {
		return work{}, errors.New("process[0].workflow of the payload must name Cirrus's workflow")
	}
	id := fmt.Sprintf("%s/workflow-%s/%s", collections(payload, definition), name, a.ID)
	payload["id"] = id
	text, err := json.Marshal(payload)
	return work{payload: string(text), payloadID: id}, err
}

// collections returns the first part of a payload's id: those of the definition, else the features' collections, else
// none.
func collections(payload, definition map[string]any) string {
	if given, _ := definition["collections"].(string); given != "" {
		return given
	}
	var names []string
	features, _ := payload["features"].([]any)
	for _, one := range features {
		feature, _ := one.(map[string]any)
		if name, _ := feature["collection"].(string); name != "" {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return "none"
	}
	slices.Sort(names)
	return strings.Join(slices.Compact(names), "/")
}
