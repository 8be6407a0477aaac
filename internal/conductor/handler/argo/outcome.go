package argo

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/waybill-dev/waybill/internal/action"
)

// missing returns the outcome if the cluster lacks an object.
type missing uint8

const (
	missingTemplate missing = iota + 1 // will never pass
	missingPlace                       // the namespace, or Argo's definitions: they may be created later
	nothingToStop
)

// outcome judges an error of the API server. Refusals that may pass, and requests that do not reach
// the server, are about the cluster and not about this action.
func outcome(err error, ref string, absent missing) action.Outcome {
	o := action.Outcome{Kind: action.Throttle, Code: "unreachable", Error: err.Error(), Ref: ref}
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		if errors.Is(err, context.Canceled) {
			o.Kind = action.Retry // the conductor, which ended the attempt, judges it by the cause
		}
		return o
	}
	code := int(status.Status().Code)
	o.Code = strconv.Itoa(code)
	if seconds, ok := apierrors.SuggestsClientDelay(err); ok {
		o.At = time.Now().Add(time.Duration(seconds) * time.Second)
	}
	switch {
	case apierrors.IsAlreadyExists(err):
		return action.Outcome{Kind: action.Done, Ref: ref}
	case code == http.StatusNotFound && absent == nothingToStop:
		return action.Outcome{Kind: action.Done, Ref: ref}
	case code == http.StatusNotFound && absent == missingTemplate:
		o.Kind = action.Fatal
	case code == http.StatusUnprocessableEntity, code == http.StatusBadRequest:
		o.Kind = action.BadInput
	case code == http.StatusUnauthorized, code == http.StatusForbidden, code == http.StatusTooManyRequests, code >= 500:
		o.Kind = action.Throttle
	default:
		o.Kind = action.Retry
	}
	return o
}
