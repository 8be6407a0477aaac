//go:build services

package flow_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/waybill-dev/waybill/api/kube/flow/v1alpha1"
	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/conductor"
	"github.com/waybill-dev/waybill/internal/conductor/handler/eventflow"
	"github.com/waybill-dev/waybill/internal/flow"
	"github.com/waybill-dev/waybill/internal/kube"
	"github.com/waybill-dev/waybill/internal/services"
	"github.com/waybill-dev/waybill/test/testbed"
)

var activations = schema.GroupVersionResource{Group: "applicationconnector.kyma-project.io", Version: "v1alpha1", Resource: "eventactivations"}

// platform makes attempts at operations on the service instance a, with the rights that rbac.yaml gives to a conductor.
type platform struct {
	*testbed.Cluster
	t         *testing.T
	handler   eventflow.Handler
	namespace string
	actions   byte
}

func newPlatform(t *testing.T) *platform {
	t.Helper()
	cluster := testbed.Kubernetes(t)
	rights, err := os.ReadFile("../../../config/flow/rbac.yaml")
	if err != nil {
		t.Fatal(err)
	}
	cluster.Apply(t, string(rights))
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(file, []byte(cluster.Account(t, "waybill", "waybill-conductor")), 0o600); err != nil {
		t.Fatal(err)
	}
	client, err := kube.Open(kube.Config{Kubeconfig: file})
	if err != nil {
		t.Fatal(err)
	}
	return &platform{Cluster: cluster, t: t, handler: eventflow.Handler{Cluster: client, Log: "a-log"}, namespace: cluster.Namespace(t)}
}

// order returns an operation that activates the service orders.
func (p *platform) order(verb services.Verb, spec string) flow.Order {
	p.actions++
	return flow.Order{Verb: verb, Instance: "a", Namespace: p.namespace, Spec: json.RawMessage(spec),
		Activation: &flow.Activation{Service: "orders", Application: "commerce"}}
}

// want makes an attempt at the last action, and compares its end. text is a part of the error or the output.
func (p *platform) want(o flow.Order, kind action.OutcomeKind, text string) {
	p.t.Helper()
	parameters, err := json.Marshal(o)
	if err != nil {
		p.t.Fatal(err)
	}
	got := p.handler.Do(p.t.Context(), conductor.Attempt{Action: action.Action{ID: action.ID{p.actions}, Parameters: parameters}, Number: 1})
	if got.Kind != kind || !strings.Contains(got.Error+string(got.Output), text) {
		p.t.Errorf("got %s: %s%s, want %s: %s", got.Kind, got.Error, got.Output, kind, text)
	}
}

// found returns the flow.
func (p *platform) found() *unstructured.Unstructured {
	p.t.Helper()
	o, err := p.Dynamic.Resource(v1alpha1.Resource()).Namespace(p.namespace).Get(p.t.Context(), "event-flow-a", metav1.GetOptions{})
	if err != nil {
		p.t.Fatal(err)
	}
	return o
}

// wantSpec compares the spec of the flow, and that a repeated attempt writes nothing.
func (p *platform) wantSpec(o flow.Order, want string) {
	p.t.Helper()
	before := p.found()
	if got := fmt.Sprint(before.Object["spec"]); got != want {
		p.t.Errorf("got the spec %s, want %s", got, want)
	}
	p.want(o, action.Done, "exists")
	if after := p.found(); after.GetResourceVersion() != before.GetResourceVersion() {
		p.t.Error("a repeated attempt has written the flow")
	}
}

// activators returns the claims on the EventActivation; nil: it does not exist.
func (p *platform) activators() (keys []string) {
	p.t.Helper()
	o, err := p.Dynamic.Resource(activations).Namespace(p.namespace).Get(p.t.Context(), "orders", metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		p.t.Fatal(err)
	}
	for key := range o.GetAnnotations() {
		if strings.HasPrefix(key, v1alpha1.ClaimPrefix) {
			keys = append(keys, strings.TrimPrefix(key, v1alpha1.ClaimPrefix))
		}
	}
	slices.Sort(keys)
	return keys
}

// TestServiceInstancesOnARealAPIServer: its answers about missing kinds and namespaces, its defaults and its refusals are understood.
func TestServiceInstancesOnARealAPIServer(t *testing.T) {
	t.Parallel()
	p := newPlatform(t)
	simple := `{"source":{"application":"commerce"},"sink":{"broker":{"deletionPolicy":"Retain"}},"delivery":{"retry":3}}`
	provision := p.order(services.Provision, simple)
	p.want(p.order(services.Deprovision, ""), action.Done, "is deleted")
	p.want(provision, action.RetryAfter, "EventFlows are not installed")
	p.Apply(t, string(v1alpha1.Definition))
	elsewhere := provision
	elsewhere.Namespace = "nowhere"
	p.want(elsewhere, action.RetryAfter, "namespace nowhere does not exist")
	p.want(provision, action.Done, "exists")
	broker := "broker:map[deletionPolicy:%s name:default provisioning:Managed]"
	p.wantSpec(provision, "map[delivery:map[retry:3] meshPolicy:None sink:map["+fmt.Sprintf(broker, "Retain")+"] source:map[application:commerce]]")

	p.InstallKyma(t)
	p.want(elsewhere, action.RetryAfter, "namespace nowhere does not exist")
	update := p.order(services.Update, `{"source":{"application":"commerce"},"delivery":{"timeout":"PT1S"}}`)
	p.want(update, action.Done, "exists")
	p.wantSpec(update, "map[delivery:map[timeout:PT1S] meshPolicy:None sink:map["+fmt.Sprintf(broker, "WhenUnused")+"] source:map[application:commerce]]")
	if got := p.activators(); !slices.Equal(got, []string{flow.InstanceHash("a")}) {
		t.Errorf("the EventActivation has the claims %q", got)
	}
	p.want(p.order(services.Update, `{"source":{"application":"other"}}`), action.BadInput, "source cannot be changed")
	p.want(p.order(services.Update, `{"source":{"application":"commerce"},"delivery":{"retry":-1}}`), action.BadInput, "retry")

	other := p.order(services.Provision, simple)
	other.Instance = "b"
	p.want(other, action.Done, "exists")
	deprovision := p.order(services.Deprovision, "")
	p.want(deprovision, action.RetryAfter, "is being deleted")
	p.want(deprovision, action.Done, "is deleted")
	if got := p.activators(); !slices.Equal(got, []string{flow.InstanceHash("b")}) {
		t.Errorf("the EventActivation has the claims %q", got)
	}
	namespaces := p.Dynamic.Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"})
	if err := namespaces.Delete(t.Context(), p.namespace, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	p.want(p.order(services.Provision, simple), action.Fatal, "because it is being terminated")
	p.want(p.order(services.Deprovision, ""), action.Done, "is deleted")
	deprovision = p.order(services.Deprovision, "")
	deprovision.Instance = "b"
	p.want(deprovision, action.RetryAfter, "is being deleted")
	p.want(deprovision, action.Done, "is deleted")
	if got := p.activators(); got != nil {
		t.Errorf("the EventActivation has the claims %q", got)
	}
}
