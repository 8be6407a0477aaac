package kube

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/waybill-dev/waybill/internal/action"
)

// Outcome returns the outcome of an attempt that ended with an error of the API server, and the HTTP status of its answer, 0 for
// none. Refusals that may pass, and requests that do not reach the server, are about the cluster and not about the action, so they
// throttle. All others are repeated, unless the caller knows that they are final.
func Outcome(err error) (o action.Outcome, code int) {
	o = action.Outcome{Kind: action.Throttle, Code: "unreachable", Error: err.Error()}
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		if errors.Is(err, context.Canceled) {
			o.Kind = action.Retry // the conductor, which ended the attempt, judges it by the cause
		}
		return o, 0
	}
	code = int(status.Status().Code)
	o.Code = strconv.Itoa(code)
	if seconds, ok := apierrors.SuggestsClientDelay(err); ok {
		o.At = time.Now().Add(time.Duration(seconds) * time.Second)
	}
	switch {
	case code == http.StatusUnauthorized, code == http.StatusForbidden, code == http.StatusTooManyRequests, code >= 500:
	default:
		o.Kind = action.Retry
	}
	return o, code
}

// IsAbsent reports whether an error of the API server denies the object of a request. The 404 for a kind that is not served denies none:
// the definition of the kind may be away for a moment.
func IsAbsent(err error) bool {
	return apierrors.IsNotFound(err) && !apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

// Refuses reports whether an error of the API server refuses an object itself: by its schema, its size, a policy, a quota or a webhook.
// Missing rights and a webhook that cannot be reached are other errors.
func Refuses(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	switch status.Status().Code {
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity:
		return true
	case http.StatusForbidden:
		return !strings.Contains(status.Status().Message, ` forbidden: User "`)
	}
	return false
}
