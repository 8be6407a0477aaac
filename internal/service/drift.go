package service

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/waybill-dev/waybill/internal/pipeline"
)

// Drift is a host that does not run the current release of its stage.
type Drift struct {
	Target string `json:"target"`
	Has    string `json:"has,omitempty"` // label of the release on the host; "": none
	Wants  string `json:"wants"`         // label of the stage's current revision
	Reason string `json:"reason"`        // such as "has no release yet"

	Lost    bool `json:"lost,omitempty"`    // the host does not have the release in the log
	CatchUp bool `json:"catchUp,omitempty"` // a catch-up of the host brings it what it wants

	Rejected bool `json:"rejected,omitempty"` // a catch-up would, once the revision is accepted again
}

// drifts returns the hosts that do not run the current release of their stage, except those that a deployment is changing.
func (s *Service) drifts(f *fold, view *PipelineView) []Drift {
	current := map[string]*Standing{} // by stage
	for _, stage := range view.Stages {
		current[stage.Name] = stage.Current
	}
	var found []Drift
	for _, host := range view.Hosts {
		wanted := current[host.place.Stage.Name]
		if wanted == nil {
			continue
		}
		if d, drifted := driftOf(f, &host, *wanted); drifted {
			d.Target = host.Target
			found = append(found, d)
		}
	}
	return found
}

// driftOf compares the release on a host with the current one of its stage.
func driftOf(f *fold, host *HostView, current Standing) (Drift, bool) {
	d, runs := Drift{Wants: current.Label}, host.Runs
	if runs == nil && host.taken != nil {
		d.Lost, d.Reason = true, "was taken over, and has no release of this log yet"
		return d, true
	}
	if runs == nil {
		d.Reason = fmt.Sprintf("has no release yet: it was added after #%d", current.Deployment)
		return d, true
	}
	d.Has = runs.Label
	doubt := ""
	if runs.Doubt != "" {
		doubt = ", " + runs.Doubt
	}
	status := pipeline.Status(runs.Status)
	newer := f.engine.Outranks(runs.Deployment, current.Deployment)
	switch {
	case runs.Deployment == current.Deployment:
		return d, false
	case runs.Label == current.Label && status == pipeline.StatusFinished:
		return d, false // by a catch-up, or left alone by a rollback
	case newer && status == pipeline.StatusActive:
		return d, false // on its way
	case newer:
		d.Reason = fmt.Sprintf("runs %s of #%d%s, which %s", runs.Label, runs.Deployment, doubt, endedWords(status))
	default:
		d.Reason = fmt.Sprintf("runs %s of #%d%s, not of #%d", runs.Label, runs.Deployment, doubt, current.Deployment)
	}
	return d, true
}

// endedWords returns how a deployment ended, as the end of a sentence.
func endedWords(status pipeline.Status) string {
	switch status {
	case pipeline.StatusCanceled, pipeline.StatusSuperseded:
		return "was " + string(status)
	case pipeline.StatusFailed:
		return "has failed"
	}
	return "has " + string(status)
}

// lostReleases returns the hosts whose release is not the one in the log: they were changed by hand, lost their
// files, or the log was restored. It leaves out stages with an active deployment, whose hosts may be changing, and
// ssh hosts that were not looked at.
func (s *Service) lostReleases(view *PipelineView) (found []Drift) {
	changing, known := map[string]bool{}, map[string]bool{}
	for _, stage := range view.Stages {
		changing[stage.Name] = slices.ContainsFunc(stage.Inside, func(in Standing) bool { return in.Status == pipeline.StatusActive })
	}
	for _, d := range view.Drift {
		known[d.Target] = true
	}
	for i := range view.Hosts {
		host := &view.Hosts[i]
		if host.release == "" || changing[host.place.Stage.Name] || known[host.Target] {
			continue
		}
		d := Drift{Target: host.Target, Wants: host.Runs.Label}
		switch release, here, err := s.releaseOn(host); {
		case err != nil:
			d.Reason = "cannot be read: " + err.Error()
		case !here || release == host.release:
			continue
		case release == "":
			d.Lost, d.Reason = true, fmt.Sprintf("has lost %s of #%d", host.Runs.Label, host.Runs.Deployment)
		default:
			d.Lost, d.Has, d.Reason = true, release, fmt.Sprintf("has release %s, not %s of #%d", release, host.Runs.Label, host.Runs.Deployment)
		}
		found = append(found, d)
	}
	return found
}

// releaseOn returns the release that a host has switched to, "" for none. An ssh host answers when it is looked at;
// known is false if it did not, or a switch is in progress there.
func (s *Service) releaseOn(host *HostView) (release string, known bool, err error) {
	if host.place.Host.Remote() {
		state := host.seen.state
		return state.Release, host.seen.known && host.seen.err == nil && !state.Busy && !state.Unfinished, nil
	}
	if s.Current == nil {
		return "", false, nil
	}
	release, known, err = s.Current(*host.place.Host, host.service.Name)
	if err == nil && !known && host.alone {
		return "", true, nil // the folder is of this home, and was removed
	}
	return release, known, err
}

// fillDrift adds the hosts whose release is not the one in the log, which were looked at, and notes for each host
// that drifts whether a catch-up brings it its revision.
func (s *Service) fillDrift(ctx context.Context, view *PipelineView) error {
	view.Drift = append(view.Drift, s.lostReleases(view)...)
	var lost []string
	for _, d := range view.Drift {
		if d.Lost {
			lost = append(lost, d.Target)
		}
	}
	if len(view.Drift) == 0 {
		return nil
	}
	return s.withFold(ctx, view.Name, func(f *fold) error {
		lacking := f.engine.Lacking(lost)
		for i := range view.Drift {
			possible, lacks := lacking[view.Drift[i].Target]
			view.Drift[i].CatchUp, view.Drift[i].Rejected = possible, lacks && !possible
		}
		return nil
	})
}

// Remedy returns the commands that bring a host of a pipeline what it lacks.
func (d *Drift) Remedy(name string) string {
	command := "waybill deployment create " + name + " " + below(d.Target) + " --catch-up"
	switch {
	case d.CatchUp:
		return command
	case d.Rejected:
		return "waybill revision accept " + name + " " + d.Wants + ", then " + command
	}
	return "waybill ship --again"
}

// below returns a target without the pipeline's name.
func below(target string) string {
	_, rest, _ := strings.Cut(target, "/")
	return rest
}
