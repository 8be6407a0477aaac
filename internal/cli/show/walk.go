package show

import (
	"iter"
	"time"

	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/service"
)

// steps walks every step of a deployment that takes work, in the order of its definition.
func steps(v service.DeploymentView) iter.Seq[service.StepRun] {
	return func(yield func(service.StepRun) bool) {
		for _, stage := range v.Stages {
			for _, step := range stage.Steps {
				if !yield(step) {
					return
				}
			}
			for _, group := range stage.Groups {
				for _, wave := range group.Waves {
					for _, step := range wave.Steps {
						if !yield(step) {
							return
						}
					}
				}
			}
			for host := range Hosts(stage) {
				for _, step := range host.Steps {
					if !yield(step) {
						return
					}
				}
			}
		}
	}
}

// Hosts walks the hosts of a stage.
func Hosts(stage service.StageRun) iter.Seq[service.HostRun] {
	return func(yield func(service.HostRun) bool) {
		for _, group := range stage.Groups {
			for _, host := range group.Hosts {
				if !yield(host) {
					return
				}
			}
		}
	}
}

// lasts is the time for which a reason must hold before it is shown: between two passes of the deployer there is one
// for a moment.
const lasts = time.Second

// patience finds reasons to wait that last.
type patience struct {
	reason string
	since  time.Time
}

// lasting returns the reason once it has been the same for a while, by the ledger's time, and who can change it.
func (p *patience) lasting(v service.DeploymentView) (reason, who string) {
	reason, who = waitingFor(v)
	if reason != p.reason {
		p.reason, p.since = reason, v.Now
	}
	if v.Now.Sub(p.since) < lasts {
		return "", ""
	}
	return reason, who
}

// waitingFor returns why an active deployment does not proceed: the first reason, when none of its steps is live, and the
// command that can change it. It returns "" while something runs. When only promotions are live, it returns the reason of the first one.
func waitingFor(v service.DeploymentView) (reason, who string) {
	switch {
	case v.State.Status != pipeline.StatusActive:
		return "", ""
	case v.State.Live > 0:
		return promotionWaits(v), ""
	}
	if v.State.Held != "" {
		return "held " + v.State.Held, v.State.Resume
	}
	for _, stage := range v.Stages {
		if stage.State == service.RunFinished || stage.State == service.RunSkipped {
			continue
		}
		if stage.Reason != "" {
			return stage.Reason, stage.Who
		}
		for host := range Hosts(stage) {
			if host.State == service.RunWaiting && host.Reason != "" {
				return host.Reason, host.Who
			}
		}
		for _, step := range stage.Steps {
			if step.State == pipeline.StateWaiting && step.Reason != "" {
				return step.Reason, step.Who
			}
		}
	}
	return "", ""
}

// promotionWaits returns the reason of the first live promotion, if nothing else is live.
func promotionWaits(v service.DeploymentView) (reason string) {
	live := 0
	for _, stage := range v.Stages {
		for _, step := range stage.Steps {
			if step.Event != pipeline.EnvPromoted || step.State != pipeline.StateClaimed || stage.Environment == nil {
				continue
			}
			if live++; live == 1 {
				reason = service.WaitOf(*stage.Environment)
			}
		}
	}
	if live < v.State.Live {
		return ""
	}
	return reason
}

// waitingText returns a reason to wait with the command that can change it.
func waitingText(reason, who string) string {
	if who == "" {
		return reason
	}
	return reason + " (" + who + ")"
}
