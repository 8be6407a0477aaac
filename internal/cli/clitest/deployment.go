package clitest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/cli/show"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/service"
)

// Busy reports that a process works on the log.
func Busy(context.Context) bool { return false }

// Idle reports that no process works on the log.
func Idle(context.Context) bool { return true }

// IdleWarning is the warning of a command when no process works on the log.
const IdleWarning = "waybill: no process works on this log now: start waybill up, or run waybill ship\n"

// SomeAction is the id of the tests' action.
const SomeAction = "01a1f866-0d10-7c55-9d3e-5b0c7c1a2f77"

// AnAction returns the id of the tests' action.
func AnAction(t *testing.T) action.ID {
	t.Helper()
	id, err := action.ParseID(SomeAction)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// ErrAway is a failure that commands pass on.
var ErrAway = fault.New(fault.LedgerUnavailable, "the ledger does not answer")

// Deployed returns a deployment of the tests' pipeline.
func Deployed(number, revision int64, status pipeline.Status) journal.Deployment {
	return journal.Deployment{Pipeline: "greeter", Number: number, Revision: revision,
		Label: fmt.Sprintf("r%d", revision), Status: status, CreatedAt: Noon().Add(-time.Hour), EndedAt: Noon().Add(-time.Minute)}
}

// Seen returns the views of deployments by their names.
func Seen(all ...journal.Deployment) map[string]service.DeploymentView {
	views := map[string]service.DeploymentView{}
	for _, d := range all {
		views[show.RefOf(d).String()] = service.DeploymentView{Deployment: d,
			State: pipeline.DeploymentState{Status: d.Status, Version: 1, EndedAt: d.EndedAt}, Now: Noon()}
	}
	return views
}

// Ending is a log whose deployment has ended after some reads.
type Ending struct {
	*Log
	After service.DeploymentView
	From  int // the read that finds the end
	reads int
}

// NewEnding returns a log whose deployment has ended at a read.
func NewEnding(log *Log, from int, after service.DeploymentView) *Ending {
	e := &Ending{Log: log, From: from, After: after}
	log.Read = e.Deployment
	return e
}

func (e *Ending) Deployment(ctx context.Context, ref service.Ref) (service.DeploymentView, error) {
	if e.reads++; e.reads >= e.From {
		return e.After, nil
	}
	return e.Log.Deployment(ctx, ref)
}
