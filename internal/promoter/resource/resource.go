package resource

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/waybill-dev/waybill/api/kube/v1alpha1"
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
	Host    *promotion.Host // proposals, with the strategy pull-request; nil: another strategy
	Webhook *promotion.Sink // receiver of promotions by notification; nil: the Event is the only one
	Secret  string          // the Secret whose keys sign approvals, in the pipeline's namespace; "": none
	Gates   []Gate          // in the order of the spec's gates
}

// Target is one application.
type Target struct {
	promotion.TargetID
	Ref   *v1alpha1.ClusterReference // as written; nil: the management cluster
	Field string                     // path in the definition, for messages
}

// Sink is a receiver of notifications.
type Sink struct {
	On []v1alpha1.Occasion // none: all
	promotion.Sink
}

// Wants reports whether the sink receives an occasion.
func (s Sink) Wants(o v1alpha1.Occasion) bool {
	return len(s.On) == 0 || slices.Contains(s.On, o)
}

// Fault is something that is wrong with an object.
type Fault struct {
	Reason string // v1alpha1.ReasonInvalidSpec, ReasonClusterRefDenied, ReasonBranchCollision or ReasonTargetCollision
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
