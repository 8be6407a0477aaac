package promotion

import "time"

// SourceType selects the place of a revision in an object.
type SourceType string

// The types of sources.
const (
	SourceRevision       SourceType = "revision"
	SourceTag            SourceType = "tag"
	SourceDigest         SourceType = "digest"
	SourceChartVersion   SourceType = "chartVersion"
	SourceOCIDigest      SourceType = "ociDigest"
	SourceAppVersion     SourceType = "appVersion"
	SourceOriginRevision SourceType = "originRevision"
	SourceLabel          SourceType = "label"
	SourceAnnotation     SourceType = "annotation"
	SourceMarker         SourceType = "marker"
)

// Source configures how a revision is read from an application.
type Source struct {
	Type      SourceType `json:"type,omitzero"`
	Key       string     `json:"key,omitzero"`       // name of the label or annotation
	KeepBuild bool       `json:"keepBuild,omitzero"` // chart versions keep their build metadata, after +
}

// Condition is one condition of an object's status.
type Condition struct {
	Status   string // True, False, Unknown; "": the condition is absent
	Reason   string
	Message  string // at most 256 bytes
	Observed int64  // its observedGeneration; 0: absent
}

// Release is a row of a HelmRelease's history.
type Release struct {
	Status       string // deployed, failed, uninstalled, …
	ChartVersion string
	AppVersion   string
	OCIDigest    string
}

// AppState holds the part of an application's object that decisions need. It is comparable by
// reflect.DeepEqual; equal states wake no pipeline.
type AppState struct {
	UID        string
	Generation int64
	Observed   int64 // status.observedGeneration; -1: absent
	Suspended  bool  // spec.suspend
	Deleting   bool
	Ready      Condition
	Stalled    Condition
	// Reconciling is not kept in full: its message changes with every step of a controller.
	Reconciling      bool
	HasApplied       bool // status.lastAppliedRevision is present
	Applied          string
	HasAttempted     bool // status.lastAttemptedRevision is present
	Attempted        string
	AttemptedDigest  string // status.lastAttemptedRevisionDigest
	AppliedOrigin    string // status.lastAppliedOriginRevision
	Helm             bool   // the object is a HelmRelease: chart versions lose their build metadata
	HasHistory       bool   // it is a HelmRelease with a history, or without status.lastAppliedRevision
	History          []Release
	Value            string // value of the label or annotation that the source names
	MarkerApplied    string // value at the markers in the applied commit, for SourceMarker
	MarkerAttempted  string
	Malformed        string // why the status cannot be read; "": it can
	NotReconciledYet string // explanation for a kind that is not supported yet; "": it is
}

// Unseen classifies targets with unknown state.
type Unseen string

// The reasons.
const (
	ClusterNotFound    Unseen = "ClusterNotFound"
	ClusterNotReady    Unseen = "ClusterNotReady"
	ClusterUnreachable Unseen = "ClusterUnreachable"
	NotSynced          Unseen = "NotSynced"
	Forbidden          Unseen = "Forbidden"
	TargetNotFound     Unseen = "TargetNotFound"
	Deleting           Unseen = "Deleting"
	SuspendedTarget    Unseen = "Suspended"
	Stale              Unseen = "Stale"
	NotReconciled      Unseen = "NotReconciled"
	NoRevision         Unseen = "NoRevision"
)

// Class is the health of a target.
type Class string

// The classes.
const (
	Unknown     Class = "Unknown"
	Ready       Class = "Ready"
	Failed      Class = "Failed"
	Progressing Class = "Progressing"
)

// Seen is the state of one target at one time. The class of a re-check depends on the time and is found by Decide:
// a target whose controller checks its applied revision again keeps its last class for a while.
type Seen struct {
	Class     Class    `json:"class,omitzero"`
	Why       Unseen   `json:"why,omitzero"`     // reason, with class Unknown
	Message   string   `json:"message,omitzero"` // message of the condition or the cluster, at most 256 bytes
	Applied   Revision `json:"applied,omitzero"`
	Attempted Revision `json:"attempted,omitzero"`
	// Rechecking means that the controller checks its applied revision again; Class is Progressing.
	Rechecking   bool      `json:"rechecking,omitzero"`
	Last         Class     `json:"last,omitzero"`         // the class before the re-check began; "": none is known
	RecheckSince time.Time `json:"recheckSince,omitzero"` // start of the re-check
}
