package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/githost"
	"github.com/waybill-dev/waybill/internal/listener"
	"github.com/waybill-dev/waybill/internal/operation"
	"github.com/waybill-dev/waybill/internal/promotions"
	"github.com/waybill-dev/waybill/internal/service"
	"github.com/waybill-dev/waybill/internal/signature"
)

// The places of requests that other systems make about pipelines of Kubernetes. The first two are those of the original controller.
const (
	approvalPath  = "/approval/"
	promotionPath = "/promotion/"
	hostHookPath  = operation.Prefix + "/hooks/githost/"
)

// The largest bodies in bytes.
const (
	maxSigned   = 64 << 10
	maxHostHook = 2 << 20
)

// isHook reports whether an escaped path is that of a request with its own proof. Neither the place that it comes
// from nor a cookie counts there.
func isHook(path string) bool {
	return slices.ContainsFunc([]string{approvalPath, promotionPath, hostHookPath, eventPath},
		func(prefix string) bool { return strings.HasPrefix(path, prefix) })
}

// registerHooks adds the places of other systems.
func (s *Server) registerHooks(mux *http.ServeMux, described huma.API) {
	to := hookRoutes{mux, described}
	to.handle(approvalHook(), s.posted(maxSigned, s.approveByHook))
	to.handle(promotionHook(), s.posted(maxSigned, s.wakeByHook))
	to.handle(hostHook(), s.posted(maxHostHook, s.callByHost))
	to.handle(eventOperation(), postOnly(s.receiveEvents))
	missing := func(w http.ResponseWriter, r *http.Request) {
		WriteProblem(w, r, fault.New(fault.NotFound, "the address %s has too few or too many parts", r.URL.Path).
			WithHint("%sNAMESPACE/PIPELINE/ENVIRONMENT/REVISION or %sNAMESPACE/PIPELINE/ENVIRONMENT", approvalPath, promotionPath))
	}
	mux.HandleFunc(approvalPath, missing)
	mux.HandleFunc(promotionPath, missing)
}

// posted serves POST requests with a body up to a size, as many as a source may send.
func (s *Server) posted(most int64, serve func(http.ResponseWriter, *http.Request, []byte) error) http.HandlerFunc {
	return postOnly(func(w http.ResponseWriter, r *http.Request) error {
		if err := s.access.sources.Take(listener.SourceOf(r)); err != nil {
			return err
		}
		body, err := readBody(w, r, most)
		if err != nil {
			return err
		}
		return serve(w, r, body)
	})
}

// postOnly serves POST requests.
func postOnly(serve func(http.ResponseWriter, *http.Request) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			w.Header().Set("Allow", http.MethodPost)
			p := &operation.Problem{Type: operation.ProblemType + "method_not_allowed", Title: http.StatusText(http.StatusMethodNotAllowed),
				Status: http.StatusMethodNotAllowed, Detail: r.Method + " is not possible here", Instance: w.Header().Get(requestHeader)}
			WriteProblemAs(w, p)
			return
		}
		if err := serve(w, r); err != nil {
			WriteProblem(w, r, err)
		}
	}
}

// readBody reads a body up to a size; a larger one is fault.TooLarge.
func readBody(w http.ResponseWriter, r *http.Request, most int64) ([]byte, error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, most))
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return nil, fault.New(fault.TooLarge, "the request's body has more than %d bytes", most)
	}
	if err != nil {
		return nil, fault.New(fault.Invalid, "read the request's body: %w", err)
	}
	return body, nil
}

// signedOf returns a request about an environment with its signature.
func signedOf(r *http.Request, body []byte, about service.SignedRequest) service.SignedRequest {
	about.Request = signature.Request{Method: r.Method, Target: r.URL.RequestURI(), Body: body}
	about.Signature, about.BodySignature = r.Header.Get(signature.Header), r.Header.Get(signature.BodyHeader)
	return about
}

// subjectOf returns the subject of a request in its address.
func subjectOf(r *http.Request) service.SignedRequest {
	return service.SignedRequest{Pipeline: r.PathValue("namespace") + ":" + r.PathValue("pipeline"), Environment: r.PathValue("environment"),
		Revision: r.PathValue("revision")}
}

// signer returns the sender of a request by its token or its signature.
func (s *Server) signer(r *http.Request, signed service.SignedRequest) (service.Identity, error) {
	if r.Header.Get("Authorization") == "" {
		return s.service.VerifySignature(r.Context(), signed)
	}
	return s.access.identifyApprover(r, signed.Pipeline, signed.Environment)
}

// approveByHook records an approval of the revision in the address.
func (s *Server) approveByHook(w http.ResponseWriter, r *http.Request, body []byte) error {
	signed := signedOf(r, body, subjectOf(r))
	identity, err := s.signer(r, signed)
	if err != nil {
		return err
	}
	ctx := service.WithIdentity(r.Context(), identity)
	if _, err := service.Require(ctx, service.ScopeApprove); err != nil {
		return err
	}
	given, err := readOpinion(body, identity.Proof == service.ProofKey && signed.Signature == "", s.service.BodylessHMAC())
	if err != nil {
		return err
	}
	approval := service.Approval{Pipeline: signed.Pipeline, Stage: signed.Environment, Revision: signed.Revision,
		Reject: given.Decision == "reject",
		Reason: given.Reason, By: identity.Name}
	if _, err := s.service.ApproveEnvironment(ctx, service.EnvironmentApproval{Approval: approval, Groups: identity.Groups, Proof: identity.Proof}); err != nil {
		return err
	}
	proposal, err := s.service.OpenProposal(ctx, signed.Pipeline, signed.Environment, signed.Revision)
	if err != nil {
		return err
	}
	if proposal == "" {
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	w.Header().Set("Location", proposal)
	w.WriteHeader(http.StatusCreated)
	return nil
}

// opinion is the body of an approval. That of the original form names its subject as well.
type opinion struct{ Decision, Reason, Pipeline, Environment, Revision string }

// readOpinion reads the body of an approval. One that cannot be read may be a rejection, so it does not approve; none
// is an approval. isOriginal means the original form, which may have more fields, and with anyBody any content.
func readOpinion(body []byte, isOriginal, anyBody bool) (o opinion, err error) {
	body = bytes.TrimSpace(body)
	if len(body) == 0 {
		return o, nil
	}
	decoder := json.NewDecoder(bytes.NewReader(body))
	if !isOriginal {
		decoder.DisallowUnknownFields()
	}
	err = decoder.Decode(&o)
	switch {
	case (err != nil || body[0] != '{' || decoder.InputOffset() < int64(len(body))) && !(isOriginal && anyBody):
		return o, fault.New(fault.Invalid, "the body of an approval: want none, or one JSON object with reason and decision")
	case o.Decision != "" && o.Decision != "approve" && o.Decision != "reject":
		return o, fault.New(fault.Invalid, "decision %.20q: want approve or reject", o.Decision)
	}
	return o, nil
}

// wakeByHook has a pipeline looked at once more. Nothing in the request is used for a decision.
func (s *Server) wakeByHook(w http.ResponseWriter, r *http.Request, body []byte) error {
	signed := signedOf(r, body, subjectOf(r))
	identity, err := s.signer(r, signed)
	if err != nil {
		return err
	}
	if _, err := service.Require(service.WithIdentity(r.Context(), identity), service.ScopeApprove); err != nil {
		return err
	}
	if err := s.service.Call(r.Context(), promotions.Call{Name: signed.Pipeline}); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// callByHost has the open pull requests read that a Git host calls about.
func (s *Server) callByHost(w http.ResponseWriter, r *http.Request, body []byte) error {
	name := r.PathValue("name")
	kind, key, err := s.service.HostHook(name)
	if err != nil {
		return err
	}
	hook, err := githost.ReadHook(kind, key, r.Header, body)
	if err != nil {
		return err
	}
	if hook.Repository != "" { // else it tests the connection
		if err := s.access.sources.Take("the hook " + name); err != nil {
			return err
		}
		if err := s.service.Call(r.Context(), promotions.Call{Host: kind, Name: hook.Repository, Number: hook.Number}); err != nil {
			return err
		}
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}
