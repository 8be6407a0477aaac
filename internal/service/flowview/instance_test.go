package flowview

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/waybill-dev/waybill/api/kube/flow/v1alpha1"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/kube"
	"github.com/waybill-dev/waybill/internal/kube/kubetest"
)

// provisioned is a ready flow of the service instance with an id.
const provisioned = `
apiVersion: flow.waybill.dev/v1alpha1
kind: EventFlow
metadata: {name: event-flow-%[1]s, namespace: shop, annotations: {flow.waybill.dev/id: %[1]q}}
spec: {source: {application: commerce}}
status:
  observedGeneration: 1
  conditions: [{type: Ready, status: "True", reason: Ready, observedGeneration: 1, message: all is well, lastTransitionTime: "2026-01-02T03:04:05Z"}]
`

// failed is a service instance of the Service Catalog, and succeeded one of SAP BTP.
const (
	failed = `
apiVersion: servicecatalog.k8s.io/v1beta1
kind: ServiceInstance
metadata: {name: commerce, namespace: shop}
spec: {externalID: a, parameters: {password: secret}}
status: {conditions: [{type: Failed, status: "True", reason: Refused, message: the broker refused}]}
`
	succeeded = `
apiVersion: services.cloud.sap.com/v1
kind: ServiceInstance
metadata: {name: commerce-2, namespace: shop}
status:
  instanceID: b
  conditions:
  - {type: Succeeded, status: "True", reason: Created}
  - {type: Ready, status: "True", reason: Provisioned, message: it is there, lastTransitionTime: "2026-01-02T03:04:05Z"}
`
)

// shop returns a cluster with the flows of three service instances: failed, succeeded, and one without an object.
func shop(t *testing.T) *kubetest.API {
	t.Helper()
	api := kubetest.New(t, withPlatforms()...)
	create(t, api, platforms()[0].resource, failed)
	create(t, api, platforms()[1].resource, succeeded)
	for _, id := range []string{"a", "b", "c"} {
		create(t, api, v1alpha1.Resource(), fmt.Sprintf(provisioned, id))
	}
	return api
}

func TestFlowsHaveTheStatusOfTheirServiceInstancesToo(t *testing.T) {
	t.Parallel()
	cluster := &kube.Cluster{Interface: shop(t)}
	all, err := List(t.Context(), cluster, "shop")
	if err != nil || len(all) != 3 {
		t.Fatalf("got %+v, %v", all, err)
	}
	refused, there := Combined{"Failed", "Refused", "the broker refused"}, Combined{"Running", "Provisioned", "it is there"}
	want := []Flow{
		{Combined: refused, ServiceInstance: &ServiceInstance{ID: "a", APIVersion: "servicecatalog.k8s.io/v1beta1", Namespace: "shop",
			Name: "commerce", Alone: refused}},
		{Combined: there, ServiceInstance: &ServiceInstance{ID: "b", APIVersion: "services.cloud.sap.com/v1", Namespace: "shop",
			Name: "commerce-2", Alone: there}},
		{Combined: Combined{"Running", "Ready", "all is well"}, ServiceInstance: &ServiceInstance{ID: "c"}},
	}
	for i, f := range all {
		got := Flow{Combined: f.Combined, ServiceInstance: f.ServiceInstance}
		if diff := cmp.Diff(want[i], got); diff != "" || f.Ready != "True" {
			t.Errorf("%s, ready %s: %s", f.Name, f.Ready, diff)
		}
		shown, err := Get(t.Context(), cluster, f.Namespace, f.Name)
		if diff := cmp.Diff(f.ServiceInstance, shown.ServiceInstance); err != nil || diff != "" || shown.Combined != f.Combined {
			t.Errorf("%s alone: %v, %+v %s", f.Name, err, shown.Combined, diff)
		}
	}
}

// TestServiceInstancesAreReadWhereTheCallerMay: in the namespace of the flow if not in all, and else the reason is shown.
func TestServiceInstancesAreReadWhereTheCallerMay(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		forbidden func(kubetest.Request) bool
		status    string
		unread    bool
	}{
		"one namespace": {func(r kubetest.Request) bool { return r.Namespace == "" }, "Failed", false},
		"none":          {func(kubetest.Request) bool { return true }, "Running", true},
	} {
		api := shop(t)
		api.Before(func(r kubetest.Request) error {
			if r.Resource == "serviceinstances" && c.forbidden(r) {
				return apierrors.NewForbidden(schema.GroupResource{Resource: r.Resource}, r.Name, errors.New("no right"))
			}
			return nil
		})
		got, err := Get(t.Context(), &kube.Cluster{Interface: api}, "shop", "event-flow-a")
		if err != nil || got.Combined.Status != c.status || strings.Contains(got.ServiceInstance.Unread, "no right") != c.unread {
			t.Errorf("%s: got %+v, %+v, %v", name, got.Combined, got.ServiceInstance, err)
		}
	}
	api := shop(t)
	api.Before(func(r kubetest.Request) error {
		if r.Resource == "serviceinstances" {
			return errors.New("connection refused")
		}
		return nil
	})
	if _, err := List(t.Context(), &kube.Cluster{Interface: api}, ""); !fault.Is(err, fault.Unavailable) {
		t.Errorf("without an answer: %v", err)
	}
}

func TestTheFlowOfAServiceInstanceMayBeAbsent(t *testing.T) {
	t.Parallel()
	api := shop(t)
	create(t, api, platforms()[1].resource, strings.NewReplacer("commerce-2", "lonely", "instanceID: b", "instanceID: d").Replace(succeeded))
	for _, id := range []string{"c", "d"} { // forged
		create(t, api, v1alpha1.Resource(), strings.Replace(fmt.Sprintf(provisioned, id), "namespace: shop", "namespace: evil", 1))
	}
	c := NewCache(&kube.Cluster{Interface: api})
	for _, x := range []struct {
		id       string
		expected bool
		name     string
		want     Combined
	}{
		{"c", true, "event-flow-c", Combined{"Running", "Ready", "all is well"}},
		{"d", true, "", Combined{"Failed", "FlowMissing", "the flow of this service instance does not exist"}},
		{"d", false, "", Combined{"Running", "Provisioned", "it is there"}},
		{"e", true, "", Combined{Status: "NotFound"}},
	} {
		got, err := c.Of(t.Context(), "shop", x.id, x.expected)
		if err != nil || got.Name != x.name || got.Combined != x.want || got.ServiceInstance.ID != x.id {
			t.Errorf("%s, expected %v: got %+v, %v", x.id, x.expected, got, err)
		}
	}
	api.Before(func(kubetest.Request) error { return errors.New("away") })
	if _, err := NewCache(&kube.Cluster{Interface: api}).Of(t.Context(), "shop", "c", true); !fault.Is(err, fault.Unavailable) {
		t.Errorf("without an answer: %v", err)
	}
}

func TestParametersOfServiceInstancesAreNotKept(t *testing.T) {
	t.Parallel()
	api := kubetest.New(t, withPlatforms()...)
	for i := range 2 {
		create(t, api, platforms()[0].resource, strings.NewReplacer("name: commerce", fmt.Sprintf("name: x-%d", i),
			"externalID: a", fmt.Sprintf("externalID: id-%d", i)).Replace(failed))
	}
	known, err := readInstances(t.Context(), &kube.Cluster{Interface: api}, "")
	if err != nil || len(known.byID) != 2 {
		t.Fatalf("got %d service instances, %v", len(known.byID), err)
	}
	for id, object := range known.byID {
		if object.Object["spec"] != nil {
			t.Fatalf("%s keeps its spec %v", id, object.Object["spec"])
		}
	}
}
