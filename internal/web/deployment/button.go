package deployment

import (
	"fmt"

	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/server"
	"github.com/waybill-dev/waybill/internal/web/page"
)

// CanHold, CanResume, CanRetry and CanCancel report which buttons make sense now. The server checks
// again.
func (d deploymentPage) CanHold() bool {
	return d.Status == pipeline.StatusActive && (d.State.Held == "" || len(d.State.HeldStages) > 0)
}

// CanResume reports whether the deployment itself is held, or goes no further than a stage.
func (d deploymentPage) CanResume() bool {
	whole := d.State.Held != "" && len(d.State.HeldStages) == 0 && !d.State.Rejected
	return d.Status == pipeline.StatusActive && (whole || d.State.Held == "" && d.State.Until != "")
}

// StageNames returns the stages that can be held by themselves. It leaves none out that has ended:
// a choice that moves on the live page would become another one.
func (d deploymentPage) StageNames() (names []string) {
	for _, stage := range d.Stages {
		names = append(names, stage.Name)
	}
	return names
}

// ResumeSays returns what the button that resumes does now.
func (d deploymentPage) ResumeSays() string {
	if d.State.Held == "" {
		return "It goes no further than " + d.State.Until + " now, and continues through every stage then."
	}
	return "What waits begins as soon as its turn comes."
}

// CanRetry reports whether failed steps may be tried again. The server refuses that after a
// rollback, and when a newer deployment has started what this one has still to do.
func (d deploymentPage) CanRetry() bool {
	return len(d.Failures) > 0 && d.mayContinue() && d.State.RolledBackBy == 0 && d.OvertakenBy == 0
}

func (d deploymentPage) CanCancel() bool { return d.mayContinue() }

// CanSkip reports whether a stage or a host has something left to skip, as far as its own state
// says.
func (d deploymentPage) CanSkip(run server.Run) bool {
	switch run.State {
	case server.RunWaiting, server.RunUnreached, server.RunFailed, server.RunStopped:
		return d.mayChange()
	}
	return false
}

// CanSkipStep reports whether a gate or a bake may be skipped by itself.
func (d deploymentPage) CanSkipStep(step server.StepRun) bool {
	switch step.State {
	case pipeline.StateWaiting, pipeline.StateRunnable, pipeline.StateFailed:
		return d.mayChange() && !server.IsBuilt(step.Event)
	}
	return false
}

// RetrySays returns what the button that retries does now.
func (d deploymentPage) RetrySays() string {
	return page.Plural(len(d.Failures), "failed step is", "failed steps are") +
		" attempted again, with the same revision. What is done stays done."
}

// HoldSays returns what the button that holds does now.
func (d deploymentPage) HoldSays() string {
	return "Nothing new begins until it is resumed. " + d.atWork("ends", "end")
}

// CancelSays returns what the button that cancels does now.
func (d deploymentPage) CancelSays() string {
	return "Nothing new begins, and it cannot be resumed later. " +
		d.atWork("ends, or is interrupted if it changes nothing", "end, or are interrupted if they change nothing") +
		" Hosts keep what they have."
}

// ApproveSays returns what the button that approves a stage does now.
func (d deploymentPage) ApproveSays(a pipeline.ApprovalState) string {
	if left := a.Count - len(a.Given) - 1; left > 0 {
		return page.Plural(left, "more person", "more people") + " must approve " + a.Stage +
			" too before it starts in this deployment."
	}
	return a.Stage + " starts in this deployment, unless a window, a freeze or another deployment keeps it back."
}

// atWork returns what becomes of the steps that are at work.
func (d deploymentPage) atWork(one, many string) string {
	switch d.State.Live {
	case 0:
		return "No step is at work now."
	case 1:
		return "The step at work " + one + "."
	}
	return fmt.Sprintf("The %d steps at work %s.", d.State.Live, many)
}

func (d deploymentPage) mayContinue() bool {
	return d.Status == pipeline.StatusActive || d.Status == pipeline.StatusFailed
}

// mayChange reports whether steps may be skipped and stages resumed. The server refuses that, and
// all else but canceling, once a newer deployment has started what a failed one has still to do.
func (d deploymentPage) mayChange() bool { return d.mayContinue() && d.OvertakenBy == 0 }

// HeldStages returns the stages that may be resumed by themselves.
func (d deploymentPage) HeldStages() []string {
	if !d.mayChange() {
		return nil
	}
	return d.State.HeldStages
}

// CanSkipFailed reports whether a failed step may be skipped.
func (d deploymentPage) CanSkipFailed() bool { return d.mayChange() }
