package claim_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/waybill-dev/waybill/api/kube/flow/v1alpha1"
	"github.com/waybill-dev/waybill/internal/kube/claim"
	"github.com/waybill-dev/waybill/internal/kube/kubetest"
)

// status returns an error of the API server.
func status(code int32, reason metav1.StatusReason) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: code, Reason: reason, Message: fmt.Sprintf("answer %d", code),
	}}
}

func TestARefusedClaimIsClassified(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err     error
		want    claim.Outcome // "": an error
		message string
	}{
		{err: status(http.StatusForbidden, metav1.StatusReasonForbidden), want: claim.Rejected, message: "answer 403"},
		{err: status(http.StatusForbidden, ""), want: claim.Rejected, message: "answer 403"},
		{err: status(http.StatusBadRequest, metav1.StatusReasonBadRequest), want: claim.Rejected, message: "answer 400"},
		{err: status(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid), want: claim.Rejected, message: "answer 422"},
		{err: status(http.StatusRequestEntityTooLarge, metav1.StatusReasonRequestEntityTooLarge), want: claim.Rejected, message: "answer 413"},
		{err: status(http.StatusConflict, metav1.StatusReasonConflict), want: claim.Replaced},
		{err: status(http.StatusNotFound, metav1.StatusReasonNotFound), want: claim.Gone},
		{err: status(http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests)},
		{err: status(http.StatusUnauthorized, metav1.StatusReasonUnauthorized)},
		{err: status(http.StatusInternalServerError, metav1.StatusReasonInternalError)}, // a webhook cannot be reached
		{err: errors.New("connection refused")},
	} {
		w := newWorld(t)
		w.shared(a)
		uid := w.uid()
		w.api.Before(func(r kubetest.Request) error {
			if r.Verb == "patch" {
				return c.err
			}
			return nil
		})
		added, err := w.objects.Add(t.Context(), name, uid, b)
		if added.Outcome != c.want || added.Text != c.message || (err == nil) != (c.want != "") {
			t.Errorf("%v: got %+v, %v", c.err, added, err)
		}
		if err != nil && !errors.Is(err, c.err) {
			t.Errorf("%v is not wrapped: %v", c.err, err)
		}
		if _, err := w.objects.Release(t.Context(), name, uid, "a"); err != nil { // a release that deletes
			t.Errorf("release: %v", err)
		}
	}
}

func TestAClaimThatDoesNotFitIsRejected(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.shared(a)
	w.edit(func(o *unstructured.Unstructured) {
		annotations := o.GetAnnotations()
		annotations["filling"] = strings.Repeat("x", 256<<10-100)
		o.SetAnnotations(annotations)
	})
	if added := w.add(b, w.uid()); added.Outcome != claim.Rejected || !strings.Contains(added.Text, "metadata.annotations: Too long") {
		t.Errorf("got %v", added)
	}
	w.release(a, w.uid())
	w.want("b patch", "b: rejected", "a get", "a delete", "a: deleting", "= absent")
}

// 1500 users with names of usual lengths fit into the annotations of an object.
func TestManyClaimsFit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	object := broker()
	var last claim.Claim
	for i := range 1500 {
		last = claim.Claim{Policy: v1alpha1.WhenUnused, Namespace: "a-namespace-of-a-team", Name: fmt.Sprintf("orders-of-the-shop-to-the-warehouse-%04d", i)}
		last.UID = user(fmt.Sprintf("00000000-0000-0000-0000-%012d", i), "").UID
		claim.Mark(object, last)
	}
	if _, err := w.raw().Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.release(last, "")
	if got := claim.Of(w.found()); len(got) != 1499 {
		t.Errorf("%d claims are left", len(got))
	}
}

// An object is never deleted while it is unknown whether one of its users exists.
func TestAUserThatCannotBeLookedUpKeepsTheObject(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.shared(a, b)
	away := errors.New("away")
	w.objects.Live = func(context.Context, claim.Claim) (bool, error) { return false, away }
	w.release(a, w.uid())
	w.sweep()
	w.want("a get", "a: error", "sweeper get", "sweeper: error", "= managed a b")
	if _, err := w.objects.Release(t.Context(), name, w.uid(), "a"); !errors.Is(err, away) || !strings.Contains(err.Error(), "shop/b") {
		t.Errorf("got %v", err)
	}
}

func TestErrorsOfTheAPIServerAreReturned(t *testing.T) {
	t.Parallel()
	for _, verb := range []string{"get", "patch", "delete"} {
		w := newWorld(t)
		w.shared(a, keep)
		if verb == "delete" {
			w.release(keep, w.uid())
		}
		away := errors.New("away")
		uid := w.uid()
		w.api.Before(func(r kubetest.Request) error {
			if r.Verb == verb {
				return away
			}
			return nil
		})
		if got, err := w.objects.Release(t.Context(), name, uid, "a"); !errors.Is(err, away) || got != "" {
			t.Errorf("release at %s: got %q, %v", verb, got, err)
		}
		w.gone["a"] = true
		if got, err := w.objects.Sweep(t.Context(), name, uid); !errors.Is(err, away) || got != "" {
			t.Errorf("sweep at %s: got %q, %v", verb, got, err)
		}
	}
}

func TestAFailedWithdrawalIsAnError(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.shared(a)
	w.edit(func(o *unstructured.Unstructured) { o.SetLabels(nil) })
	uid, away := w.uid(), errors.New("away")
	w.api.Before(func(r kubetest.Request) error {
		if r.Verb == "get" {
			return away
		}
		return nil
	})
	if added, err := w.objects.Add(t.Context(), name, uid, b); !errors.Is(err, away) || added.Outcome != "" {
		t.Errorf("got %+v, %v", added, err)
	}
}
