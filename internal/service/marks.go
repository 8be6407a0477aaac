package service

import (
	"cmp"
	"encoding/json"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/conductor/handler/step"
	"github.com/waybill-dev/waybill/internal/pipeline"
)

// marks holds the facts of a log that views need beyond the engine's answers: which deployments passed each stage and
// when, what failed where, and what each host runs.
type marks struct {
	stages  map[string]map[int64]*stageMark // stage → deployment
	targets map[int64]map[string]targetMark // deployment → target
	reports map[int64]map[stepName]string   // deployment → the last error that a live step reported
	// What runs somewhere is known by the service and its address: a target may get another name.
	hosts   map[pipeline.Resource]hostMark // the release it switched to last
	through map[pipeline.Resource]hostMark // the release it finished last
	places  map[string]pipeline.Resource   // host → what it was when a row about it came last
	// commands has the newest commands on each deployment; under 0 the freezes and thaws.
	commands map[int64][]RecordedCommand
}

// stageMark is the progress of a deployment through one stage.
type stageMark struct {
	started, finished time.Time
	hosts             int                       // hosts that finished
	checks            map[string]ConditionState // the gates and the bake that have begun, by event
	approved          bool                      // a person has approved it
}

// targetMark is the last failure of a stage, group or host. A retry clears it.
type targetMark struct {
	event string
	at    time.Time
}

func newMarks() marks {
	return marks{stages: map[string]map[int64]*stageMark{}, targets: map[int64]map[string]targetMark{},
		reports: map[int64]map[stepName]string{},
		hosts:   map[pipeline.Resource]hostMark{}, through: map[pipeline.Resource]hostMark{},
		places: map[string]pipeline.Resource{}, commands: map[int64][]RecordedCommand{}}
}

// applyEntry updates the marks by one row of the log, which the engine has applied.
func (m *marks) applyEntry(e *pipeline.Engine, row pipeline.Entry) {
	switch row.Event {
	case pipeline.DeploymentsArchived:
		m.forget(row)
	case pipeline.PipelineDefined:
		m.renameStages(e)
	}
	m.applyToHost(e, row)
	m.applyCommand(row)
	if row.Deployment == 0 {
		return
	}
	m.applyReport(row)
	m.applyCheck(row)
	switch row.Event {
	case pipeline.ApprovalGiven:
		m.stageMarkOf(row).approved = true
	case pipeline.StageStarted:
		m.stageMarkOf(row).started = row.At
	case pipeline.StageFinished:
		m.stageMarkOf(row).finished = row.At
	case pipeline.HostFinished:
		m.stageMarkOf(row).hosts++
	case pipeline.StageFailed, pipeline.GroupFailed, pipeline.HostFailed, pipeline.HostFailureTolerated:
		m.failuresOf(row.Deployment)[row.Target] = targetMark{row.Event, row.At}
	case pipeline.RetryRequested:
		m.clearFailures(row)
	}
}

// renameStages gives the kept part of stages to those that report that they had these names. No deployment is inside
// then.
func (m *marks) renameStages(e *pipeline.Engine) {
	_, plan := e.Current()
	for _, stage := range plan.Definition().Stages {
		for _, was := range stage.Was {
			for number, mark := range m.stages[was] {
				if m.stages[stage.Name] == nil {
					m.stages[stage.Name] = map[int64]*stageMark{}
				}
				if m.stages[stage.Name][number] == nil {
					m.stages[stage.Name][number] = mark
				}
			}
			delete(m.stages, was)
		}
	}
}

// forget removes the kept part of archived deployments, as the engine does. What runs on hosts stays.
func (m *marks) forget(row pipeline.Entry) {
	var gone pipeline.ArchivedDetail
	_ = json.Unmarshal(row.Detail, &gone) // what cannot be read names none, to the engine too
	for _, number := range gone.Deployments {
		for _, byDeployment := range m.stages {
			delete(byDeployment, number)
		}
		delete(m.targets, number)
		delete(m.reports, number)
		delete(m.commands, number)
	}
}

// applyReport keeps what a step reported until the step is claimed again or ends.
func (m *marks) applyReport(row pipeline.Entry) {
	step := stepName{row.Target, row.Event}
	detail := detailOf(row)
	if row.Class == pipeline.Note {
		step.event = detail.Event
	}
	if row.Event != pipeline.StepReported {
		delete(m.reports[row.Deployment], step)
		return
	}
	if m.reports[row.Deployment] == nil {
		m.reports[row.Deployment] = map[stepName]string{}
	}
	m.reports[row.Deployment][step] = detail.Error
}

// applyCheck keeps how far the gates and the bake of a stage are.
func (m *marks) applyCheck(row pipeline.Entry) {
	event, state := row.Event, ConditionPassed
	switch row.Event {
	case pipeline.RetryRequested, pipeline.StepSkipped:
		m.resetChecks(row)
		return
	case pipeline.StepClaimed:
		event, state = detailOf(row).Event, ConditionRunning
	case pipeline.StepFailed:
		event, state = detailOf(row).Event, ConditionFailed
	case pipeline.StepCanceled:
		event, state = detailOf(row).Event, ConditionWaiting
	}
	if event != pipeline.StageBaked && !strings.HasPrefix(event, pipeline.GateEvent("")) {
		return
	}
	mark := m.stageMarkOf(row)
	if mark.checks == nil {
		mark.checks = map[string]ConditionState{}
	}
	mark.checks[event] = state
}

// resetChecks applies a retry or a skip to the gates and bakes of the stages under its target.
func (m *marks) resetChecks(row pipeline.Entry) {
	only := detailOf(row).Event
	for stage, byDeployment := range m.stages {
		mark := byDeployment[row.Deployment]
		if mark == nil || !isWithin(pipeline.Path(row.Pipeline, stage), row.Target) {
			continue
		}
		for event, state := range mark.checks {
			switch {
			case only != "" && only != event || state == ConditionPassed:
			case row.Event == pipeline.StepSkipped:
				mark.checks[event] = ConditionSkipped
			case state == ConditionFailed:
				mark.checks[event] = ConditionWaiting
			}
		}
	}
}

// detailOf returns the detail of a note about a step. A detail that cannot be read is empty, and so names no step.
func detailOf(row pipeline.Entry) (detail pipeline.StepDetail) {
	if row.Class == pipeline.Note {
		_ = json.Unmarshal(row.Detail, &detail)
	}
	return detail
}

// stageMarkOf returns the mark of the row's deployment in the row's stage, which the caller may change.
func (m *marks) stageMarkOf(row pipeline.Entry) *stageMark {
	parts := strings.SplitN(row.Target, "/", 3)
	if len(parts) < 2 {
		return &stageMark{}
	}
	byDeployment := m.stages[parts[1]]
	if byDeployment == nil {
		byDeployment = map[int64]*stageMark{}
		m.stages[parts[1]] = byDeployment
	}
	if byDeployment[row.Deployment] == nil {
		byDeployment[row.Deployment] = &stageMark{}
	}
	return byDeployment[row.Deployment]
}

// failuresOf returns the failures of a deployment by target, which the caller may change.
func (m *marks) failuresOf(deployment int64) map[string]targetMark {
	if m.targets[deployment] == nil {
		m.targets[deployment] = map[string]targetMark{}
	}
	return m.targets[deployment]
}

// failedAt reports whether a deployment failed at a stage.
func (m *marks) failedAt(deployment int64, stage string) bool {
	return m.targets[deployment][stage].event == pipeline.StageFailed
}

// clearFailures removes the failures at, above and below the target of a retry.
func (m *marks) clearFailures(row pipeline.Entry) {
	for target := range m.targets[row.Deployment] {
		if isWithin(target, row.Target) || isWithin(row.Target, target) {
			delete(m.targets[row.Deployment], target)
		}
	}
}

// isWithin reports whether target is above or something below it.
func isWithin(target, above string) bool {
	return target == above || strings.HasPrefix(target, above+"/")
}

// TextOf returns the text for people in the JSON of an action or an entry: its "text", or the string that it is; else "".
func TextOf(raw json.RawMessage) string {
	var plain string
	if json.Unmarshal(raw, &plain) == nil {
		return plain
	}
	var object struct {
		Text string `json:"text"`
	}
	if json.Unmarshal(raw, &object) != nil {
		return ""
	}
	return object.Text
}

// hostMark is the release on a host by the log.
type hostMark struct {
	seq        int64 // number of the row that switched the host
	changed    int64 // number of the last row that switched the host, or restarted, ended or took over its service
	deployment int64
	target     string // the deployment's target: the name that the host had then
	at         time.Time
	release    string // its name on the host
	tested     bool
	failed     bool
	stopped    bool
	taken      *pipeline.TakenDetail // another log has deployed to the host, and this one not since; nil: no
}

// applyToHost updates the release that a host runs.
func (m *marks) applyToHost(e *pipeline.Engine, row pipeline.Entry) {
	switch row.Event {
	case pipeline.ServiceStopped, pipeline.ServiceRestarted, pipeline.ServiceTakenOver:
		if r, ok := m.resourceOf(e, row); ok {
			m.hosts[r] = m.hosts[r].serviceChanged(row)
		}
	case pipeline.HostFinished:
		if r, ok := m.resourceOf(e, row); ok {
			m.through[r] = hostMark{seq: row.Seq, changed: row.Seq, deployment: row.Deployment, target: row.Target, at: row.At, tested: true}
		}
	case pipeline.HostDeployed:
		var output step.Output
		_ = json.Unmarshal(row.Detail, &output) // another worker's detail need not have it
		if r, ok := m.resourceOf(e, row); ok {
			m.hosts[r] = hostMark{seq: row.Seq, changed: row.Seq, deployment: row.Deployment, target: row.Target, at: row.At,
				release: output.Release}
		}
	case pipeline.HostTested, pipeline.StepFailed, pipeline.StepClaimed:
		m.applyTest(e, row)
	}
}

// applyTest updates whether the release that a host runs has passed its test.
func (m *marks) applyTest(e *pipeline.Engine, row pipeline.Entry) {
	if row.Event != pipeline.HostTested && detailOf(row).Event != pipeline.HostTested {
		return
	}
	r, ok := m.resourceOf(e, row)
	mark := m.hosts[r]
	if !ok || mark.deployment != row.Deployment || mark.target != row.Target {
		return
	}
	switch row.Event {
	case pipeline.HostTested:
		mark.tested, mark.failed = true, false
	case pipeline.StepFailed:
		mark.failed = true
	case pipeline.StepClaimed:
		mark.failed = false
	}
	m.hosts[r] = mark
}

// resourceOf returns what the host of a row is, as the row's deployment has it. A host that the definition in force no longer
// has is what it was when the row before came.
func (m *marks) resourceOf(e *pipeline.Engine, row pipeline.Entry) (pipeline.Resource, bool) {
	r, ok := e.ResourceOf(row.Deployment, row.Target)
	if !ok {
		r, ok = m.places[row.Target]
		return r, ok
	}
	m.places[row.Target] = r
	return r, ok
}

// serviceChanged returns the mark after a person's command on the service of the host.
func (h hostMark) serviceChanged(row pipeline.Entry) hostMark {
	h.changed = row.Seq
	switch row.Event {
	case pipeline.ServiceStopped:
		h.stopped = true
	case pipeline.ServiceRestarted:
		h.stopped = false
		var output step.Output
		_ = json.Unmarshal(row.Detail, &output) // most name no release
		h.release = cmp.Or(output.Release, h.release)
	case pipeline.ServiceTakenOver: // whatever this log had deployed there before, another has replaced
		var taken pipeline.TakenDetail
		_ = json.Unmarshal(row.Detail, &taken) // the takeover is certain, even if the detail is not readable
		h = hostMark{changed: row.Seq, taken: &taken}
	}
	return h
}
