package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Pipeline promotes the revisions of one application through environments.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=pipelines,singular=pipeline
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="App Kind",type="string",JSONPath=".spec.appRef.kind"
// +kubebuilder:printcolumn:name="App Name",type="string",JSONPath=".spec.appRef.name"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp"
// +kubebuilder:printcolumn:name="Ready",type="string",JSONPath=".status.conditions[?(@.type==\"Ready\")].status"
// +kubebuilder:printcolumn:name="Status",type="string",JSONPath=".status.conditions[?(@.type==\"Ready\")].message"
// +kubebuilder:printcolumn:name="Revision",type="string",JSONPath=".status.latestRevision"
// +kubebuilder:printcolumn:name="Waiting",type="string",JSONPath=".status.conditions[?(@.type==\"PromotionPending\")].reason"
type Pipeline struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +optional
	Spec PipelineSpec `json:"spec,omitempty"`
	// +optional
	// +kubebuilder:default={"observedGeneration":-1}
	Status PipelineStatus `json:"status,omitempty"`
}

// PipelineSpec is the definition of a pipeline.
type PipelineSpec struct {
	// AppRef names the application. The object has this name in every environment.
	AppRef LocalAppReference `json:"appRef"`
	// Environments are the places that a revision is promoted to, in the order of their evaluation. Revisions come from the
	// first one.
	Environments []Environment `json:"environments"`
	// Promotion is the default of environments without a promotion of their own.
	// +optional
	Promotion *Promotion `json:"promotion,omitempty"`
	// Suspend stops all promotions. States are observed and reported as before.
	// +optional
	Suspend bool `json:"suspend,omitempty"`
	// VersionSource selects the place of the revision in the application's object.
	// +optional
	VersionSource *VersionSource `json:"versionSource,omitempty"`
	// OnNewRevision is the effect of a newer revision on an unfinished run. Interrupt supersedes the run, Finish waits for its
	// end, and with Newest several runs proceed at a time. Default: Interrupt.
	// +optional
	OnNewRevision OnNewRevision `json:"onNewRevision,omitempty"`
	// Settle is the time for which the first environment must keep a revision before it is promoted. Default: 0s.
	// +optional
	Settle Duration `json:"settle,omitempty"`
	// RunTimeout is the age at which a run no longer delays a newer revision, with onNewRevision: Finish. Default: 24h.
	// +optional
	RunTimeout Duration `json:"runTimeout,omitempty"`
	// RolloutTimeout is the time in which a promoted revision must become ready. Default: 30m.
	// +optional
	RolloutTimeout Duration `json:"rolloutTimeout,omitempty"`
	// OnDrift is the response to an environment that has left the revision of its finished run: Hold waits for a person,
	// Promote promotes the revision once more. Default: Hold.
	// +optional
	OnDrift Reaction `json:"onDrift,omitempty"`
	// OnBackward is the response to a first environment that is back on an older revision: Hold waits for a person, Promote
	// promotes the older revision. Default: Hold.
	// +optional
	OnBackward Reaction `json:"onBackward,omitempty"`
	// Windows are spans of time in which promotions are allowed or denied, for all environments.
	// +optional
	// +kubebuilder:validation:MaxItems=20
	Windows []Window `json:"windows,omitempty"`
	// Notify lists the receivers of notifications.
	// +optional
	// +kubebuilder:validation:MaxItems=20
	Notify []Sink `json:"notify,omitempty"`
}

// LocalAppReference names an application in the namespace of a target.
type LocalAppReference struct {
	// APIVersion is the group and version of the application's kind. Another served version is used where a cluster no longer has it.
	APIVersion string `json:"apiVersion"`
	// Kind is the application's kind: any with a Ready condition and a revision in its status.
	Kind string `json:"kind"`
	// Name is the application's name in every environment.
	Name string `json:"name"`
}

// LocalObjectReference names an object in the pipeline's namespace.
type LocalObjectReference struct {
	// Name of the object.
	Name string `json:"name"`
}

// Duration is an elapsed time such as 30s, 1h30m or 7d.
//
// +kubebuilder:validation:MaxLength=32
type Duration string

// Promotion configures how a revision is promoted into an environment.
type Promotion struct {
	// Manual requires an approval, as approval.count: 1 does.
	// +optional
	Manual bool `json:"manual,omitempty"`
	// Strategy is the way of promoting: exactly one of pull-request and notification.
	Strategy Strategy `json:"strategy"`
}

// Strategy is a way of promoting.
type Strategy struct {
	// PullRequest changes the marked values in Git by a pull request.
	// +optional
	PullRequest *PullRequest `json:"pull-request,omitempty"`
	// Notification sends an event and leaves the change to its receiver.
	// +optional
	Notification *Notification `json:"notification,omitempty"`
	// SecretRef names the Secret whose keys sign approvals (hmac-key).
	// +optional
	SecretRef *LocalObjectReference `json:"secretRef,omitempty"`
}

// PullRequest configures promotions by pull request.
type PullRequest struct {
	// Type is the kind of the Git host.
	// +kubebuilder:validation:Enum=github;gitlab;bitbucket-server;gitea;forgejo;bitbucket-cloud;azure-devops
	Type string `json:"type"`
	// URL is the address of the repository, by HTTPS or SSH.
	URL string `json:"url"`
	// BaseBranch is the branch that pull requests change.
	BaseBranch string `json:"baseBranch"`
	// SecretRef names the Secret with the credentials: username and password, or identity and known_hosts for SSH, and token
	// or the keys of a GitHub App for the host's API; caFile and signingKey are optional.
	SecretRef LocalObjectReference `json:"secretRef"`
	// APIURL is the address of the host's API. Default: derived from url.
	// +optional
	APIURL string `json:"apiURL,omitempty"`
	// Branch is the head branch of pull requests. Default: promotion-NAMESPACE-NAME-ENVIRONMENT.
	// +optional
	Branch string `json:"branch,omitempty"`
	// Paths are globs of the files that are searched for markers. Default: all YAML files.
	// +optional
	// +kubebuilder:validation:MaxItems=100
	Paths []string `json:"paths,omitempty"`
	// Labels are set on pull requests.
	// +optional
	// +kubebuilder:validation:MaxItems=50
	Labels []string `json:"labels,omitempty"`
	// Supersede is the effect of a newer revision on an open pull request: Update edits it, Close closes it and opens another
	// one. Default: Update.
	// +optional
	// +kubebuilder:validation:Enum=Update;Close
	Supersede string `json:"supersede,omitempty"`
	// Reviewers are requested for pull requests: users, and teams as team:NAME.
	// +optional
	// +kubebuilder:validation:MaxItems=50
	Reviewers []string `json:"reviewers,omitempty"`
	// Assignees are assigned to pull requests: users, and teams as team:NAME.
	// +optional
	// +kubebuilder:validation:MaxItems=50
	Assignees []string `json:"assignees,omitempty"`
	// Draft opens pull requests as drafts.
	// +optional
	Draft bool `json:"draft,omitempty"`
}

// Notification configures promotions by notification. The pipeline gets an Event of reason Promote in any case.
type Notification struct {
	// Webhook receives a signed CloudEvent as well.
	// +optional
	Webhook *Webhook `json:"webhook,omitempty"`
}

// Webhook is a receiver of signed CloudEvents.
type Webhook struct {
	// URL is the receiver's address.
	URL string `json:"url"`
	// SecretRef names the Secret whose key "secret" signs the requests, as Standard Webhooks do.
	// +optional
	SecretRef *LocalObjectReference `json:"secretRef,omitempty"`
}

// Sink is a receiver of notifications.
type Sink struct {
	// On lists the occasions. YAML needs quotes around this key ("on"), because it reads the bare word as true. Default: all.
	// +optional
	// +kubebuilder:validation:MaxItems=20
	On []Occasion `json:"on,omitempty"`
	// Webhook is the receiver.
	Webhook SinkWebhook `json:"webhook"`
}

// Occasion is an event in a run.
//
// +kubebuilder:validation:Enum=Started;Proposed;WaitingApproval;Promoted;Finished;Failed;RolledBack;Superseded
type Occasion string

// SinkWebhook is the receiver of notifications.
type SinkWebhook struct {
	// URL is the receiver's address.
	URL string `json:"url"`
	// SecretRef names the Secret whose key "secret" signs the requests, as Standard Webhooks do.
	// +optional
	SecretRef *LocalObjectReference `json:"secretRef,omitempty"`
	// Format is the form of the body. Default: cloudevents.
	// +optional
	// +kubebuilder:validation:Enum=cloudevents;slack
	Format string `json:"format,omitempty"`
}

// VersionSource selects the place of the revision in the application's object.
type VersionSource struct {
	// Type is the place. revision reads .status.lastAppliedRevision, or the chart's version of a HelmRelease; tag and digest are
	// its parts before and after the last @; chartVersion, appVersion and ociDigest read the history of a HelmRelease;
	// originRevision reads .status.lastAppliedOriginRevision; label and annotation read the one named by key; marker reads
	// the marked values in the commit that was applied. Default: revision.
	// +optional
	// +kubebuilder:validation:Enum=revision;tag;digest;chartVersion;ociDigest;appVersion;originRevision;label;annotation;marker
	Type string `json:"type,omitempty"`
	// Key is the name of the label or annotation.
	// +optional
	Key string `json:"key,omitempty"`
	// KeepBuild keeps the build metadata (+…) of chart versions.
	// +optional
	KeepBuild bool `json:"keepBuild,omitempty"`
}

// OnNewRevision is the effect of a newer revision on an unfinished run.
//
// +kubebuilder:validation:Enum=Interrupt;Finish;Newest
type OnNewRevision string

// Reaction is the response to an environment that has left the revision of its run.
//
// +kubebuilder:validation:Enum=Hold;Promote
type Reaction string

// Window is a recurring span of time in which promotions are allowed or denied.
type Window struct {
	// Kind is the effect. Promotion is open if no Deny covers the time, and an Allow covers it or there is none.
	// +kubebuilder:validation:Enum=Allow;Deny
	Kind string `json:"kind"`
	// Schedule gives the starts: the five fields of cron, or a word such as @daily.
	Schedule string `json:"schedule"`
	// Duration is the length, from 1m to 366d.
	Duration Duration `json:"duration"`
	// Timezone is the time zone of the schedule, such as Europe/Paris. Default: UTC.
	// +optional
	Timezone string `json:"timezone,omitempty"`
	// Reason is a text for people.
	// +optional
	Reason string `json:"reason,omitempty"`
}

// Environment is one place that revisions are promoted to.
type Environment struct {
	// Name of the environment, unique in its pipeline and without a colon.
	Name string `json:"name"`
	// Targets are the applications of this environment.
	Targets []Target `json:"targets"`
	// Promotion replaces the pipeline's promotion as a whole.
	// +optional
	Promotion *Promotion `json:"promotion,omitempty"`
	// DependsOn lists environments, from earlier in the list, that a revision must have passed. Default: the previous one.
	// +optional
	// +kubebuilder:validation:MaxItems=100
	DependsOn []string `json:"dependsOn,omitempty"`
	// DependsOnMode is All if every one of dependsOn must have been passed, Any if one suffices. Default: All.
	// +optional
	// +kubebuilder:validation:Enum=All;Any
	DependsOnMode string `json:"dependsOnMode,omitempty"`
	// MinReady is the number or percentage of targets that must be ready: above half, and at most all. Default: 100%.
	// +optional
	MinReady *intstr.IntOrString `json:"minReady,omitempty"`
	// Soak is the time for which the targets must stay ready before the environment is complete. Default: 0s.
	// +optional
	Soak Duration `json:"soak,omitempty"`
	// Gates are checks before promoting into the environment, or after it has soaked.
	// +optional
	// +kubebuilder:validation:MaxItems=20
	Gates []Gate `json:"gates,omitempty"`
	// Approval requires that people agree before a revision is promoted into the environment.
	// +optional
	Approval *Approval `json:"approval,omitempty"`
	// AutoMerge has Waybill merge the pull request. Default: a person merges.
	// +optional
	AutoMerge *AutoMerge `json:"autoMerge,omitempty"`
	// Windows are spans of time in which promotions into the environment are allowed or denied, besides those of the pipeline.
	// +optional
	// +kubebuilder:validation:MaxItems=20
	Windows []Window `json:"windows,omitempty"`
	// Hold stops promotions into the environment.
	// +optional
	Hold *Hold `json:"hold,omitempty"`
	// Rollback brings the last finished revision back when one fails.
	// +optional
	Rollback *Rollback `json:"rollback,omitempty"`
}

// Target is one application of an environment.
type Target struct {
	// Namespace of the application on its cluster. Empty: the pipeline's namespace.
	Namespace string `json:"namespace"`
	// ClusterRef names the cluster. Default: the cluster that the pipeline is in.
	// +optional
	ClusterRef *ClusterReference `json:"clusterRef,omitempty"`
}

// ClusterReference names a GitopsCluster.
type ClusterReference struct {
	// APIVersion of the reference; it has no effect.
	// +optional
	APIVersion string `json:"apiVersion,omitempty"`
	// Kind of the reference.
	// +kubebuilder:validation:Enum=GitopsCluster
	Kind string `json:"kind"`
	// Name of the GitopsCluster.
	Name string `json:"name"`
	// Namespace of the GitopsCluster. Default: the pipeline's namespace.
	// +optional
	Namespace string `json:"namespace,omitempty"`
}

// Gate is a check that must pass: exactly one of http, job and cel. Its texts may use {{revision}} and {{environment}}.
type Gate struct {
	// Name of the gate, unique in its environment.
	Name string `json:"name"`
	// When is Before, for a check before promoting, or After, once the environment has soaked. Default: After.
	// +optional
	// +kubebuilder:validation:Enum=Before;After
	When string `json:"when,omitempty"`
	// HTTP is a request that Waybill sends.
	// +optional
	HTTP *HTTPGate `json:"http,omitempty"`
	// Job is a Job that Waybill creates in the pipeline's namespace. It passes once it is complete.
	// +optional
	Job *JobGate `json:"job,omitempty"`
	// CEL is an expression over the live objects of all targets.
	// +optional
	CEL string `json:"cel,omitempty"`
	// Interval is the time between two checks. Default: 30s.
	// +optional
	Interval Duration `json:"interval,omitempty"`
	// Timeout is the time in which the gate must pass. Default: 10m.
	// +optional
	Timeout Duration `json:"timeout,omitempty"`
	// Failures is the number of other answers that fail the gate. A missing answer is not one. Default: 3.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	Failures int `json:"failures,omitempty"`
}

// HTTPGate is a request, and the answer that passes it. Redirects are not followed.
type HTTPGate struct {
	// URL is the address; {{revision}} in it is escaped.
	URL string `json:"url"`
	// Status lists the statuses that pass. Default: [200].
	// +optional
	// +kubebuilder:validation:MaxItems=20
	Status []int `json:"status,omitempty"`
	// Body is a text that the answer must contain.
	// +optional
	Body string `json:"body,omitempty"`
}

// JobGate is a Job of Kubernetes.
type JobGate struct {
	// Template is the template of the Job: its metadata with labels and annotations, and its spec.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Type=object
	Template runtime.RawExtension `json:"template"`
}

// Approval requires that people agree.
type Approval struct {
	// Count is the number of people who must approve. Default: 1.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	Count int `json:"count,omitempty"`
	// By lists who may approve: names of tokens or Kubernetes users, group:NAME, and key:NAMESPACE/SECRET. Default: all who
	// have the right to approve.
	// +optional
	// +kubebuilder:validation:MaxItems=100
	By []string `json:"by,omitempty"`
}

// AutoMerge has Waybill merge pull requests.
type AutoMerge struct {
	// Method of the merge. Default: merge.
	// +optional
	// +kubebuilder:validation:Enum=merge;squash;rebase
	Method string `json:"method,omitempty"`
	// RequireChecks waits until the host reports that checks have passed. Default: true.
	// +optional
	RequireChecks *bool `json:"requireChecks,omitempty"`
	// AllowUnguarded permits merging on hosts that cannot check the head commit of a merge (bitbucket-cloud).
	// +optional
	AllowUnguarded bool `json:"allowUnguarded,omitempty"`
	// Queue adds the pull request to the host's merge queue (github) or merge train (gitlab).
	// +optional
	Queue bool `json:"queue,omitempty"`
}

// Hold is a stop that is kept in the pipeline's definition.
type Hold struct {
	// Reason is a text for people.
	// +optional
	Reason string `json:"reason,omitempty"`
	// Until is the time at which the hold ends (RFC 3339). Default: it lasts until it is removed.
	// +optional
	// +kubebuilder:validation:Format=date-time
	Until string `json:"until,omitempty"`
	// Revision is the only one that is held. Default: all.
	// +optional
	Revision string `json:"revision,omitempty"`
}

// Rollback configures automatic rollbacks of an environment.
type Rollback struct {
	// Mode is Off or Automatic. Default: Off.
	// +optional
	// +kubebuilder:validation:Enum="Off";Automatic
	Mode string `json:"mode,omitempty"`
	// After is the time for which the environment must have failed. Default: 5m.
	// +optional
	After Duration `json:"after,omitempty"`
	// Manual has rollbacks wait for the environment's approval.
	// +optional
	Manual bool `json:"manual,omitempty"`
}

// The occasions of notifications.
const (
	OnStarted         Occasion = "Started"
	OnProposed        Occasion = "Proposed"
	OnWaitingApproval Occasion = "WaitingApproval"
	OnPromoted        Occasion = "Promoted"
	OnFinished        Occasion = "Finished"
	OnFailed          Occasion = "Failed"
	OnRolledBack      Occasion = "RolledBack"
	OnSuperseded      Occasion = "Superseded"
)

// Occasions lists all occasions.
func Occasions() []Occasion {
	return []Occasion{OnStarted, OnProposed, OnWaitingApproval, OnPromoted, OnFinished, OnFailed, OnRolledBack, OnSuperseded}
}
