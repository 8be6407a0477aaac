package server

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/waybill-dev/waybill/internal/action"
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

// ListProcesses calls Service.ListProcesses on the server.
func (c *Client) ListProcesses(ctx context.Context) ([]ProcessOffering, error) {
	var list struct {
		Processes []ProcessOffering `json:"processes"`
	}
	err := c.doJSON(ctx, request{method: http.MethodGet, path: "/processes", root: true, query: url.Values{"limit": {"10000"}}}, &list)
	return list.Processes, err
}

// ShowProcess calls Service.ShowProcess on the server.
func (c *Client) ShowProcess(ctx context.Context, id string) (ProcessOffering, error) {
	var process struct {
		ProcessOffering
		Inputs map[string]struct {
			MinOccurs int            `json:"minOccurs"`
			Schema    map[string]any `json:"schema"`
		} `json:"inputs"`
		Outputs map[string]struct {
			Schema map[string]any `json:"schema"`
		} `json:"outputs"`
	}
	if err := c.doJSON(ctx, request{method: http.MethodGet, path: apiPath("processes", id), root: true}, &process); err != nil {
		return ProcessOffering{}, err
	}
	view := process.ProcessOffering
	for name, v := range process.Inputs {
		view.Inputs = append(view.Inputs, ValueView{name, v.MinOccurs > 0, v.Schema})
	}
	for name, v := range process.Outputs {
		view.Outputs = append(view.Outputs, ValueView{name, false, v.Schema})
	}
	for _, values := range [][]ValueView{view.Inputs, view.Outputs} {
		slices.SortFunc(values, func(a, b ValueView) int { return strings.Compare(a.Name, b.Name) })
	}
	return view, nil
}

// RunProcess calls Service.RunProcess on the server. The server takes the user from the token.
func (c *Client) RunProcess(ctx context.Context, id string, inputs json.RawMessage, _ string) (AddedAction, error) {
	body, err := json.Marshal(map[string]json.RawMessage{"inputs": inputs})
	if err != nil {
		return AddedAction{}, err
	}
	response, err := c.sendRequest(ctx, request{method: http.MethodPost, path: apiPath("processes", id, "execution"), root: true,
		body: strings.NewReader(string(body)), kind: "application/json", prefer: "respond-async"})
	if err != nil {
		return AddedAction{}, err
	}
	defer response.Body.Close()
	var job struct {
		JobID action.ID `json:"jobID"`
	}
	if err := json.NewDecoder(response.Body).Decode(&job); err != nil {
		return AddedAction{}, err
	}
	view, err := GetAction.Call(ctx, c, ActionPath{ID: job.JobID.String()})
	return AddedAction{view.ActionState, response.StatusCode == http.StatusCreated}, err // a redirect led to an existing job
}
