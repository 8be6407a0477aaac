package deployment

import (
	"fmt"

	"github.com/waybill-dev/waybill/internal/admission"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/service"
	"github.com/waybill-dev/waybill/internal/web/page"
)

// CanHold reports whether the button that holds makes sense now. The server checks again, as it
// does for the buttons below.
func (d deploymentPage) CanHold() bool {
	return d.Status == pipeline.StatusActive && (d.State.Held == "" || len(d.State.HeldStages) > 0)
}

// CanResume reports whether the deployment itself is held, or goes no further than a stage.
func (d deploymentPage) CanResume() bool {
	whole := d.State.Held != "" && len(d.State.HeldStages) == 0 && !d.State.Rejected
	return d.Status == pipeline.StatusActive && (whole || d.State.Held == "" && d.State.Until != "")
}

// StageNames returns the stages that can be held. It includes ended ones: on a live page a choice
// must not move to another stage.
func (d deploymentPage) StageNames() (names []string) {
	for _, stage := range d.Stages {
		names = append(names, stage.Name)
	}
	return names
}

// ResumeSays returns the effect of the button that resumes.
func (d deploymentPage) ResumeSays() string {
	if d.State.Held == "" {
		return "It goes no further than " + d.State.Until + " now, and continues through every stage then."
	}
	return "What waits begins as soon as its turn comes."
}

// CanRetry reports whether failed steps may be tried again. The server refuses a retry after a
// rollback, and once a newer deployment has started a step that this one has still to do.
func (d deploymentPage) CanRetry() bool {
	return len(d.Failures) > 0 && d.mayContinue() && d.State.RolledBackBy == 0 && d.OvertakenBy == 0
}

func (d deploymentPage) CanCancel() bool { return d.mayContinue() }

// CanSkip reports whether the state of a stage or a host leaves something to skip.
func (d deploymentPage) CanSkip(run service.Run) bool {
	switch run.State {
	case service.RunWaiting, service.RunUnreached, service.RunFailed, service.RunStopped:
		return d.mayChange()
	}
	return false
}

// CanSkipStep reports whether a gate or a bake may be skipped without the rest of its stage.
func (d deploymentPage) CanSkipStep(step service.StepRun) bool {
	switch step.State {
	case pipeline.StateWaiting, pipeline.StateRunnable, pipeline.StateFailed:
		return d.mayChange() && !service.IsBuilt(step.Event)
	}
	return false
}

// RetrySays returns the effect of the button that retries.
func (d deploymentPage) RetrySays() string {
	return page.Plural(len(d.Failures), "failed step is", "failed steps are") +
		" attempted again, with the same revision. What is done stays done."
}

// HoldSays returns the effect of the button that holds.
func (d deploymentPage) HoldSays() string {
	return "Nothing new begins until it is resumed. " + d.atWork("ends", "end")
}

// CancelSays returns the effect of the button that cancels.
func (d deploymentPage) CancelSays() string {
	return "Nothing new begins, and it cannot be resumed later. " +
		d.atWork("ends, or is interrupted if it changes nothing", "end, or are interrupted if they change nothing") +
		" Hosts keep what they have."
}

// ApproveSays returns the effect of the button that approves a stage.
func (d deploymentPage) ApproveSays(a admission.ApprovalState) string {
	if left := a.Count - len(a.Given) - 1; left > 0 {
		return page.Plural(left, "more person", "more people") + " must approve " + a.Stage +
			" too before it starts in this deployment."
	}
	return a.Stage + " starts in this deployment, unless a window, a freeze or another deployment keeps it back."
}

// RejectSays returns the effect of the button that rejects a stage.
func (d deploymentPage) RejectSays() string {
	if d.OfKubernetes() {
		return "The revision stays out of the environment until a newer one comes, or a retry."
	}
	return "The stage waits until somebody approves it."
}

// OfKubernetes reports whether the deployment is a run of a pipeline of Kubernetes.
func (d deploymentPage) OfKubernetes() bool { return service.OfKubernetes(d.Pipeline) }

// atWork returns a sentence about the steps at work, with one verb or the other.
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
	if d.OfKubernetes() {
		return false // the page of the pipeline has the buttons
	}
	return d.Status == pipeline.StatusActive || d.Status == pipeline.StatusFailed
}

// mayChange reports whether steps may be skipped and stages resumed. The server refuses everything
// but canceling once a newer deployment has started a step that a failed one has still to do.
func (d deploymentPage) mayChange() bool { return d.mayContinue() && d.OvertakenBy == 0 }

// HeldStages returns the held stages that may be resumed.
func (d deploymentPage) HeldStages() []string {
	if !d.mayChange() {
		return nil
	}
	return d.State.HeldStages
}

// CanSkipFailed reports whether a failed step may be skipped.
func (d deploymentPage) CanSkipFailed() bool { return d.mayChange() }
