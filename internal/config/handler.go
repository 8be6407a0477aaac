package config

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/secret"
	"github.com/waybill-dev/waybill/internal/webhook"
)

// The types of handlers.
const (
	TypeWebhook = "webhook"
	TypeShell   = "shell"
	TypeArgo    = "argo"
	TypeCirrus  = "cirrus"
	TypeNoop    = "noop"
)

// Handler is one entry of handlers: the parameters of its actions, their policy, and their work.
type Handler struct {
	Name       string
	Type       string // webhook, shell, argo, cirrus or noop
	Delivery   action.Delivery
	Policy     action.Policy
	Parameters Parameters
	Secrets    []secret.Source
	Request    *webhook.Request // request of a webhook
	Command    *Command         // command of a shell
	Argo       *Argo            // options of an argo
	Cirrus     *Cirrus          // options of a cirrus
	Workers    int              // attempts at a time in one process; 0: the conductor's
	Limits     action.Limits    // over all processes
	refusals   []*regexp.Regexp // errors that mean that the target refuses work
	lane       *webhook.Template
}

// Refuses reports whether an attempt's error means that the target refuses work, as far as the configuration decides.
func (h Handler) Refuses(text string) bool {
	return slices.ContainsFunc(h.refusals, func(p *regexp.Regexp) bool { return p.MatchString(text) })
}

// Command is the program of a shell handler.
type Command struct {
	Argv      []string // no shell, unless Argv[0] is one
	Env       []string // names that the command gets from this process's environment, besides PATH and HOME
	ExitCodes map[int]webhook.Verdict
}

// Argo configures the place where a handler's workflows are made, or resumed.
type Argo struct {
	Resume     bool   // wake workflows that wait in a suspend node; make none
	Kubeconfig string // a file; "": the cluster that this process runs in
	Context    string // in the file; "": its current one
	Namespace  string // "": the context's
	InstanceID string // id of the controller that runs them; "": the one without
	Finalizer  bool   // keep a workflow until it is archived
	Artifacts  string // s3://BUCKET?endpoint=URL&region=NAME, where the workflows put theirs; "": they are not read
}

// Bucket returns the name of the bucket of Artifacts.
func (a Argo) Bucket() string {
	name, _, _ := strings.Cut(strings.TrimPrefix(a.Artifacts, "s3://"), "?")
	return name
}

// The parameters of a handler that resumes workflows; its others are the node's outputs.
const (
	ResumeWorkflow = "workflow"
	ResumeNode     = "node"
)

// KindAction is the kind of an action that was added by naming a handler.
const KindAction = "action"

// Prepare makes the action that these parameters request, without its id. The error is every fault of the parameters
// (fault.Problems).
func (h Handler) Prepare(raw json.RawMessage) (action.Action, error) {
	if h.Type == TypeNoop {
		return h.action(raw, h.Name), nil
	}
	filled, problems := h.Parameters.Fill(raw)
	if err := problems.Err(); err != nil {
		return action.Action{}, err
	}
	lane, err := h.laneOf(filled)
	if err != nil {
		return action.Action{}, fault.Problems{{Code: "lane", Text: err.Error()}}
	}
	return h.action(raw, lane), nil
}

func (h Handler) action(raw json.RawMessage, lane string) action.Action {
	return action.Action{Kind: KindAction, Name: h.Name, Handler: h.Name, Lane: lane, Parameters: raw, Policy: h.Policy, Delivery: h.Delivery}
}

// longestLane is the length in bytes that a lane's target may have.
const longestLane = 200

// laneOf returns the handler's name and, if it has several targets, the target.
func (h Handler) laneOf(filled map[string]any) (string, error) {
	data := map[string]any{"parameters": filled, "url": ""}
	target := ""
	if h.Request != nil {
		address, err := h.Request.Address(filled, h.secretNames())
		if err != nil {
			return "", err
		}
		target = strings.ToLower(address.Host)
		data["url"] = address.String()
	}
	if h.lane != nil {
		var err error
		if target, err = h.lane.Render(data); err != nil {
			return "", err
		}
	}
	switch {
	case target == "":
		return h.Name, nil
	case len(target) > longestLane:
		return "", fmt.Errorf("lane: %q… has more than %d bytes", target[:40], longestLane)
	case strings.ContainsFunc(target, func(r rune) bool { return r < ' ' }):
		return "", fmt.Errorf("lane: %q has a control character", target)
	}
	return h.Name + "/" + target, nil
}

func (h Handler) secretNames() []string {
	names := make([]string, len(h.Secrets))
	for i, s := range h.Secrets {
		names[i] = s.Name
	}
	return names
}
