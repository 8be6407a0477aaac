package server_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/admission"
	"github.com/waybill-dev/waybill/internal/config"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/promotion"
	"github.com/waybill-dev/waybill/internal/promotions"
	"github.com/waybill-dev/waybill/internal/secret"
	"github.com/waybill-dev/waybill/internal/server"
	"github.com/waybill-dev/waybill/internal/servertest"
	"github.com/waybill-dev/waybill/internal/service"
	"github.com/waybill-dev/waybill/internal/signature"
)

// cluster answers as the management cluster of the worked example does.
type cluster struct {
	keys  map[string][]byte
	users map[string]admission.Person // by token; a user may approve in prod

	mu     sync.Mutex
	warned []string
}

func (c *cluster) Warn(_ context.Context, pipeline, reason, message string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if environment, _, named := strings.Cut(message, ": an approval was refused"); named {
		reason += " in " + environment
	}
	c.warned = append(c.warned, pipeline+" "+reason)
}

func (c *cluster) Keys(context.Context, string, string) (secret string, keys map[string][]byte, err error) {
	return "apps/approvals", c.keys, nil
}

func (c *cluster) Approver(_ context.Context, token, pipeline, environment string) (admission.Person, error) {
	user, known := c.users[token]
	switch {
	case !known:
		return user, fault.New(fault.Unauthorized, "the token is not valid")
	case pipeline != servertest.PromotionPipeline:
		return user, fault.New(fault.NotFound, "pipeline %q not found", pipeline)
	case environment != "prod":
		return user, fault.New(fault.Forbidden, "%s may not approve", user.Name)
	}
	return user, nil
}

// signing is a server whose environment prod waits for an approval.
type signing struct {
	*testServer

	cluster *cluster
	offers  service.Offers
}

func newSigning(t *testing.T, offers service.Offers) *signing {
	t.Helper()
	return newSigningOn(t, offers, servertest.Start(t))
}

func newSigningOn(t *testing.T, offers service.Offers, w *servertest.World) *signing {
	t.Helper()
	s := &signing{cluster: &cluster{keys: map[string][]byte{"hmac-key": []byte("secret")}}, offers: offers}
	s.testServer = s.replica(t, w)
	s.Promote(t, servertest.AwaitApproval)
	return s
}

// replica starts one more server on the log, as a restart or another process would.
func (s *signing) replica(t *testing.T, w *servertest.World) *testServer {
	t.Helper()
	w.Service = service.New(w.Ledger, w.Blobs, service.Options{Offers: s.offers, Proofs: func() service.Proofs { return s.cluster }})
	api := server.New(w.Service, server.Options{Listen: "127.0.0.1:7070", Token: homeToken, Version: "1.2.3"})
	h := httptest.NewServer(api.Handler())
	t.Cleanup(func() {
		h.CloseClientConnections()
		h.Close()
	})
	return &testServer{World: w, Server: h, api: api}
}

const approvalAddress = "/approval/apps/podinfo/prod/6.6.0"

// sign returns a signature's header.
func sign(method, target, body, nonce string, at time.Time) string {
	return signature.Signature{At: at, Nonce: nonce, Key: "hmac-key"}.Sign([]byte("secret"),
		signature.Request{Method: method, Target: target, Body: []byte(body)})
}

// approvals lists who has approved in prod.
func (s *signing) approvals(t *testing.T) (names []string) {
	t.Helper()
	state, err := s.Ledger.Promotions.Load(t.Context(), servertest.PromotionPipeline, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range state.Intents {
		names = append(names, fmt.Sprintf("%s %s %s %s", i.Kind, i.Env, i.Revision, i.By.Name))
	}
	return names
}

// want sends a request and compares the status of its answer.
func (s *signing) want(t *testing.T, status int, method, target, body string, headers ...string) (answer string, header http.Header) {
	t.Helper()
	got, answer, header := s.ask(t, method, target, body, headers...)
	if got != status {
		t.Errorf("%s %s: %d %s, want %d", method, target, got, answer, status)
	}
	return answer, header
}

func TestASignedApprovalCountsOnce(t *testing.T) {
	t.Parallel()
	stores := map[string]func(testing.TB) *servertest.World{"sqlite": servertest.Start}
	maps.Copy(stores, sharedStores)
	for name, start := range stores {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			aSignedApprovalCountsOnce(t, newSigningOn(t, service.Offers{}, start(t)))
		})
	}
}

func aSignedApprovalCountsOnce(t *testing.T, s *signing) {
	t.Helper()
	header := sign("POST", approvalAddress, "", "nonce-001", time.Now())
	s.want(t, http.StatusNoContent, "POST", approvalAddress, "", signature.Header, header)
	if got := s.approvals(t); len(got) != 1 || got[0] != "approve prod 6.6.0 key:apps/approvals#hmac-key" {
		t.Errorf("recorded: %q", got)
	}
	s.want(t, http.StatusConflict, "POST", approvalAddress, "", signature.Header, header)
	s.want(t, http.StatusNoContent, "POST", approvalAddress, "", signature.Header, sign("POST", approvalAddress, "", "nonce-002", time.Now()))
	if got := s.approvals(t); len(got) != 1 {
		t.Errorf("the same identity again is recorded: %q", got)
	}
	s.testServer = s.replica(t, s.World) // another process, or the next one
	s.want(t, http.StatusConflict, "POST", approvalAddress, "", signature.Header, header)
	s.Promote(t, nil) // prod does not wait any more, and has a pull request
	s.want(t, http.StatusConflict, "POST", approvalAddress, "", signature.Header, header)
	_, answer := s.want(t, http.StatusCreated, "POST", approvalAddress, "", signature.Header, sign("POST", approvalAddress, "", "nonce-003", time.Now()))
	if got := answer.Get("Location"); got != "https://git.example.com/apps/fleet/pulls/41" {
		t.Errorf("Location %q", got)
	}
}

// A signature is used even if its request is refused: it must not become an approval in advance.
func TestARefusedSignatureIsUsed(t *testing.T) {
	t.Parallel()
	s := newSigning(t, service.Offers{})
	s.Promote(t, nil)
	header := sign("POST", approvalAddress, "", "nonce-001", time.Now())
	s.want(t, http.StatusUnprocessableEntity, "POST", approvalAddress, "", signature.Header, header)
	s.Promote(t, servertest.AwaitApproval)
	s.want(t, http.StatusConflict, "POST", approvalAddress, "", signature.Header, header)
	if got := s.approvals(t); len(got) > 0 {
		t.Errorf("recorded: %q", got)
	}
}

func TestEverySignedFieldIsChecked(t *testing.T) {
	t.Parallel()
	s := newSigning(t, service.Offers{})
	now, body := time.Now(), `{"reason":"tested"}`
	other := strings.Replace(approvalAddress, "prod", "staging", 1)
	for name, c := range map[string]struct{ target, body, header string }{
		"method":      {approvalAddress, body, sign("PUT", approvalAddress, body, "nonce-001", now)},
		"environment": {other, body, sign("POST", approvalAddress, body, "nonce-001", now)},
		"revision":    {approvalAddress, body, sign("POST", "/approval/apps/podinfo/prod/6.7.0", body, "nonce-001", now)},
		"query":       {approvalAddress + "?a=b", body, sign("POST", approvalAddress, body, "nonce-001", now)},
		"body":        {approvalAddress, body + " ", sign("POST", approvalAddress, body, "nonce-001", now)},
		"no body":     {approvalAddress, "", sign("POST", approvalAddress, body, "nonce-001", now)},
		"time":        {approvalAddress, body, altered(sign("POST", approvalAddress, body, "nonce-001", now), "t=", fmt.Sprint(now.Unix()+1))},
		"nonce":       {approvalAddress, body, altered(sign("POST", approvalAddress, body, "nonce-001", now), "n=", "nonce-002")},
		"key":         {approvalAddress, body, altered(sign("POST", approvalAddress, body, "nonce-001", now), "k=", "hmac-key-2")},
		"digits":      {approvalAddress, body, altered(sign("POST", approvalAddress, body, "nonce-001", now), "v1=", strings.Repeat("0", 64))},
		"too old":     {approvalAddress, body, sign("POST", approvalAddress, body, "nonce-001", now.Add(-6*time.Minute))},
		"too new":     {approvalAddress, body, sign("POST", approvalAddress, body, "nonce-001", now.Add(6*time.Minute))},
		"malformed":   {approvalAddress, body, "v1=00"},
		"missing":     {approvalAddress, body, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s.want(t, http.StatusUnauthorized, "POST", c.target, c.body, signature.Header, c.header)
		})
	}
	if got := s.approvals(t); len(got) > 0 {
		t.Errorf("recorded: %q", got)
	}
	// Almost five minutes are accepted, either way.
	s.want(t, http.StatusNoContent, "POST", approvalAddress, body, signature.Header, sign("POST", approvalAddress, body, "nonce-001", now.Add(-4*time.Minute)))
	s.want(t, http.StatusNoContent, "POST", approvalAddress, body, signature.Header, sign("POST", approvalAddress, body, "nonce-002", now.Add(4*time.Minute)))
}

// altered replaces one part of a signature's header.
func altered(header, part, value string) string {
	parts := strings.Split(header, ",")
	for i, p := range parts {
		if strings.HasPrefix(p, part) {
			parts[i] = part + value
		}
	}
	return strings.Join(parts, ",")
}

func TestKeysAreReplacedOneAfterTheOther(t *testing.T) {
	t.Parallel()
	s := newSigning(t, service.Offers{})
	s.cluster.keys = map[string][]byte{"hmac-key": []byte("secret"), "hmac-key-2": []byte("new"), "hmac-key-3": []byte("secret")}
	by := func(key, bytes, nonce string) string {
		return signature.Signature{At: time.Now(), Nonce: nonce, Key: key}.Sign([]byte(bytes), signature.Request{Method: "POST", Target: approvalAddress})
	}
	header := by("hmac-key", "secret", "nonce-001")
	s.want(t, http.StatusNoContent, "POST", approvalAddress, "", signature.Header, header)
	s.want(t, http.StatusNoContent, "POST", approvalAddress, "", signature.Header, by("hmac-key-2", "new", "nonce-001"))
	// The name of the key is not signed: the same bytes under another name are the same key.
	s.want(t, http.StatusConflict, "POST", approvalAddress, "", signature.Header, altered(header, "k=", "hmac-key-3"))
	delete(s.cluster.keys, "hmac-key")
	s.want(t, http.StatusUnauthorized, "POST", approvalAddress, "", signature.Header, by("hmac-key", "secret", "nonce-004"))
	s.cluster.keys = nil
	s.want(t, http.StatusUnauthorized, "POST", approvalAddress, "", signature.Header, by("hmac-key", "", "nonce-005"))
	if got := s.approvals(t); len(got) != 1 {
		t.Errorf("two keys of one Secret are two identities: %q", got)
	}
}

func TestStatusesOfApprovalsAreThoseOfTheOriginalController(t *testing.T) {
	t.Parallel()
	s := newSigning(t, service.Offers{})
	fresh := func(target string) string {
		return sign("POST", target, "", "nonce-"+hex.EncodeToString([]byte(target)), time.Now())
	}
	_, header := s.want(t, http.StatusMethodNotAllowed, "GET", approvalAddress, "")
	if header.Get("Allow") != "POST" {
		t.Errorf("Allow: %q", header.Get("Allow"))
	}
	for target, status := range map[string]int{
		"/approval/apps/podinf/prod/6.6.0":    http.StatusNotFound,
		"/approval/apps/podinfo/prd/6.6.0":    http.StatusNotFound,
		"/approval/apps/podinfo/prod":         http.StatusNotFound,
		"/approval/apps/podinfo/prod/6.7.0":   http.StatusUnprocessableEntity,
		"/approval/apps/podinfo/dev/6.6.0":    http.StatusUnprocessableEntity,
		"/approval/apps/podinfo/prod/6.6.0/a": http.StatusNotFound,
		"/promotion/apps/podinfo":             http.StatusNotFound,
	} {
		s.want(t, status, "POST", target, "", signature.Header, fresh(target))
	}
	s.want(t, http.StatusRequestEntityTooLarge, "POST", approvalAddress, strings.Repeat("a", 64<<10+1), signature.Header, fresh(approvalAddress))
	s.want(t, http.StatusBadRequest, "POST", approvalAddress, `{"decision":"maybe"}`, "Authorization", bearer)
	s.want(t, http.StatusUnauthorized, "POST", approvalAddress, "", "Authorization", "Bearer other")
	s.want(t, http.StatusNoContent, "POST", approvalAddress, `{"decision":"reject","reason":"too late"}`, "Authorization", bearer)
	if got := s.approvals(t); len(got) != 1 || !strings.HasPrefix(got[0], "reject prod 6.6.0 ") {
		t.Errorf("recorded: %q", got)
	}
}

// TestABodyThatCannotBeReadApprovesNothing sends rejections that a client has written wrongly.
func TestABodyThatCannotBeReadApprovesNothing(t *testing.T) {
	t.Parallel()
	s := newSigning(t, service.Offers{})
	bodies := []string{`{"decision":"reject"`, "decision=reject", "\ufeff" + `{"decision":"reject"}`, `["reject"]`, `"reject"`, "null",
		`{"decision":["reject"]}`,
		`{"verdict":"reject"}`, `{"decision":"approve"}{"decision":"reject"}`, `{"decision":"approve","reason":1}`, "reject"}
	for _, body := range bodies {
		s.want(t, http.StatusBadRequest, "POST", approvalAddress, body, "Authorization", bearer)
	}
	for _, part := range []string{`"decision":["reject"]`, `"reason":{}`} {
		body := `{"pipeline":"apps:podinfo","environment":"prod","revision":"6.6.0",` + part + `}`
		s.want(t, http.StatusBadRequest, "POST", approvalAddress, body, signature.BodyHeader, bodySigned(body))
	}
	if got := s.approvals(t); len(got) != 0 {
		t.Errorf("recorded: %q", got)
	}
	s.want(t, http.StatusNoContent, "POST", approvalAddress, " {\"reason\":\"tested\"}\n", "Authorization", bearer)
}

// bodySigned returns the signature of a body.
func bodySigned(body string) string {
	mac := hmac.New(sha256.New, []byte("secret"))
	mac.Write([]byte(body))
	return "sha256=" + hex.EncodeToString(mac.Sum(nil))
}

func TestASignatureOfABodyCoversItsApproval(t *testing.T) {
	t.Parallel()
	s := newSigning(t, service.Offers{})
	named := `{"pipeline":"apps:podinfo","environment":"prod","revision":"6.6.0"}`
	for _, body := range []string{"", "{}", strings.Replace(named, "6.6.0", "6.7.0", 1), strings.Replace(named, "prod", "dev", 1), strings.Replace(named, "apps", "a", 1)} {
		s.want(t, http.StatusUnauthorized, "POST", approvalAddress, body, signature.BodyHeader, bodySigned(body))
	}
	s.want(t, http.StatusUnauthorized, "POST", approvalAddress, named, signature.BodyHeader, bodySigned(named+" "))
	s.want(t, http.StatusNoContent, "POST", approvalAddress, named, signature.BodyHeader, bodySigned(named))
	if got := s.approvals(t); len(got) != 1 {
		t.Errorf("recorded: %q", got)
	}
}

func TestAnEmptyBodyIsAcceptedOnRequestOnly(t *testing.T) {
	t.Parallel()
	s := newSigning(t, service.Offers{BodylessHMAC: func() bool { return true }})
	s.want(t, http.StatusUnauthorized, "POST", approvalAddress, "", signature.BodyHeader, bodySigned("a"))
	s.want(t, http.StatusNoContent, "POST", approvalAddress, "", signature.BodyHeader, bodySigned(""))
	s.want(t, http.StatusNoContent, "POST", approvalAddress, "approved", signature.BodyHeader, bodySigned("approved"))
}

// An address that only looks like that of a hook once it is decoded leads to the pages.
func TestNoPageIsBehindTheAddressOfAHook(t *testing.T) {
	t.Parallel()
	w := servertest.Start(t)
	pages := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { t.Errorf("%s is served without a token", r.RequestURI) })
	handler := server.New(w.Service, server.Options{Listen: "0.0.0.0:7070", Token: homeToken, Pages: pages}).Handler()
	for _, target := range []string{"/approval%2Fx", "/approval%2F", "/promotion%2F..", "/approval%2F..%2Fpipelines",
		"/api%2Fv1/hooks/githost/x",
		"/approval/..%2F..%2F", "/approval/%2e%2e/pipelines", "/api/v1/hooks/githost/%2e%2e/%2e%2e/pipelines", "/api/v1/hooks/githost/x/y"} {
		for _, method := range []string{"GET", "POST", "CONNECT"} {
			answer := httptest.NewRecorder()
			handler.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), method, target, nil))
			if answer.Code < 300 {
				t.Errorf("%s %s: %d %s", method, target, answer.Code, answer.Body)
			}
		}
	}
}

// TestExceptionsToTheOriginalControllerAreWarnings: each is reported when it is met, and nothing else is.
func TestExceptionsToTheOriginalControllerAreWarnings(t *testing.T) {
	t.Parallel()
	s := newSigning(t, service.Offers{})
	const hook, body = "/promotion/apps/podinfo/prod", `{"involvedObject":{"kind":"HelmRelease"}}`
	wants := func(warnings ...string) {
		t.Helper()
		s.cluster.mu.Lock()
		defer s.cluster.mu.Unlock()
		if !slices.Equal(s.cluster.warned, warnings) {
			t.Errorf("warnings: %q, want %q", s.cluster.warned, warnings)
		}
		s.cluster.warned = nil
	}
	s.want(t, http.StatusUnauthorized, "POST", approvalAddress, "")
	s.want(t, http.StatusUnauthorized, "POST", approvalAddress, body, signature.BodyHeader, bodySigned(body+" "))
	s.want(t, http.StatusUnauthorized, "POST", hook, body)
	s.want(t, http.StatusNotFound, "POST", "/approval/apps/podinfo/prd/6.6.0", "")
	s.want(t, http.StatusNoContent, "POST", approvalAddress, "", signature.Header, sign("POST", approvalAddress, "", "nonce-001", time.Now()))
	wants()
	s.want(t, http.StatusUnauthorized, "POST", approvalAddress, "", signature.BodyHeader, bodySigned(""))
	wants("apps:podinfo ApprovalBodyless in prod")
	s.want(t, http.StatusNoContent, "POST", hook, body, signature.BodyHeader, bodySigned(body))
	wants("apps:podinfo HookOnlyWakes")
	s.cluster.keys = nil // the original controller accepts everything then
	s.want(t, http.StatusUnauthorized, "POST", approvalAddress, "")
	wants("apps:podinfo ApprovalUnsigned in prod")
	s.want(t, http.StatusUnauthorized, "POST", hook, body)
	wants("apps:podinfo HookOnlyWakes")
}

func TestAFloodOfRequestsIsRefused(t *testing.T) {
	t.Parallel()
	s := newSigning(t, service.Offers{})
	statuses := map[int]int{}
	for range 80 {
		status, _, header := s.ask(t, "POST", approvalAddress, "", signature.Header, "v1=00")
		statuses[status]++
		if status == http.StatusTooManyRequests && header.Get("Retry-After") == "" {
			t.Error("an answer without Retry-After")
		}
	}
	if statuses[http.StatusUnauthorized] < 50 || statuses[http.StatusTooManyRequests] == 0 || len(statuses) != 2 {
		t.Errorf("statuses %v: want at least 50 times 401, then 429", statuses)
	}
}

func TestAHookOfTheOriginalControllerOnlyWakes(t *testing.T) {
	t.Parallel()
	s := newSigning(t, service.Offers{})
	const target, body = "/promotion/apps/podinfo/prod", `{"involvedObject":{"kind":"HelmRelease"}}`
	s.want(t, http.StatusUnauthorized, "POST", target, body)
	s.want(t, http.StatusUnauthorized, "POST", target, "", signature.BodyHeader, bodySigned(""))
	s.want(t, http.StatusUnauthorized, "POST", target, body, signature.BodyHeader, bodySigned(body+" "))
	s.want(t, http.StatusMethodNotAllowed, "GET", target, "")
	calls := func() []promotions.Call {
		calls, err := s.Ledger.Promotions.Calls(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return calls
	}
	if got := calls(); len(got) > 0 {
		t.Errorf("calls: %+v", got)
	}
	s.want(t, http.StatusNoContent, "POST", target, body, signature.BodyHeader, bodySigned(body))
	if got := calls(); len(got) != 1 || got[0].Name != "apps:podinfo" || got[0].Host != "" {
		t.Errorf("calls: %+v", got)
	}
	if got := s.approvals(t); len(got) > 0 {
		t.Errorf("recorded: %q", got)
	}
}

func TestAHookOfAGitHostCallsAboutItsPullRequest(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte("shared\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	hooks := map[string]config.Hook{"fleet": {Name: "fleet", Type: "gitea", Secret: secret.Source{Name: "fleet", Path: file}},
		"broken": {Name: "broken", Type: "gitea", Secret: secret.Source{Name: "broken", Path: file + ".missing"}}}
	s := newSigning(t, service.Offers{Hooks: func() map[string]config.Hook { return hooks }})
	const target, body = "/api/v1/hooks/githost/fleet", `{"number":41,"pull_request":{"number":41},"repository":{"full_name":"Apps/Fleet"}}`
	mac := hmac.New(sha256.New, []byte("shared"))
	mac.Write([]byte(body))
	proof := hex.EncodeToString(mac.Sum(nil))
	s.want(t, http.StatusUnauthorized, "POST", target, body)
	s.want(t, http.StatusUnauthorized, "POST", target, body+" ", "X-Gitea-Signature", proof)
	s.want(t, http.StatusNotFound, "POST", target+"s", body, "X-Gitea-Signature", proof)
	s.want(t, http.StatusServiceUnavailable, "POST", "/api/v1/hooks/githost/broken", body, "X-Gitea-Signature", proof)
	s.want(t, http.StatusMethodNotAllowed, "GET", target, "")
	s.want(t, http.StatusNoContent, "POST", target, body, "X-Gitea-Signature", proof)
	calls, err := s.Ledger.Promotions.Calls(t.Context())
	if err != nil || len(calls) != 1 || calls[0].Host != "gitea" || calls[0].Name != "apps/fleet" || calls[0].Number != 41 {
		t.Errorf("calls: %+v, %v", calls, err)
	}
	s.want(t, http.StatusRequestEntityTooLarge, "POST", target, strings.Repeat(" ", 2<<20+1), "X-Gitea-Signature", proof)
}

func TestApprovalsOfTheAPITakeOtherProofs(t *testing.T) {
	t.Parallel()
	s := newSigning(t, service.Offers{})
	s.cluster.users = map[string]admission.Person{"token-of-ana": {Name: "ana@example.com", Groups: []string{"ops"}}}
	const target, body = "/api/v1/pipelines/apps:podinfo/stages/prod/approvals", `{"revision":"6.6.0","decision":"approve"}`
	as := func(token string) []string {
		return []string{"Authorization", "Bearer " + token, "Content-Type", "application/json"}
	}
	s.want(t, http.StatusUnauthorized, "POST", target, body, as("token-of-bob")...)
	s.want(t, http.StatusForbidden, "POST", strings.Replace(target, "prod", "staging", 1), body, as("token-of-ana")...)
	s.want(t, http.StatusNotFound, "POST", strings.Replace(target, "podinfo", "other", 1), body, as("token-of-ana")...)
	s.want(t, http.StatusBadRequest, "POST", target, `{"decision":"approve"}`, as("token-of-ana")...)
	// The token is of no use elsewhere.
	s.want(t, http.StatusUnauthorized, "GET", "/api/v1/pipelines/apps:podinfo", "", as("token-of-ana")...)
	s.want(t, http.StatusUnauthorized, "POST", "/api/v1/pipelines/apps:podinfo/freeze", "", as("token-of-ana")...)
	s.want(t, http.StatusOK, "POST", target, body, as("token-of-ana")...)
	signed := sign("POST", target, body, "nonce-001", time.Now())
	s.want(t, http.StatusUnauthorized, "POST", target, body+" ", signature.Header, signed, "Content-Type", "application/json")
	s.want(t, http.StatusOK, "POST", target, body, signature.Header, signed, "Content-Type", "application/json")
	s.want(t, http.StatusConflict, "POST", target, body, signature.Header, signed, "Content-Type", "application/json")
	state, err := s.Ledger.Promotions.Load(t.Context(), servertest.PromotionPipeline, "")
	if err != nil || len(state.Intents) != 2 {
		t.Fatalf("recorded: %+v, %v", state.Intents, err)
	}
	if by := state.Intents[0]; by.Proof != promotion.ProofKubernetes || by.By.Name != "ana@example.com" || len(by.By.Groups) != 1 || by.By.Groups[0] != "ops" {
		t.Errorf("the user: %+v", by)
	}
	if by := state.Intents[1]; by.Proof != promotion.ProofKey || by.By.Name != "key:apps/approvals#hmac-key" || len(by.By.Groups) > 0 {
		t.Errorf("the key: %+v", by)
	}
}

// exampleOf returns the indented block of a document that contains a text.
func exampleOf(t *testing.T, file, text string) string {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for block := range strings.SplitSeq(string(content), "\n\n") {
		if strings.HasPrefix(block, "    ") && strings.Contains(block, text) {
			return strings.ReplaceAll("\n"+block, "\n    ", "\n")
		}
	}
	t.Fatalf("%s has no example with %s", file, text)
	return ""
}

// TestTheDocumentedShellSigns runs the example of docs/promotion.md as a user would, with openssl and curl.
func TestTheDocumentedShellSigns(t *testing.T) {
	t.Parallel()
	s := newSigning(t, service.Offers{})
	run := exec.CommandContext(t.Context(), "sh", "-euc", exampleOf(t, "../../docs/promotion.md", "Waybill-Signature: t=$time"))
	run.Env = append(os.Environ(), "WAYBILL="+s.URL, "HMAC_KEY=secret")
	if output, err := run.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	state, err := s.Ledger.Promotions.Load(t.Context(), servertest.PromotionPipeline, "")
	if err != nil || len(state.Intents) != 1 || state.Intents[0].Reason != "tested by the release job" {
		t.Errorf("recorded: %+v, %v", state.Intents, err)
	}
}
