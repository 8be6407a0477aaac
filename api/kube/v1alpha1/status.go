package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// The types of conditions.
const (
	ConditionReady            = "Ready"
	ConditionPromotionPending = "PromotionPending"
	ConditionRolloutFailed    = "RolloutFailed"
	ConditionStalled          = "Stalled"
)

// The reasons of the conditions Ready and Stalled that are not reasons of an environment.
const (
	ReasonSucceeded         = "ReconciliationSucceeded"
	ReasonTargetNotReadable = "TargetNotReadable"
	ReasonInvalidSpec       = "InvalidSpec"
	ReasonClusterRefDenied  = "ClusterRefDenied"
	ReasonBranchCollision   = "BranchCollision"
	ReasonTargetCollision   = "TargetCollision"
)

// PipelineStatus is the observed state of a pipeline. No field changes with the clock.
type PipelineStatus struct {
	// ObservedGeneration is the generation of the definition that this status is about; -1 until it was seen.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Conditions are Ready, PromotionPending, RolloutFailed and Stalled. A condition that does not apply is absent, except Ready.
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// Environments are the states of the environments, by name.
	// +optional
	Environments map[string]EnvironmentStatus `json:"environments,omitempty"`
	// LatestRevision is the revision seen in the first environment.
	// +optional
	LatestRevision string `json:"latestRevision,omitempty"`
	// Run is the current run.
	// +optional
	Run *RunStatus `json:"run,omitempty"`
}

// RunStatus describes a run.
type RunStatus struct {
	// ID of the run in Waybill's log.
	ID string `json:"id"`
	// Number of the run in its pipeline.
	Number int64 `json:"number"`
	// Revision that is promoted.
	Revision string `json:"revision"`
	// StartedAt is the time of its start.
	StartedAt metav1.Time `json:"startedAt"`
}

// EnvironmentStatus is the observed state of an environment.
type EnvironmentStatus struct {
	// WaitingApproval holds the revision that waits for approval.
	// +optional
	WaitingApproval *WaitingApproval `json:"waitingApproval,omitempty"`
	// Targets are the states of the targets, in the order of the definition.
	// +optional
	Targets []TargetStatus `json:"targets,omitempty"`
	// Want is the revision that the environment should have.
	// +optional
	Want string `json:"want,omitempty"`
	// Phase is the state of the environment on its way to the wanted revision.
	// +optional
	Phase string `json:"phase,omitempty"`
	// Since is the time at which the phase began.
	// +optional
	Since *metav1.Time `json:"since,omitempty"`
	// Blocked lists all reasons for which the environment waits.
	// +optional
	Blocked []Blocked `json:"blocked,omitempty"`
	// Promotion is the last attempt to promote into the environment.
	// +optional
	Promotion *PromotionStatus `json:"promotion,omitempty"`
}

// WaitingApproval holds the revision that waits for approval.
type WaitingApproval struct {
	// Revision that waits; empty: none.
	Revision string `json:"revision"`
}

// Blocked is one reason for waiting.
type Blocked struct {
	// Reason in one word.
	Reason string `json:"reason"`
	// Message explains the reason.
	// +optional
	Message string `json:"message,omitempty"`
	// Until is the time at which the reason ends on its own, if that is known.
	// +optional
	Until *metav1.Time `json:"until,omitempty"`
}

// PromotionStatus is the last attempt to promote into an environment.
type PromotionStatus struct {
	// Revision that was promoted.
	// +optional
	Revision string `json:"revision,omitempty"`
	// LastAttemptedTime is the time of the attempt.
	// +optional
	LastAttemptedTime *metav1.Time `json:"lastAttemptedTime,omitempty"`
	// Succeeded is true if the attempt did its work.
	// +optional
	Succeeded bool `json:"succeeded,omitempty"`
	// ActionID of the attempt in Waybill's queue.
	// +optional
	ActionID string `json:"actionID,omitempty"`
	// PullRequest is the pull request of the environment.
	// +optional
	PullRequest *PullRequestStatus `json:"pullRequest,omitempty"`
}

// PullRequestStatus describes a pull request.
type PullRequestStatus struct {
	// URL of its page.
	// +optional
	URL string `json:"url,omitempty"`
	// Number of the pull request in its repository.
	// +optional
	Number int64 `json:"number,omitempty"`
	// State is open, merged or closed.
	// +optional
	State string `json:"state,omitempty"`
}

// TargetStatus is the observed state of a target.
type TargetStatus struct {
	// ClusterAppRef names the application, and its cluster.
	ClusterAppRef ClusterAppReference `json:"clusterAppRef"`
	// Ready is true if the application is ready at its applied revision.
	Ready bool `json:"ready"`
	// Revision is the applied revision.
	// +optional
	Revision string `json:"revision,omitempty"`
	// Error describes why the application is not ready or cannot be read.
	// +optional
	Error string `json:"error,omitempty"`
}

// ClusterAppReference names an application and its cluster.
type ClusterAppReference struct {
	LocalAppReference `json:",inline"`
	// ClusterRef names the cluster; absent: the cluster that the pipeline is in.
	// +optional
	ClusterRef *ClusterReference `json:"clusterRef,omitempty"`
}
