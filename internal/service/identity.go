package service

import (
	"context"
	"slices"

	"github.com/waybill-dev/waybill/internal/fault"
)

// Scope is a right of a token.
type Scope string

// The scopes.
const (
	ScopeRead    Scope = "read"
	ScopeExecute Scope = "execute" // register, start
	ScopeOperate Scope = "operate" // retry, skip, hold, resume, cancel
	ScopeDefine  Scope = "define"  // pipelines
	ScopeApprove Scope = "approve"
	ScopeReport  Scope = "report" // about builds of other build engines
	ScopeWorker  Scope = "worker" // report, and have a provisioner start workers
)

// AllScopes returns the scopes of the home's token.
func AllScopes() []Scope {
	return []Scope{ScopeRead, ScopeExecute, ScopeOperate, ScopeDefine, ScopeApprove, ScopeReport, ScopeWorker}
}

// Identity is the sender of a request. The zero Identity is a sender without credentials, which may read on loopback.
type Identity struct {
	Name   string // recorded with each change
	Scopes []Scope
	Token  string // name of the stored token; "": the home's
	// Proof is ProofKey or ProofKubernetes for the sender of an approval that has neither token nor session; else "".
	Proof  string
	Groups []string // in the management cluster
}

// Known reports whether the request carried a valid token or session.
func (i Identity) Known() bool { return len(i.Scopes) > 0 }

// Has reports whether the identity has the scope. Every scope includes reading, so that a token never allows less than
// sending none, and ScopeWorker includes ScopeReport.
func (i Identity) Has(scope Scope) bool {
	return slices.Contains(i.Scopes, scope) || scope == ScopeRead && i.Known() ||
		scope == ScopeReport && slices.Contains(i.Scopes, ScopeWorker)
}

type identityKey struct{}

// WithIdentity returns a context of a request that an identity has sent.
func WithIdentity(ctx context.Context, identity Identity) context.Context {
	return context.WithValue(ctx, identityKey{}, identity)
}

// IdentityOf returns the sender of the request of this context.
func IdentityOf(ctx context.Context) Identity {
	identity, _ := ctx.Value(identityKey{}).(Identity)
	return identity
}

// Require returns the identity of a request if it has a scope, else fault.Unauthorized or fault.Forbidden.
func Require(ctx context.Context, scope Scope) (Identity, error) {
	identity := IdentityOf(ctx)
	switch {
	case identity.Has(scope):
		return identity, nil
	case identity.Known():
		return identity, fault.New(fault.Forbidden, "the token of %s lacks the scope %q", identity.Name, scope)
	default:
		return identity, fault.New(fault.Unauthorized, "this needs a token with the scope %q", scope).
			WithHint("send Authorization: Bearer …; the home's file \"token\" holds one, WAYBILL_TOKEN passes it to the commands")
	}
}
