package client

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/operation"
	"github.com/waybill-dev/waybill/internal/service"
)

// ListProcesses calls Service.ListProcesses on the server.
func (c *Client) ListProcesses(ctx context.Context) ([]service.ProcessOffering, error) {
	var list struct {
		Processes []service.ProcessOffering `json:"processes"`
	}
	err := c.doJSON(ctx, request{method: http.MethodGet, path: "/processes", root: true, query: url.Values{"limit": {"10000"}}}, &list)
	return list.Processes, err
}

// ShowProcess calls Service.ShowProcess on the server.
func (c *Client) ShowProcess(ctx context.Context, id string) (service.ProcessOffering, error) {
	var process struct {
		service.ProcessOffering
		Inputs map[string]struct {
			MinOccurs int            `json:"minOccurs"`
			Schema    map[string]any `json:"schema"`
		} `json:"inputs"`
		Outputs map[string]struct {
			Schema map[string]any `json:"schema"`
		} `json:"outputs"`
	}
	if err := c.doJSON(ctx, request{method: http.MethodGet, path: apiPath("processes", id), root: true}, &process); err != nil {
		return service.ProcessOffering{}, err
	}
	view := process.ProcessOffering
	for name, v := range process.Inputs {
		view.Inputs = append(view.Inputs, service.ValueView{Name: name, Required: v.MinOccurs > 0, Schema: v.Schema})
	}
	for name, v := range process.Outputs {
		view.Outputs = append(view.Outputs, service.ValueView{Name: name, Schema: v.Schema})
	}
	for _, values := range [][]service.ValueView{view.Inputs, view.Outputs} {
		slices.SortFunc(values, func(a, b service.ValueView) int { return strings.Compare(a.Name, b.Name) })
	}
	return view, nil
}

// RunProcess calls Service.RunProcess on the server. The server takes the user from the token.
func (c *Client) RunProcess(ctx context.Context, id string, inputs json.RawMessage, _ string) (service.AddedAction, error) {
	body, err := json.Marshal(map[string]json.RawMessage{"inputs": inputs})
	if err != nil {
		return service.AddedAction{}, err
	}
	response, err := c.sendRequest(ctx, request{method: http.MethodPost, path: apiPath("processes", id, "execution"), root: true,
		body: strings.NewReader(string(body)), kind: "application/json", prefer: "respond-async"})
	if err != nil {
		return service.AddedAction{}, err
	}
	defer response.Body.Close()
	var job struct {
		JobID action.ID `json:"jobID"`
	}
	if err := json.NewDecoder(response.Body).Decode(&job); err != nil {
		return service.AddedAction{}, err
	}
	view, err := operation.GetAction.Call(ctx, c, operation.ActionPath{ID: job.JobID.String()})
	return service.AddedAction{ActionState: view.ActionState,
		Created: response.StatusCode == http.StatusCreated}, err // a redirect led to an existing job
}
