package kube_test

import (
	"errors"
	"fmt"
	"net/http"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/waybill-dev/waybill/internal/kube"
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
