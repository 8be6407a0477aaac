package promotion

import (
	"time"

	"github.com/waybill-dev/waybill/internal/pipeline"
)

// ActionKind is the kind of the actions that promote.
const ActionKind = "promotion"

// The handlers of such actions.
const (
	HandlerPullRequest  = "pull-request"
	HandlerNotification = "notification"
	HandlerGate         = "promotion-gate" // gates with http
	HandlerJob          = "promotion-job"  // gates with job: the promoter observes the end
	HandlerExpression   = "promotion-cel"  // gates with cel: the promoter evaluates them
)

// LabelGate is the label of the Job of a gate: the id of its action, which is the Job's name too.
const LabelGate = "waybill.dev/gate-action"

// Work holds the parameters of an action that promotes: the decided values, and references to secrets, which are read
// when they are used. Its JSON is the action's parameters.
type Work struct {
	RunID     string    `json:"runId"`     // unique id of the run's row
	Namespace string    `json:"namespace"` // namespace of the pipeline
	Pipeline  string    `json:"pipeline"`  // its name, without the namespace
	UID       string    `json:"uid"`       // that of its object
	Run       int64     `json:"run"`
	Started   time.Time `json:"started"` // time of the run's start
	Env       EnvName   `json:"environment"`
	Op        Op        `json:"op"`
	Revision  Revision  `json:"revision"`
	Was       Revision  `json:"was,omitempty"` // the revision that the environment has now
	Inputs    string    `json:"inputs,omitempty"`
	Repeats   bool      `json:"repeats,omitempty"` // a person asked for it again: an earlier closing does not count
	Redo      bool      `json:"redo,omitempty"`    // the proposal exists and is made again on the present base

	Host   *Host    `json:"host,omitempty"`   // set for propose, merge and close
	Number int64    `json:"number,omitempty"` // the proposal to merge or close
	Head   string   `json:"head,omitempty"`   // the SHA to merge
	Proof  []string `json:"proof,omitempty"`  // sentences about where the revision proved itself, for the proposal's body
	Link   string   `json:"link,omitempty"`   // address of the run's page; "": none is known
	Reason string   `json:"reason,omitempty"` // why a proposal is closed, for its comment

	Sink *Sink     `json:"sink,omitempty"` // a webhook of a notification; nil: the event on the pipeline only
	Gate *GateWork `json:"gate,omitempty"` // set for gates
}

// Host configures proposals on a Git host.
type Host struct {
	Type      string   `json:"type"` // github, gitlab, gitea, forgejo, bitbucket-server, bitbucket-cloud, azure-devops
	URL       string   `json:"url"`  // of the repository
	APIURL    string   `json:"apiURL,omitempty"`
	Base      string   `json:"base"`
	Branch    string   `json:"branch"` // the head branch
	Secret    string   `json:"secret,omitempty"`
	Paths     []string `json:"paths,omitempty"` // globs; none: all files
	Labels    []string `json:"labels,omitempty"`
	Reviewers []string `json:"reviewers,omitempty"`
	Assignees []string `json:"assignees,omitempty"`
	Draft     bool     `json:"draft,omitempty"`
	// Close has a proposal for another revision closed and a new one opened, instead of one that is updated.
	Close  bool   `json:"close,omitempty"`
	Method string `json:"method,omitempty"` // merge, squash or rebase
	Queue  bool   `json:"queue,omitempty"`  // merge by the host's queue
	// Unguarded merges on a host that cannot check the head at the time of the merge.
	Unguarded bool `json:"unguarded,omitempty"`
}

// Place returns the parts of a host that lead to the proposals for its branches.
func (h Host) Place() *Host {
	return &Host{Type: h.Type, URL: h.URL, APIURL: h.APIURL, Base: h.Base, Branch: h.Branch, Secret: h.Secret}
}

// HasSamePlace reports whether proposals are for the same repository and branches.
func (h Host) HasSamePlace(other Host) bool {
	return h.Type == other.Type && h.URL == other.URL && h.Base == other.Base && h.Branch == other.Branch
}

// Sink is a receiver of notifications.
type Sink struct {
	URL    string `json:"url"`
	Secret string `json:"secret,omitempty"` // it has the key that signs
	Format string `json:"format,omitempty"` // cloudevents (default) or slack
}

// GateWork configures one gate; exactly one of HTTP, Job and CEL is set.
type GateWork struct {
	Name    string         `json:"name"`
	HTTP    map[string]any `json:"http,omitempty"` // fields of a gate's http in waybill.yaml, with placeholders filled in
	Job     map[string]any `json:"job,omitempty"`  // template of a Job
	CEL     string         `json:"cel,omitempty"`
	Timeout time.Duration  `json:"timeout,omitempty"`
	Every   time.Duration  `json:"every,omitempty"`
}

// HandlerEnvironment is the handler of the actions that stages with environments of a waybill.yaml take. They are handed off: the
// promoter judges them, and makes proposals as their child actions.
const HandlerEnvironment = "environment"

// StageNamespace is used as the namespace of pipelines of a waybill.yaml, in the log of promotions and in markers. No namespace of
// Kubernetes has a dot in its name.
const StageNamespace = "waybill.yaml"

// StageWork holds the parameters of the action of a stage with an environment.
type StageWork struct {
	Stage       string                `json:"stage"`
	Revision    Revision              `json:"revision"`
	Environment *pipeline.Environment `json:"environment"`
	Gate        *GateWork             `json:"gate,omitempty"` // nil except for a gate with an expression over the environment's targets
}
