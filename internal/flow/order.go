package flow

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"regexp"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/waybill-dev/waybill/api/kube/flow/v1alpha1"
	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/kube/claim"
	"github.com/waybill-dev/waybill/internal/services"
)

// Handler is the name of the handler that does the operations of service instances that are flows.
const Handler = "eventflow"

// Order holds the parameters of an action of the handler eventflow, as JSON: one operation of a service instance.
type Order struct {
	Verb         services.Verb   `json:"verb"`
	Instance     string          `json:"instance"`             // the service instance's id
	Namespace    string          `json:"namespace"`            // place of the EventFlow
	Spec         json.RawMessage `json:"spec,omitempty"`       // the EventFlow's; a deprovision needs none
	Activation   *Activation     `json:"activation,omitempty"` // nil: none
	WaitForReady bool            `json:"waitForReady,omitempty"`
}

// Activation is the EventActivation of an application's service in the namespace of its flows. Its name is the service's id.
type Activation struct {
	Service     string `json:"service"`     // id of the service
	Application string `json:"application"` // its sourceId
	DisplayName string `json:"displayName,omitempty"`
}

// The label and the annotations of a service instance's EventFlow.
const (
	LabelInstance    = "flow.waybill.dev/instance" // InstanceHash of the service instance's id
	AnnotationAction = "flow.waybill.dev/action"   // id of the action that wrote the flow last
	AnnotationLog    = "flow.waybill.dev/log"      // id of the log that has the service instance
	AnnotationID     = "flow.waybill.dev/id"       // id of the service instance

	// AnnotationMigrated is on the flow of a service instance that Kyma's application broker has provisioned: the name of the ServiceInstance.
	AnnotationMigrated = "flow.waybill.dev/migrated-from"
)

// InstanceHash returns the value of the label of a service instance's flow: 32 hexadecimal digits.
func InstanceHash(instance string) string {
	sum := sha256.Sum256([]byte(instance))
	return hex.EncodeToString(sum[:16])
}

// InstanceSelector selects the flows of a service instance by their label.
func InstanceSelector(instance string) string { return LabelInstance + "=" + InstanceHash(instance) }

// InstanceAnnotations returns the annotations of a service instance's flow that an action of a log has written.
func InstanceAnnotations(instance, log string, by action.ID) map[string]string {
	return map[string]string{AnnotationID: instance, AnnotationLog: log, AnnotationAction: by.String()}
}

// InstanceClaim returns the claim of a service instance on its EventActivation. It lasts until the deprovision, whether or not the flow
// exists: the flow is created after the claim.
func InstanceClaim(namespace, instance string) claim.Claim {
	return claim.Claim{UID: types.UID(InstanceHash(instance)), Policy: v1alpha1.WhenUnused, Namespace: namespace, Name: InstanceFlow(instance)}
}

// Activations returns the resource of EventActivations.
func Activations() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: GroupConnector, Version: "v1alpha1", Resource: "eventactivations"}
}

// instanceName matches ids that may be a part of an object's name.
var instanceName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

// InstanceFlow returns the name of a service instance's flow: event-flow-ID, with the hash of an id that cannot be in a name.
func InstanceFlow(instance string) string {
	if !instanceName.MatchString(instance) {
		instance = InstanceHash(instance)
	}
	return "event-flow-" + instance
}
