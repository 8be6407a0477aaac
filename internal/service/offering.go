package service

import (
	"context"
	"encoding/json"
	"strconv"

	"github.com/waybill-dev/waybill/internal/config"
)

// ProcessOffering is the description of a process for people.
type ProcessOffering struct {
	ID          string      `json:"id"`
	Title       string      `json:"title"`
	Description string      `json:"description,omitempty"`
	Version     string      `json:"version"`
	Executed    []string    `json:"jobControlOptions"` // sync-execute, async-execute, dismiss
	Inputs      []ValueView `json:"inputs,omitempty"`
	Outputs     []ValueView `json:"outputs,omitempty"`
}

// ValueView is one input or output.
type ValueView struct {
	Name     string         `json:"name"`
	Required bool           `json:"required,omitempty"`
	Schema   map[string]any `json:"schema"`
}

// ControlsOf returns the ways to execute a process, as OGC API – Processes names them (jobControlOptions).
func ControlsOf(w config.Process) []string {
	if w.Sync > 0 {
		return []string{"sync-execute", "async-execute", "dismiss"}
	}
	return []string{"async-execute", "dismiss"}
}

// ListProcesses returns the processes without their inputs and outputs.
func (s *Service) ListProcesses(ctx context.Context) ([]ProcessOffering, error) {
	all, err := s.Processes(ctx)
	views := make([]ProcessOffering, len(all))
	for i, w := range all {
		views[i] = offeringOf(w)
	}
	return views, err
}

func offeringOf(w config.Process) ProcessOffering {
	return ProcessOffering{ID: w.Name, Title: w.Title, Description: w.Description, Version: strconv.Itoa(w.Version), Executed: ControlsOf(w)}
}

// ShowProcess returns one process with its inputs and outputs, or fault.NoSuchProcess.
func (s *Service) ShowProcess(ctx context.Context, id string) (ProcessOffering, error) {
	w, err := s.Process(ctx, id)
	if err != nil {
		return ProcessOffering{}, err
	}
	view := offeringOf(w)
	for _, v := range w.Inputs() {
		view.Inputs = append(view.Inputs, ValueView{v.Name, v.Required, v.Schema})
	}
	for _, v := range w.Output.Values() {
		view.Outputs = append(view.Outputs, ValueView{v.Name, false, v.Schema})
	}
	return view, nil
}

// RunProcess creates a job, or returns the one that the payload cache has for the same payload.
func (s *Service) RunProcess(ctx context.Context, id string, inputs json.RawMessage, by string) (AddedAction, error) {
	return s.Execute(ctx, Execution{Process: id, Inputs: inputs, By: by})
}
