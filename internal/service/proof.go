package service

import (
	"context"
	"crypto/hmac"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/waybill-dev/waybill/internal/admission"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/promotion"
	"github.com/waybill-dev/waybill/internal/promotions"
	"github.com/waybill-dev/waybill/internal/secret"
	"github.com/waybill-dev/waybill/internal/signature"
)

// Proofs checks proofs of identity with the management cluster.
type Proofs interface {
	// Keys returns the Secret whose keys sign approvals of an environment, as NAMESPACE/NAME, and its keys by name; none without one.
	Keys(ctx context.Context, pipeline, environment string) (secret string, keys map[string][]byte, err error)
	// Approver returns the user of a token of Kubernetes who may approve in an environment. Errors: fault.Unauthorized,
	// fault.Forbidden, and fault.NotFound for a user who may not read the pipeline.
	Approver(ctx context.Context, token, pipeline, environment string) (admission.Person, error)
	// Warn reports an exception to the way of the original controller in the pipeline's cluster.
	Warn(ctx context.Context, pipeline, reason, message string)
}

// SignedRequest is a request about an environment of a pipeline of Kubernetes that has a signature instead of a token.
type SignedRequest struct {
	signature.Request

	Pipeline, Environment string
	Revision              string // the one to approve; "": the request approves none
	Signature             string // the header signature.Header; "": none
	BodySignature         string // the header signature.BodyHeader; "": none
}

// VerifySignature returns the key that has signed a request, as an identity that may approve. The signature is used by that.
// Errors: fault.NotFound for an unknown pipeline or environment, fault.Unauthorized for a missing or wrong signature, and
// promotions.ErrReplayed for one that was used before.
func (s *Service) VerifySignature(ctx context.Context, r SignedRequest) (id Identity, err error) {
	proofs := s.proofs()
	if r.Environment, err = s.provable(ctx, proofs, r.Pipeline, r.Environment); err != nil {
		return id, err
	}
	secret, keys, err := proofs.Keys(ctx, r.Pipeline, r.Environment)
	switch {
	case err == nil && len(keys) == 0:
		s.warn(ctx, r, codeUnsigned, "an approval was refused: use a token, or have promotion.strategy.secretRef name a key")
		return id, fault.New(fault.Unauthorized, "environment %s of %s has no key that signs approvals", r.Environment, r.Pipeline).
			WithHint("promotion.strategy.secretRef names a Secret with the key hmac-key")
	case r.Signature == "" && r.BodySignature == "":
		return id, fault.New(fault.Unauthorized, "the request has no signature and no token").
			WithHint("sign it: %s: t=UNIXTIME,n=NONCE,k=KEY,v1=HEX", signature.Header)
	case err != nil:
		return id, err
	}
	var key string
	if r.Signature != "" {
		key, err = s.useSignature(ctx, r, secret, keys)
	} else {
		key, err = s.checkBodySignature(ctx, r, keys)
	}
	if err != nil {
		return id, err
	}
	if r.Revision == "" {
		s.warn(ctx, r, "", "")
	}
	return Identity{Name: keyPrefix + secret + "#" + key, Scopes: []Scope{ScopeApprove}, Proof: ProofKey}, nil
}

// provable returns the name of an environment whose approvals can have other proofs than Waybill's tokens.
func (s *Service) provable(ctx context.Context, proofs Proofs, pipeline, environment string) (string, error) {
	v, err := s.promotionView(ctx, pipeline)
	if err != nil {
		return "", err
	}
	name, err := s.environmentOf(v, environment)
	switch {
	case err != nil:
		return "", err
	case name == "":
		return "", fault.New(fault.NotFound, "the address names no environment of %s", pipeline)
	case proofs == nil:
		return "", fault.New(fault.Unauthorized, "this process has no management cluster that could check a signature or a token of Kubernetes").
			WithHint("server.yaml: promoter; or use a token of Waybill")
	}
	return name, nil
}

// useSignature returns the name of the key of a signature that is valid and new.
func (s *Service) useSignature(ctx context.Context, r SignedRequest, secret string, keys map[string][]byte) (key string, err error) {
	signed, err := signature.Parse(r.Signature)
	if err != nil {
		return "", fault.New(fault.Unauthorized, "read the signature: %w", err)
	}
	if !signed.Verify(keys[signed.Key], r.Request) {
		return "", fault.New(fault.Unauthorized, "the signature is not that of this request by the key %q of Secret %s", signed.Key, secret)
	}
	nonce := promotions.Nonce{Key: secret + "#" + firstName(keys, signed.Key), Value: signed.Nonce}
	return signed.Key, s.ledger.Promotions.UseSignature(ctx, promotions.Signature{Nonce: nonce, At: signed.At})
}

// firstName returns the first name of a key. Two names of the same bytes are one key: else a captured request could be sent again under the
// other name, which the signature does not cover.
func firstName(keys map[string][]byte, of string) string {
	for _, name := range slices.Sorted(maps.Keys(keys)) {
		if hmac.Equal(keys[name], keys[of]) {
			return name
		}
	}
	return of
}

// checkBodySignature returns the name of the key that has signed a body. The signature covers neither address nor time, so by default
// an approval counts only if the body has the pipeline, the environment and the revision, as a JSON object.
func (s *Service) checkBodySignature(ctx context.Context, r SignedRequest, keys map[string][]byte) (string, error) {
	for _, name := range slices.Sorted(maps.Keys(keys)) {
		if !signature.VerifyBody(r.BodySignature, keys[name], r.Body) {
			continue
		}
		if s.BodylessHMAC() || covers(r) {
			return name, nil
		}
		s.warn(ctx, r, codeBodyless, "an approval was refused: sign it with "+signature.Header+", or a body that names it")
		return "", fault.New(fault.Unauthorized, "the signature does not cover what it approves, so that it could be used for anything").
			WithHint("sign with %s; or send a body with pipeline, environment and revision; or accept it: promoter.bodylessHMAC", signature.Header)
	}
	return "", fault.New(fault.Unauthorized, "the signature is not that of this body by a key of the environment")
}

// covers reports whether the body of a request names everything that the request is about. A hook that approves nothing only
// needs a body.
func covers(r SignedRequest) bool {
	if r.Revision == "" {
		return len(r.Body) > 0
	}
	var named struct{ Pipeline, Environment, Revision string }
	return json.Unmarshal(r.Body, &named) == nil && named.Pipeline == r.Pipeline && named.Environment == r.Environment && named.Revision == r.Revision
}

// BodylessHMAC reports whether the configuration accepts signatures that do not cover what they approve.
func (s *Service) BodylessHMAC() bool { return s.offers.BodylessHMAC != nil && s.offers.BodylessHMAC() }

// VerifyUser returns the user of a token of Kubernetes, as an identity that may approve in an environment; errors are those of
// Proofs.Approver.
func (s *Service) VerifyUser(ctx context.Context, token, pipeline, environment string) (id Identity, err error) {
	proofs := s.proofs()
	if proofs == nil {
		return id, fault.New(fault.Unauthorized, "the token is not valid")
	}
	// The cluster checks before the log is read, so that the answer does not show a stranger which pipelines exist.
	who, err := proofs.Approver(ctx, token, pipeline, environment)
	if err != nil {
		return id, err
	}
	name, err := s.provable(ctx, proofs, pipeline, environment)
	if err == nil && name != environment {
		err = fault.New(fault.NotFound, "pipeline %s has no environment %q", pipeline, environment)
	}
	return Identity{Name: who.Name, Groups: who.Groups, Scopes: []Scope{ScopeApprove}, Proof: ProofKubernetes}, err
}

// OpenProposal returns the address of the open proposal of a revision in an environment; "" if there is none.
func (s *Service) OpenProposal(ctx context.Context, pipeline, environment, revision string) (string, error) {
	v, err := s.promotionView(ctx, pipeline)
	if err != nil {
		return "", err
	}
	for _, env := range v.Environments {
		if p := env.Proposal; env.Name == environment && p != nil && p.Revision == revision && p.State == promotion.Open {
			return p.URL, nil
		}
	}
	return "", nil
}

// warn has the exception that a request met shown on its pipeline. One without a revision is a call of the old hook.
func (s *Service) warn(ctx context.Context, r SignedRequest, code, text string) {
	text = r.Environment + ": " + text
	if r.Revision == "" {
		code, text = codeHookOnlyWakes, hookOnlyWakes
	}
	if proofs := s.proofs(); proofs != nil {
		proofs.Warn(ctx, r.Pipeline, code, text)
	}
}

// Call has the promoter look once more at the subject of a call.
func (s *Service) Call(ctx context.Context, c promotions.Call) error {
	return s.ledger.Promotions.Call(ctx, c)
}

// HostHook returns the kind of host of a hook of the configuration, and the key that the host has.
func (s *Service) HostHook(name string) (kind, key string, err error) {
	if s.offers.Hooks == nil {
		return "", "", fault.New(fault.NotFound, "hook %q not found", name)
	}
	hooks := s.offers.Hooks()
	hook, ok := hooks[name]
	if !ok {
		return "", "", fault.New(fault.NotFound, "hook %q not found", name).WithHint("server.yaml: promoter.hooks")
	}
	values, err := secret.NewStore(hook.Secret).Values(time.Now())
	return hook.Type, values[hook.Secret.Name], err
}
