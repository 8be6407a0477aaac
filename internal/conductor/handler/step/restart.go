package step

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/conductor"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/pipeline"
)

// RestartHandler is the name of the handler that restarts services; no file may describe one of that name.
const RestartHandler = "service-restart"

// restartTakes is the time of an attempt beside the time that the service may take to become ready. After
// restartWaits a restart that was not made is void: its reason may have passed.
const (
	restartTakes = time.Minute
	restartWaits = 2 * time.Minute
	verifyTakes  = 10 * time.Minute // beside that, if the files of the release are compared, and perhaps sent
)

// Restart is the parameters of an action that restarts the service of a host.
type Restart struct {
	Pipeline   string `json:"pipeline"`
	Target     string `json:"target"`           // full path of the host
	Version    int    `json:"version"`          // version of the definition in force
	Deployment int64  `json:"deployment"`       // whose release the host runs
	Revision   int64  `json:"revision"`         // revision of that release
	Reason     string `json:"reason,omitempty"` // text for people
	Verify     bool   `json:"verify,omitempty"` // a release whose files have changed is built beside and switched to
}

// RestartAction returns the action that restarts the service of a host. While one is live, another for the same host
// is not made.
func RestartAction(r Restart, at pipeline.Place, service pipeline.Service, by string) (action.Action, error) {
	parameters, err := json.Marshal(r)
	policy := action.DefaultPolicy()
	policy.AttemptTimeout = service.Ready.Within + action.Duration(restartTakes)
	if r.Verify {
		policy.AttemptTimeout += action.Duration(verifyTakes)
	}
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
	folder, err := r.restart(ctx, a, restart)
	failed := fault.Is(err, fault.Failed) && ctx.Err() == nil
	if err != nil && !failed {
		return outcomeOf(ctx, err)
	}
	detail := map[string]string{"action": a.Action.ID.String(), "by": a.Action.CreatedBy}
	if restart.Reason != "" {
		detail["reason"] = restart.Reason
	}
	text := "restarted"
	if folder != "" {
		detail["release"], text = folder, "restarted as "+folder+", built beside since files of the release had changed"
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
	output, err := json.Marshal(Output{Text: text, Release: folder})
	if err != nil {
		return outcomeOf(ctx, err)
	}
	return action.Outcome{Kind: action.Done, Output: output}
}

// restart restarts the service of the host's current release and waits until it is ready: it stays up, and the checks
// of ready pass. It returns the folder of a release that was built beside, "" if the host runs the first one.
func (r Restarter) restart(ctx context.Context, a conductor.Attempt, restart Restart) (folder string, err error) {
	a.Action.Step = &action.StepRef{Pipeline: restart.Pipeline, Deployment: restart.Deployment, Target: restart.Target,
		Event: pipeline.HostDeployed, Revision: restart.Revision, Version: restart.Version}
	t, err := r.Steps.load(ctx, a)
	if err != nil {
		return "", err
	}
	defer t.host.Close()
	there, err := t.program().deployed(ctx)
	if err == nil && !there {
		err = fault.Permanent(fault.New(fault.NotFound, "nothing was ever deployed to %s on host %s", t.folder, t.Host.Name))
	}
	if err != nil {
		return "", err
	}
	if restart.Verify {
		folder, err = t.renew(ctx)
		return folder, t.redact(err)
	}
	return "", t.redact(t.restartService(ctx))
}

// renew builds the release in use beside if its files have changed, and switches to that as a deployment of the same revision would.
// Else it restarts the service. It leaves the host's fence as it is, so that a newer deployment still comes first.
func (t *attempt) renew(ctx context.Context) (folder string, err error) {
	answer, err := t.program().call(ctx, nil, "status")
	if err != nil {
		return "", err
	}
	state := stateOf(answer)
	switch {
	case !state.of(t.config.LedgerID, t.facts.Pipeline):
		return "", fault.Permanent(fault.New(fault.Refused, "%s of another pipeline or ledger was here", state.Deployment))
	case state.Release != t.release && !strings.HasPrefix(state.Release, t.release+"."):
		return "", fault.Permanent(fault.New(fault.Refused, "the host has switched to %q, which is not of revision %s",
			state.Release, t.revision.Label))
	}
	t.rank, t.owner = state.Rank, state.Deployment
	whole, err := t.replicate(ctx)
	if err != nil {
		return "", err
	}
	if whole.Release == state.Release {
		if whole.Release != t.release { // maybe by an attempt that could not note it
			folder = whole.Release
		}
		return folder, t.restartService(ctx)
	}
	d, err := t.config.Ledger.Definition(ctx, t.facts.Pipeline, t.facts.Version)
	if err != nil {
		return "", unread(err, "read definition %d of %s", t.facts.Version, t.facts.Pipeline)
	}
	if t.Target, err = t.resolved(&d, whole.Release); err != nil {
		return "", fault.Permanent(err)
	}
	out, err := t.deploy(ctx)
	return out.Release, err
}

// restartService restarts the service on a host to which something was deployed.
func (t *attempt) restartService(ctx context.Context) error {
	begin := time.Now()
	if _, err := t.program().call(ctx, nil, "restart", pair("action", t.id), pair("attempt", ranked(t.era, t.number)),
		pair("ledger", t.config.LedgerID), pair("name", t.facts.Pipeline),
		pair("hold", tenths(t.Service.Ready.For)), pair("within", tenths(t.within(ctx)))); err != nil {
		return err
	}
	return t.becomesReady(ctx, begin.Add(time.Duration(t.within(ctx))))
}
