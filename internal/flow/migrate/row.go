package migrate

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/waybill-dev/waybill/api/kube/flow/v1alpha1"
	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/osb"
	"github.com/waybill-dev/waybill/internal/services"
)

// record is the document of a row that a migration has inserted. Readers ignore the source, and the next update drops it.
type record struct {
	osb.Attributes

	Source string `json:"source,omitempty"`
}

// work returns the work of the plan that the service instance has, so that it can be deprovisioned once its Application has left the catalog.
func (w *worker) work() (osb.Work, error) {
	spec := fields{"source": fields{"application": w.Application}}
	if w.mesh {
		spec["meshPolicy"] = string(v1alpha1.PermissiveMetrics)
	}
	form, err := osb.CanonicalOf(spec)
	made := w.candidate.service.of.Activation(w.candidate.service.ApplicationService)
	return osb.Work{Flow: &osb.Flow{Spec: form, Namespace: w.Namespace, Activation: made}, Polling: osb.DefaultPolling}, err
}

// migration is the source of rows that no request of a platform has inserted.
const migration = "migration"

// isInserted reports whether a migration has inserted a row, and no operation has changed it since.
func isInserted(row *services.Instance) bool {
	var document record
	return row != nil && row.Verb == services.Provision && json.Unmarshal(row.Asked, &document) == nil && document.Source == migration
}

// platform is the name of the Service Catalog in requests to brokers.
const platform = "kubernetes"

// insertRow stores the row of the service instance with a provision that has ended. No action did it: a row needs none once its
// operation has ended, and its id is that of no other action.
func (w *worker) insertRow(ctx context.Context) error {
	attributes, err := w.attributes()
	if err != nil {
		return err
	}
	if attributes.Work, err = w.work(); err != nil {
		return err
	}
	document, err := json.Marshal(record{attributes, migration})
	if err != nil {
		return fmt.Errorf("write the attributes: %w", err)
	}
	row := services.Instance{ID: w.ID, User: w.cfg.User, Operation: action.RandomID(time.Now()), Verb: services.Provision,
		End: action.Successful, Asked: document, Applied: document}
	return w.cfg.Log.Operate(ctx, ledger.ServiceKey{Instance: w.ID}, func(s ledger.ServiceState) (ledger.ServiceChange, error) {
		w.operation = row.Operation
		if s.Row == nil || !s.Row.GoneAt.IsZero() {
			return ledger.ServiceChange{Row: &row}, nil
		}
		return ledger.ServiceChange{}, fault.New(fault.Conflict, "another client has provisioned service instance %q by now: repeat the command", w.ID)
	})
}

// attributes returns the properties that the Service Catalog has sent when it provisioned the service instance.
func (w *worker) attributes() (a osb.Attributes, err error) {
	a = osb.Attributes{ServiceID: w.candidate.class, PlanID: w.candidate.plan, Organization: w.found.ClusterID, Space: w.space,
		Platform: platform, Namespace: w.Namespace, Parameters: osb.Empty}
	given, _, _ := unstructured.NestedMap(w.candidate.Object, "spec", "parameters")
	if a.Parameters, err = osb.CanonicalOf(given); err != nil {
		return a, fmt.Errorf("read spec.parameters: %w", err)
	}
	a.Context, err = osb.CanonicalOf(fields{"platform": platform, "namespace": w.Namespace, "clusterid": w.found.ClusterID})
	return a, err
}

// forgetRow marks the row as that of a service instance that is gone, as a deprovision does. It is deleted like any other after a while.
func (w *worker) forgetRow(ctx context.Context) error {
	return w.cfg.Log.Operate(ctx, ledger.ServiceKey{Instance: w.ID}, func(s ledger.ServiceState) (ledger.ServiceChange, error) {
		if s.Row == nil || !s.Row.GoneAt.IsZero() {
			return ledger.ServiceChange{}, nil
		}
		if s.Row.Operation != w.operation {
			return ledger.ServiceChange{}, fault.New(fault.Conflict, "an operation has begun since: repeat the command")
		}
		row := *s.Row
		row.Verb, row.End, row.GoneAt = services.Deprovision, action.Successful, s.Now
		return ledger.ServiceChange{Row: &row}, nil
	})
}
