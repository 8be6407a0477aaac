package argo

import (
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/kube"
)

// missing returns the outcome if the cluster lacks an object.
type missing uint8

const (
	missingTemplate missing = iota + 1 // will never pass
	missingPlace                       // the namespace, or Argo's definitions: they may be created later
	nothingToStop
)

// outcome judges an error of the API server about an object.
func outcome(err error, ref string, absent missing) action.Outcome {
	o, code := kube.Outcome(err)
	o.Ref = ref
	switch {
	case apierrors.IsAlreadyExists(err), code == http.StatusNotFound && absent == nothingToStop:
		return action.Outcome{Kind: action.Done, Ref: ref}
	case code == http.StatusNotFound && absent == missingTemplate:
		o.Kind = action.Fatal
	case code == http.StatusUnprocessableEntity, code == http.StatusBadRequest:
		o.Kind = action.BadInput
	}
	return o
}
