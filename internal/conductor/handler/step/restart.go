package step

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/conductor"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/pipeline"
)

// RestartHandler is the name of the handler that restarts services; no file may describe one of that name.
const RestartHandler = "service-restart"

// restartTakes is the time of an attempt beside the time that the service may take to become ready. After
// restartWaits a restart that was not made is void: what was the reason for it may have passed.
const (
	restartTakes = time.Minute
	restartWaits = 2 * time.Minute
)

// Restart is the parameters of an action that restarts the service of a host.
type Restart struct {
	Pipeline   string `json:"pipeline"`
	Target     string `json:"target"`           // full path of the host
	Version    int    `json:"version"`          // of the definition in force
	Deployment int64  `json:"deployment"`       // whose release the host runs
	Revision   int64  `json:"revision"`         // of that release
	Reason     string `json:"reason,omitempty"` // for people
}

// RestartAction returns the action that restarts the service of a host. While one is live, another one for
// the same host is not made.
func RestartAction(r Restart, at pipeline.Place, service pipeline.Service, by string) (action.Action, error) {
	parameters, err := json.Marshal(r)
	policy := action.DefaultPolicy()
	policy.AttemptTimeout = service.Ready.Within + action.Duration(restartTakes)
	policy.Deadline = policy.AttemptTimeout + action.Duration(restartWaits)
	return action.Action{Kind: "restart", Name: "restart " + r.Target, Handler: RestartHandler, Lane: RestartHandler + "/" + at.Host.Address(),
		UniqueKey: "restart " + r.Target, Parameters: parameters, Policy: policy, CreatedBy: by}, err
}

// Restarter restarts services. Safe for concurrent use.
type Restarter struct {
	Steps *Handler // reaches the hosts
}

// Do makes one attempt to restart the service that the action names, and appends the change service-restarted. A restart
// whose service does not become ready is not made again: its supervisor keeps trying.
func (r Restarter) Do(ctx context.Context, a conductor.Attempt) action.Outcome {
	var restart Restart
	if err := json.Unmarshal(a.Action.Parameters, &restart); err != nil {
		return action.Outcome{Kind: action.BadInput, Error: "read the parameters: " + err.Error()}
	}
	err := r.restart(ctx, a, restart)
	failed := fault.Is(err, fault.Failed) && ctx.Err() == nil
	if err != nil && !failed {
		return outcomeOf(ctx, err)
	}
	detail := map[string]string{"action": a.Action.ID.String(), "by": a.Action.CreatedBy}
	if restart.Reason != "" {
		detail["reason"] = restart.Reason
	}
	if failed {
		detail["error"] = err.Error()
	}
	encoded, marshalErr := json.Marshal(detail)
	if marshalErr != nil {
		return outcomeOf(ctx, marshalErr)
	}
	e := pipeline.Entry{Target: restart.Target, Event: pipeline.ServiceRestarted, Class: pipeline.Change, Detail: encoded}
	if noteErr := r.Steps.config.Ledger.Remark(ctx, restart.Pipeline, e); noteErr != nil {
		return outcomeOf(ctx, fmt.Errorf("note the restart: %w", noteErr))
	}
	if failed {
		return outcomeOf(ctx, fault.Permanent(err))
	}
	return action.Outcome{Kind: action.Done, Output: json.RawMessage(`{"text":"restarted"}`)}
}

// restart restarts the service of the host's current release and waits until it is ready: it stays up, and the checks
// of ready pass.
func (r Restarter) restart(ctx context.Context, a conductor.Attempt, restart Restart) error {
	a.Action.Step = &action.StepRef{Pipeline: restart.Pipeline, Deployment: restart.Deployment, Target: restart.Target,
		Event: pipeline.HostDeployed, Revision: restart.Revision, Version: restart.Version}
	t, err := r.Steps.load(ctx, a)
	if err != nil {
		return err
	}
	defer t.host.Close()
	there, err := t.program().deployed(ctx)
	if err == nil && !there {
		err = fault.Permanent(fault.New(fault.NotFound, "nothing was ever deployed to %s on host %s", t.folder, t.Host.Name))
	}
	if err != nil {
		return err
	}
	return t.redact(t.restartService(ctx))
}

// restartService restarts the service on a host to which something was deployed.
func (t *attempt) restartService(ctx context.Context) error {
	begin := time.Now()
	if _, err := t.program().call(ctx, nil, "restart", pair("action", t.id), pair("attempt", ranked(t.era, t.number)), pair("ledger", t.config.LedgerID), pair("name", t.facts.Pipeline),
		pair("hold", tenths(t.Service.Ready.For)), pair("within", tenths(t.within(ctx)))); err != nil {
		return err
	}
	return t.becomesReady(ctx, begin.Add(time.Duration(t.within(ctx))))
}
