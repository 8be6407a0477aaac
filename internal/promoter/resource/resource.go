package resource

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/waybill-dev/waybill/api/kube/v1alpha1"
	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/promotion"
)

// Pipeline is a Pipeline of Kubernetes, checked, with defaults filled in.
type Pipeline struct {
	Namespace, Name string
	UID             string
	Generation      int64
	CreatedAt       time.Time
	App             App
	Spec            promotion.Spec
	Environments    []Environment // in the order of Spec.Environments
	Notify          []Sink
}

// ID returns the pipeline's name in Waybill, such as apps:podinfo.
func (p Pipeline) ID() string { return p.Namespace + ":" + p.Name }

// App names the application that has one name in all targets.
type App struct {
	Kind schema.GroupVersionKind
	Name string
}

// Environment holds the parts of an environment that decisions do not need.
type Environment struct {
	Name    promotion.EnvName
	Targets []Target
	// PullRequest and Notification: at most one is set, the Strategy in Pipeline.Spec selects it.
	PullRequest  *PullRequest
	Notification *Notification
	Secret       string // the Secret whose keys sign approvals, in the pipeline's namespace; "": none
	Gates        []Gate // in the order of the spec's gates
	AutoMerge    *AutoMerge
}

// Target is one application.
type Target struct {
	promotion.TargetID
	Ref   *v1alpha1.ClusterReference // as written; nil: the management cluster
	Field string                     // path in the definition, for messages
}

// PullRequest configures promotions by pull request.
type PullRequest struct {
	Host       string // kind of the host, such as github
	URL        string
	APIURL     string // "": derived from URL
	BaseBranch string
	Branch     string // head branch
	Secret     string // the Secret with the credentials, in the pipeline's namespace
	Paths      []string
	Labels     []string
	Reviewers  []string // users, or team:NAME
	Assignees  []string
	Draft      bool
	Replace    bool // supersede: Close
}

// Notification configures promotions by notification.
type Notification struct {
	Webhook *Webhook // nil: an Event only
}

// Webhook is a receiver of signed requests.
type Webhook struct {
	URL    string
	Secret string // the Secret with the signing key, in the pipeline's namespace; "": unsigned
}

// Sink is a receiver of notifications.
type Sink struct {
	On []v1alpha1.Occasion // none: all
	Webhook
	Format Format
}

// Format is the form of a notification.
type Format string

// The formats.
const (
	CloudEvents Format = "cloudevents"
	Slack       Format = "slack"
)

// Wants reports whether the sink receives an occasion.
func (s Sink) Wants(o v1alpha1.Occasion) bool {
	for _, on := range s.On {
		if on == o {
			return true
		}
	}
	return len(s.On) == 0
}

// Gate is a check of an environment. Exactly one of HTTP, Job and CEL is set.
type Gate struct {
	promotion.Gate
	Policy action.Policy // as of the gates of waybill.yaml
	HTTP   *pipeline.GateRequest
	Job    json.RawMessage // template of a Job: metadata and spec
	CEL    string
}

// AutoMerge configures the merges of pull requests.
type AutoMerge struct {
	Method        string // merge, squash or rebase
	RequireChecks bool
	Unguarded     bool // the host's merges cannot name a head commit
	Queue         bool
}

// Fault is something that is wrong with an object.
type Fault struct {
	Reason string // v1alpha1.ReasonInvalidSpec, ReasonClusterRefDenied or ReasonBranchCollision
	Field  string // such as spec.environments[1].dependsOn[0]
	Text   string
}

// String returns the fault with its field.
func (f Fault) String() string { return f.Field + ": " + f.Text }

// Faults lists everything that is wrong with an object; none: it is valid.
type Faults []Fault

// Error returns the faults, one a line.
func (f Faults) Error() string {
	lines := make([]string, len(f))
	for i, one := range f {
		lines[i] = one.String()
	}
	return strings.Join(lines, "\n")
}

// Message returns the first fault, and the number of further ones.
func (f Faults) Message() string {
	switch len(f) {
	case 0:
		return ""
	case 1:
		return f[0].String()
	}
	return fmt.Sprintf("%s (and %d more)", f[0], len(f)-1)
}
