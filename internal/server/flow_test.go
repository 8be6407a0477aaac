package server_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/waybill-dev/waybill/api/kube/flow/v1alpha1"
	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/client"
	"github.com/waybill-dev/waybill/internal/flow"
	"github.com/waybill-dev/waybill/internal/kube"
	"github.com/waybill-dev/waybill/internal/kube/kubetest"
	"github.com/waybill-dev/waybill/internal/operation"
	"github.com/waybill-dev/waybill/internal/server"
	"github.com/waybill-dev/waybill/internal/servertest"
	"github.com/waybill-dev/waybill/internal/service"
	"github.com/waybill-dev/waybill/internal/service/flowview"
)

func TestFlowsAreListedAndShown(t *testing.T) {
	t.Parallel()
	cluster := kubetest.New(t, kubetest.Kind{GroupVersionResource: v1alpha1.Resource(), Kind: v1alpha1.Kind})
	for _, name := range []string{"orders", "returns"} {
		object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": v1alpha1.APIVersion, "kind": v1alpha1.Kind,
			"metadata": map[string]any{"name": name, "namespace": "shop", "annotations": map[string]any{flow.AnnotationID: name}},
			"spec":     map[string]any{"source": map[string]any{"application": "commerce"}}}}
		if _, err := cluster.Resource(v1alpha1.Resource()).Namespace("shop").Create(t.Context(), object, v1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	w := servertest.Start(t)
	cache := flowview.NewCache(&kube.Cluster{Interface: cluster})
	s := service.New(w.Ledger, w.Blobs, service.Options{Flows: func() (*flowview.Cache, error) { return cache, nil }})
	api := httptest.NewServer(server.New(s, server.Options{Token: homeToken}).Handler())
	t.Cleanup(api.Close)
	caller := client.New(api.URL, homeToken, "ana")
	page, err := operation.ListFlows.Call(t.Context(), caller, operation.FlowsInput{Namespace: "shop", After: "shop/a", Limit: 1})
	if err != nil || len(page) != 1 || page[0].Name != "orders" || page[0].Source != "commerce" {
		t.Errorf("got %+v, %v", page, err)
	}
	shown, err := operation.GetFlow.Call(t.Context(), caller, operation.FlowPath{Namespace: "shop", Name: "returns"})
	if err != nil || shown.Name != "returns" || shown.Ready != "Unknown" || shown.Combined.Status != "Provisioning" || shown.Operation != nil {
		t.Errorf("got %+v, %v", shown, err)
	}
	ts := &testServer{World: w, Server: api}
	forged := provisionIn(t, ts, "returns", `{"flow":{"namespace":"store"}}`)
	shown, err = operation.GetFlow.Call(t.Context(), caller, operation.FlowPath{Namespace: "shop", Name: "returns"})
	if err != nil || shown.Operation != nil {
		t.Errorf("a flow in another namespace is shown with operation %v: %+v, %v", forged, shown.Operation, err)
	}
	operated := provisionIn(t, ts, "orders", `{"flow":{"namespace":"shop"}}`)
	shown, err = operation.GetFlow.Call(t.Context(), caller, operation.FlowPath{Namespace: "shop", Name: "orders"})
	if err != nil || shown.Operation == nil || shown.Operation.Action != operated || shown.Operation.Verb != "provision" ||
		shown.Operation.Status != action.Pending {
		t.Errorf("with an operation: %+v, %v", shown.Operation, err)
	}
	instance, err := operation.GetServiceInstance.Call(t.Context(), caller, operation.ServiceInstancePath{ID: "orders"})
	if err != nil || instance.Flow == nil || instance.Flow.Name != "orders" || instance.Flow.Combined.Status != "Provisioning" {
		t.Errorf("the service instance is shown with %+v, %v", instance.Flow, err)
	}
	provision(t, ts, "folder")
	if instance, err = operation.GetServiceInstance.Call(t.Context(), caller, operation.ServiceInstancePath{ID: "folder"}); err != nil || instance.Flow != nil {
		t.Errorf("one of another plan is shown with %+v, %v", instance.Flow, err)
	}
	for path, want := range map[string]int{"": http.StatusOK, "?limit=501": http.StatusBadRequest, "?after=a": http.StatusBadRequest,
		"?status=Failed": http.StatusOK, "?status=Broken": http.StatusBadRequest,
		"/shop/nope": http.StatusNotFound, "/shop/" + strings.Repeat("x", 254): http.StatusBadRequest} {
		if status, body, _ := ts.ask(t, http.MethodGet, "/api/v1/flows"+path, ""); status != want {
			t.Errorf("%q: %d %s, want %d", path, status, body, want)
		}
	}
}

func TestFlowsNeedASectionOfTheConfiguration(t *testing.T) {
	t.Parallel()
	s := serve(t, "")
	for _, path := range []string{"", "/shop/orders"} {
		status, body, _ := s.ask(t, http.MethodGet, "/api/v1/flows"+path, "")
		if status != http.StatusNotFound || !strings.Contains(body, "does not have the section flow") {
			t.Errorf("%q: %d %s", path, status, body)
		}
	}
}
