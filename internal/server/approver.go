package server

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/listener"
	"github.com/waybill-dev/waybill/internal/operation"
	"github.com/waybill-dev/waybill/internal/service"
	"github.com/waybill-dev/waybill/internal/signature"
)

// identifyApprover returns the sender of a request with a token of Waybill, or of the management cluster.
func (a *access) identifyApprover(r *http.Request, pipeline, environment string) (service.Identity, error) {
	header := r.Header.Get("Authorization")
	identity, err := a.identify((&http.Request{Header: http.Header{"Authorization": {header}, operation.UserHeader: r.Header[operation.UserHeader]}}).
		WithContext(r.Context()))
	token, isBearer := strings.CutPrefix(header, "Bearer ")
	if !fault.Is(err, fault.Unauthorized) || !isBearer {
		return identity, err
	}
	return a.proofs.VerifyUser(r.Context(), token, pipeline, environment)
}

// proofs is the part of the service that checks other proofs than tokens of Waybill.
type proofs interface {
	VerifyUser(ctx context.Context, token, pipeline, environment string) (service.Identity, error)
	VerifySignature(ctx context.Context, r service.SignedRequest) (service.Identity, error)
}

// proveApprover returns the sender of a request that has neither a token of Waybill nor a session, if it may have another proof: an approval in a
// pipeline of Kubernetes.
func (a *access) proveApprover(r *http.Request) (id service.Identity, proved bool, err error) {
	pipeline, environment, ok := approvalOf(r)
	signed := r.Header.Get(signature.Header) != ""
	if !ok || r.Header.Get("Authorization") == "" && !signed {
		return id, false, nil
	}
	if err := a.sources.Take(listener.SourceOf(r)); err != nil {
		return id, true, err
	}
	if r.Header.Get("Authorization") != "" {
		id, err = a.identifyApprover(r, pipeline, environment)
		return id, true, err
	}
	body, err := readBody(nil, r, maxSigned)
	if err != nil {
		return id, true, err
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	request := signedOf(r, body, service.SignedRequest{Pipeline: pipeline, Environment: environment})
	request.BodySignature = ""
	id, err = a.proofs.VerifySignature(r.Context(), request)
	return id, true, err
}

// approvalOf returns the pipeline of Kubernetes and the environment that an approval at the API is about.
func approvalOf(r *http.Request) (pipeline, environment string, ok bool) {
	rest, ok := strings.CutPrefix(r.URL.EscapedPath(), operation.Prefix+"/pipelines/")
	parts := strings.Split(rest, "/")
	if !ok || r.Method != http.MethodPost || len(parts) != 4 || parts[1] != "stages" || parts[3] != "approvals" {
		return "", "", false
	}
	pipeline, err := url.PathUnescape(parts[0])
	if err != nil || !service.OfKubernetes(pipeline) {
		return "", "", false
	}
	environment, err = url.PathUnescape(parts[2])
	return pipeline, environment, err == nil
}
