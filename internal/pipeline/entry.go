package pipeline

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/admission"
)

// Class is the kind of an entry: completing a step, annotating, or changing the pipeline.
type Class uint8

// The classes. The numbers are stored.
const (
	Fact   Class = iota + 1 // done: (deployment, target, event) is complete from here on
	Note                    // an annotation: repeatable, makes nothing complete
	Change                  // change of the pipeline itself; its deployment is 0
)

// classNames has the text of each class, by its number. No class is 0.
var classNames = [...]string{"", "fact", "note", "change"}

// String returns fact, note or change; "" for the zero Class and any other value.
func (c Class) String() string {
	if int(c) >= len(classNames) {
		return ""
	}
	return classNames[c]
}

// MarshalText writes fact, note or change.
func (c Class) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalText reads the output of MarshalText. Any other text is an error, and leaves c as it was.
func (c *Class) UnmarshalText(text []byte) error {
	i := slices.Index(classNames[:], string(text))
	if i < 0 {
		return fmt.Errorf("%q is not a class of entries: fact, note or change", text)
	}
	*c = Class(i)
	return nil
}

// Entry is one row of the deployment log: for this deployment, this event has
// happened to this target. Rows are appended and never changed.
//
// A fact is identified by deployment, target and event, a note by its Occurrence as well. Revision
// and Version of a row about a deployment repeat what the fold knows, for readers of single rows;
// only deployment-created, pipeline-defined and changes of a revision define something by them.
type Entry struct {
	Pipeline   string          `json:"pipeline"`
	Seq        int64           `json:"seq"`                  // position in the pipeline's log, gapless, in commit order
	Deployment int64           `json:"deployment,omitempty"` // 7 of greeter#7; 0: the pipeline itself
	Target     string          `json:"target"`               // full path, such as greeter/prod/east/elm
	Event      string          `json:"event"`
	Occurrence int             `json:"occurrence,omitempty"` // notes count 1, 2, 3; facts are 0
	Class      Class           `json:"class"`
	Revision   int64           `json:"revision,omitempty"` // rev_seq
	Version    int             `json:"version,omitempty"`  // definition version in force
	At         time.Time       `json:"at"`                 // the transaction's time, for people
	Detail     json.RawMessage `json:"detail,omitempty"`   // the actor, the reason, sizes
	Digest     Digest          `json:"-"`                  // stored digest, if the entry was read with digests; see Link
}

// StepKey names a step of a deployment. It is the unique key of the step's action in the queue,
// and, with class fact, of its completion in the log.
type StepKey struct {
	Deployment int64  `json:"deployment"`
	Target     string `json:"target"`
	Event      string `json:"event"`
}

// Facts. Events of own steps are "host-" + the step's name; of artifacts see ArtifactEvent, of
// gates GateEvent. Each event has one name in the log (R23); canonicalEvent reads the short forms
// that people may write.
const (
	PipelineStarted  = "pipeline-started"
	PipelineFinished = "pipeline-finished-successfully"
	StageStarted     = "stage-started"
	StageFinished    = "stage-finished-successfully"
	StageBaked       = "stage-baked"
	BuildCompleted   = "build-completed"
	EnvPromoted      = "environment-promoted"
	GroupStarted     = "host-group-started"
	GroupFinished    = "host-group-finished-successfully"
	WaveStarted      = "wave-started"
	WaveFinished     = "wave-finished-successfully"
	WaveBaked        = "wave-baked"
	HostStarted      = "host-started"
	HostReplicated   = "host-artifact-replicated"
	HostDeployed     = "host-deployed"
	HostTested       = "host-deployment-tested"
	HostFinished     = "host-finished-successfully"
)

// ArtifactEvent returns the event of the fact that a build stage has received the artifact with
// this label.
func ArtifactEvent(label string) string { return "build-stage-received-" + label + "-artifact" }

// artifactLabel returns the label in an event of ArtifactEvent; "" for any other event, which is
// also how callers recognize an artifact's event.
func artifactLabel(event string) string {
	label, ok := strings.CutPrefix(event, "build-stage-received-")
	if !ok {
		return ""
	}
	label, ok = strings.CutSuffix(label, "-artifact")
	if !ok {
		return ""
	}
	return label
}

// GateEvent returns the event of the fact that a gate of a stage has passed.
func GateEvent(name string) string { return "gate-passed/" + name }

// Notes: intents of people, ends of actions, and consequences that the deployer records where they
// arise.
const (
	DeploymentCreated    = "deployment-created"
	RetryRequested       = "retry-requested" // Target: the step's, or a host, group, stage or the pipeline; Detail {"event": …} narrows it
	StepSkipped          = "step-skipped"    // likewise
	HoldSet              = "hold-set"        // Target: the pipeline or a stage
	HoldCleared          = "hold-cleared"    // Target: likewise; a stage beyond until may start from here on
	UntilSet             = "until-set"       // Target: the pipeline; Detail {"until": stage}: go no further than it; "": to the end
	AlarmRaised          = "alarm-raised"    // Target: the pipeline, or what is under it; fails the bakes that are live there
	PipelineCanceled     = "pipeline-canceled"
	PipelineSuperseded   = "pipeline-superseded"
	PipelineFailed       = "pipeline-failed"
	StageFailed          = "stage-failed"
	GroupFailed          = "host-group-failed"
	HostFailed           = "host-failed"
	HostFailureTolerated = "host-failure-tolerated"
	StepClaimed          = "step-claimed"      // Detail StepDetail; its action was created in the same transaction
	StepFailed           = "step-failed"       // Detail StepDetail
	StepCanceled         = "step-canceled"     // Detail StepDetail
	StepExcluded         = "step-excluded"     // Detail StepDetail
	StepReported         = "step-reported"     // Detail StepDetail: what a live step meets, for people
	ApprovalGiven        = "approval-given"    // Target: the stage; Detail {"by", "reason"}
	ApprovalRejected     = "approval-rejected" // likewise; the stage waits until somebody approves
	BatchAcquired        = "batch-acquired"
	BatchReleased        = "batch-released"
)

// Changes of the pipeline itself.
const (
	PipelineDefined     = "pipeline-defined" // Version is the new one
	StepIntroduced      = "step-introduced"  // Target: stage; Detail IntroducedDetail
	HostJoined          = "host-joined"
	HostLeft            = "host-left"
	FreezeSet           = "freeze-set" // nothing starts until it is cleared, or until the time in Detail freezeDetail
	FreezeCleared       = "freeze-cleared"
	ServiceStopped      = "service-stopped"      // Target: host; by waybill pipeline stop
	ServiceRestarted    = "service-restarted"    // Target: host; by waybill service restart
	ServiceTakenOver    = "service-taken-over"   // Target: host; Detail TakenDetail: it followed another log until then
	DeploymentsArchived = "deployments-archived" // Detail ArchivedDetail: their rows have left the log
	ArtifactRegistered  = "artifact-registered"  // Revision; Detail {"label", "digest", "size", "by"}
	RevisionRejected    = "revision-rejected"    // Revision; Detail rejectionDetail: it is deployed only when accepted again
	RevisionAccepted    = "revision-accepted"    // likewise
)

// StepDetail is the Detail of notes about a step: Target alone does not name it.
type StepDetail struct {
	Event  string `json:"event,omitempty"`  // the step's event, such as host-deployed; "": all of the target
	Action string `json:"action,omitempty"` // id of its action
	Status string `json:"status,omitempty"` // how the action ended
	Error  string `json:"error,omitempty"`
	Reason string `json:"reason,omitempty"`
	By     string `json:"by,omitempty"` // the person or program that asked
	// Observed is the time for which a bake has gone well so far, in step-reported.
	Observed action.Duration `json:"observed,omitempty"`
	// Home is the home whose hosts were observed, of a bake over local hosts of several homes.
	Home string `json:"home,omitempty"`
}

// OnceDetail is the Detail of the fact of a step that runs once, on the hosts where it took no action.
type OnceDetail struct {
	On string `json:"on,omitempty"` // path of the host that ran it
}

// TakenDetail is the Detail of service-taken-over.
type TakenDetail struct {
	By         string `json:"by,omitempty"`
	Service    string `json:"service"`              // name of its folder on the host
	Ledger     string `json:"ledger"`               // id of the log that the host followed before
	Deployment string `json:"deployment,omitempty"` // the last one of that log there, such as greeter#9
}

// Details of rows that more than one file reads or writes. They are JSON in the log, so names of
// fields never change, and a field that an old row lacks is its zero value.
type (
	// createdDetail holds the facts of deployment-created beside the number and the revision.
	createdDetail struct {
		Label string `json:"label"` // label of the revision
		Until string `json:"until"` // stage to go no further than, by name; "": to the end
		By    string `json:"by"`    // who asked for the deployment
		Kind  string `json:"kind,omitempty"`
		// Of a rollback: the deployment that it undoes, the target that it was requested, the hosts that it covers,
		// and why it was made. Of a part, Scope is its target.
		Undoes int64    `json:"undoes,omitempty"`
		Scope  string   `json:"scope,omitempty"`
		Hosts  []string `json:"hosts,omitempty"`
		Reason string   `json:"reason,omitempty"`
		// Completes is, of a catch-up, the deployment that it completes; Hosts and Reason are as in
		// a rollback.
		Completes int64 `json:"completes,omitempty"`
		// Lost are those of the hosts of a catch-up that no longer had the release in the log.
		Lost []string `json:"lost,omitempty"`
		// RegisteredBy names the registrant of the revision; "": By did, as always in rows of earlier versions.
		RegisteredBy string `json:"registeredBy"`
	}
	// freezeDetail is the Detail of freeze-set and freeze-cleared.
	freezeDetail struct {
		By     string    `json:"by,omitempty"`
		Reason string    `json:"reason,omitempty"`
		Until  time.Time `json:"until,omitzero"`
	}
	// rejectionDetail is the Detail of revision-rejected and revision-accepted.
	rejectionDetail struct {
		Label  string `json:"label"` // label of the revision, for people
		By     string `json:"by,omitempty"`
		Reason string `json:"reason,omitempty"`
	}
	// endDetail is the reason why a deployment ended, or a person's request.
	endDetail struct {
		Deployment int64  `json:"deployment,omitempty"` // superseded by this one, or canceled by this rollback
		By         string `json:"by,omitempty"`         // the person or program that asked; "": the engine
		Reason     string `json:"reason,omitempty"`
		Now        bool   `json:"now,omitempty"`   // canceled: interrupts builds and replication as well
		Until      string `json:"until,omitempty"` // until-set: last stage to enter, by name
		// Groups are those that the person of an approval was in when they gave it.
		Groups []string `json:"groups,omitempty"`
	}
	// artifactDetail is the part of artifact-registered that decides; the engine keeps the whole
	// Detail.
	artifactDetail struct {
		Label  string `json:"label"`
		Digest string `json:"digest,omitempty"` // "" in no row of the journal
		By     string `json:"by,omitempty"`     // who uploaded it; "": a build of Waybill made it
	}
	// IntroducedDetail is the Detail of step-introduced.
	IntroducedDetail struct {
		Event  string `json:"event"`
		After  int64  `json:"revisionAfter"`    // the newest revision registered then
		Strict bool   `json:"strict,omitempty"` // an architecture: never for that revision or an older one
	}
)

// String returns the text that people see, such as "by ana: checking dashboards".
func (d endDetail) String() string { return admission.Attributed(d.By, d.Reason) }

// Before and after the event in the Detail of a claim. Claims are a third of all rows, so these are
// neither written nor read by package json unless the event needs it.
const claimStart, claimEnd = `{"event":"`, `"}`

// claimDetail returns the Detail of a claim of a step. The engine keeps it for each event.
func (e *Engine) claimDetail(event string) json.RawMessage {
	text, ok := e.claimDetails[event]
	if !ok {
		text = claimDetail(event)
		e.claimDetails[event] = text
	}
	return text
}

// claimDetail returns the Detail of a claim of a step.
func claimDetail(event string) json.RawMessage {
	if isPlain(event) {
		return json.RawMessage(claimStart + event + claimEnd)
	}
	text, _ := json.Marshal(StepDetail{Event: event}) // a struct of strings always marshals
	return text
}

// claimedEvent returns the event of the step that a row claims.
func claimedEvent(row *Entry) string {
	if rest, ok := bytes.CutPrefix(row.Detail, []byte(claimStart)); ok {
		if event, ok := bytes.CutSuffix(rest, []byte(claimEnd)); ok && isPlain(string(event)) {
			return string(event)
		}
	}
	return detail[StepDetail](*row).Event
}

// isPlain reports whether JSON has a text as it is.
func isPlain(text string) bool {
	for i := range len(text) {
		if c := text[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '/' {
			return false
		}
	}
	return true
}

// detail reads a row's Detail. One that cannot be read counts as empty: notes come from people's
// requests as well, and a fold must not fail for the text of a note.
func detail[T any](row Entry) T {
	var d T
	if len(row.Detail) > 0 {
		_ = json.Unmarshal(row.Detail, &d) // an unreadable detail is ignored
	}
	return d
}
