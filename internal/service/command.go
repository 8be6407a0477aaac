package service

import (
	"context"
	"time"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/pipeline"
)

// Command is a person's command to a deployment.
type Command struct {
	Kind   string `json:"kind"`             // retry | skip | hold | resume | until | alarm | cancel
	Target string `json:"target,omitempty"` // with or without the pipeline's name; "": the whole deployment, or for until: all stages
	Event  string `json:"event,omitempty"`  // only this step of Target
	Reason string `json:"reason,omitempty"`
	// Now also interrupts builds and replication (cancel), or skips the window and the soak of an environment once (resume).
	Now   bool      `json:"now,omitempty"`
	Until time.Time `json:"until,omitzero"` // hold of a pipeline of Kubernetes: when it ends by itself; zero: a resume ends it
	By    string    `json:"by,omitempty"`
}

// noteOf returns the event of the note that records a kind of command; "" for an unknown kind.
func noteOf(kind string) string {
	switch kind {
	case "retry":
		return pipeline.RetryRequested
	case "skip":
		return pipeline.StepSkipped
	case "hold":
		return pipeline.HoldSet
	case "resume":
		return pipeline.HoldCleared
	case "until":
		return pipeline.UntilSet
	case "alarm":
		return pipeline.AlarmRaised
	case "cancel":
		return pipeline.PipelineCanceled
	}
	return ""
}

// Command records a command as a note, or returns why the engine refuses it. The deployer acts on the note. A skip
// cannot be taken back, so the log always has the reason: one without a reason is fault.Invalid.
func (s *Service) Command(ctx context.Context, ref Ref, c Command) error {
	if OfKubernetes(ref.Pipeline) {
		return s.commandRun(ctx, ref, c)
	}
	if err := checkReason(c.Reason); err != nil {
		return err
	}
	switch {
	case !c.Until.IsZero():
		return fault.New(fault.Refused, "until: a hold of %s ends when it is resumed", ref.Pipeline)
	case c.Now && c.Kind == "resume":
		return fault.New(fault.Refused, "now: windows of %s are part of its definition, which an edit changes", ref.Pipeline)
	}
	intent, err := c.intent(ref)
	if err != nil {
		return err
	}
	if c.Kind == "skip" && c.Reason == "" {
		return fault.New(fault.Invalid, "skip wants a reason").WithHint("such as that a disk is being replaced")
	}
	if err := s.checkLive(ctx, ref); err != nil {
		return err
	}
	return s.appendDecided(ctx, ref.Pipeline, c.By,
		func(e *pipeline.Engine, _ time.Time) ([]pipeline.Entry, error) { return e.Command(intent) })
}

// intent returns the command in the terms of the engine. The error is fault.Invalid for an unknown kind.
func (c Command) intent(ref Ref) (pipeline.Command, error) {
	note := noteOf(c.Kind)
	if note == "" {
		return pipeline.Command{}, fault.New(fault.Invalid, "%q is not a command: want retry, skip, hold, resume, until, alarm or cancel", c.Kind)
	}
	return pipeline.Command{
		Kind: note, Deployment: ref.Number, Target: targetOrAll(ref.Pipeline, c.Target), Event: c.Event,
		By: c.By, Reason: c.Reason, Now: c.Now,
	}, nil
}
