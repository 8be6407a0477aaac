package kube_test

import (
	"errors"
	"fmt"
	"net/http"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/waybill-dev/waybill/internal/kube"
	"github.com/waybill-dev/waybill/internal/kube/kubetest"
)

// TestRefusesTellsAnObjectFromItsWriter: a webhook and a quota refuse the object, missing rights refuse its writer, and a webhook that is
// away refuses neither.
func TestRefusesTellsAnObjectFromItsWriter(t *testing.T) {
	t.Parallel()
	brokers := schema.GroupResource{Group: "eventing.knative.dev", Resource: "brokers"}
	status := func(code int, text string) error {
		return apierrors.NewGenericServerResponse(code, "create", brokers, "default", text, 0, true)
	}
	webhook := status(http.StatusForbidden, "")
	var own *apierrors.StatusError
	if !errors.As(webhook, &own) {
		t.Fatal("no status")
	}
	own.ErrStatus.Message = `admission webhook "policy.example" denied the request: no Brokers here`
	for name, c := range map[string]struct {
		err  error
		want bool
	}{
		"webhook":      {webhook, true},
		"wrapped":      {fmt.Errorf("create: %w", webhook), true},
		"quota":        {apierrors.NewForbidden(brokers, "default", errors.New("exceeded quota: few")), true},
		"schema":       {status(http.StatusUnprocessableEntity, "spec.class is immutable"), true},
		"size":         {apierrors.NewRequestEntityTooLargeError("too large"), true},
		"rights":       {apierrors.NewForbidden(brokers, "default", errors.New(`User "waybill" cannot create resource "brokers"`)), false},
		"webhook away": {apierrors.NewInternalError(errors.New("failed calling webhook")), false},
		"conflict":     {apierrors.NewConflict(brokers, "default", errors.New("modified")), false},
		"away":         {errors.New("connection refused"), false},
		"none":         {nil, false},
	} {
		if got := kube.Refuses(c.err); got != c.want {
			t.Errorf("%s: got %t, want %t", name, got, c.want)
		}
	}
}

// TestAKindThatIsNotServedDeniesNoObject of it.
func TestAKindThatIsNotServedDeniesNoObject(t *testing.T) {
	t.Parallel()
	brokers := schema.GroupVersionResource{Group: "eventing.knative.dev", Version: "v1", Resource: "brokers"}
	api := kubetest.New(t, kubetest.Kind{GroupVersionResource: brokers, Kind: "Broker"})
	cluster, _ := serve(t, api)
	for _, client := range []dynamic.Interface{cluster, api} {
		for resource, want := range map[schema.GroupVersionResource]bool{brokers: true, brokers.GroupResource().WithVersion("v2"): false} {
			_, err := client.Resource(resource).Namespace("shop").Get(t.Context(), "default", metav1.GetOptions{})
			if !apierrors.IsNotFound(err) || kube.IsAbsent(err) != want {
				t.Errorf("%s: %v, want an absent object: %t", resource, err, want)
			}
		}
	}
}
