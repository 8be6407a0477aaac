package web_test

import (
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/servertest"
	"github.com/waybill-dev/waybill/internal/service"
	"github.com/waybill-dev/waybill/internal/token"
	"github.com/waybill-dev/waybill/internal/web"
)

// page returns the page at a path for the holder of a token; "": without a token.
func (s *site) page(t *testing.T, path, token string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+s.Listener.Addr().String()+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := http.DefaultTransport.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestApprovalOfAGroup: the page says which group may approve, and takes the approval of a person in it.
func TestApprovalOfAGroup(t *testing.T) {
	t.Parallel()
	w := servertest.Start(t)
	w.Service = service.New(w.Ledger, w.Blobs,
		service.Options{Offers: service.Offers{Groups: func() map[string][]string { return map[string][]string{"ops": {"bob"}} }}})
	s := listen(t, w, web.New(w.Service))
	for _, name := range []string{"bob", "cyd"} {
		if err := s.Ledger.CreateToken(t.Context(),
			token.Token{Hash: sha256.Sum256([]byte("token-of-" + name)), Name: name, Scopes: []string{"approve"}}); err != nil {
			t.Fatal(err)
		}
	}
	s.Apply(t, strings.Replace(servertest.Definition, "- name: prod\n", "- name: prod\n  approval: {by: [\"group:ops\"]}\n", 1))
	ref := s.Ship(t, "greeter", "3f2c9a1")
	s.Until(t, ref, "waits", func(v service.DeploymentView) bool { return len(v.State.Approvals) == 1 })
	path := fmt.Sprintf("/deployments/greeter/%d", ref.Number)
	if shown := s.page(t, path, "token-of-bob"); !strings.Contains(shown,
		"group:ops may approve it, but not ana, who registered the revision.") {
		t.Error("the page does not say who may approve")
	}
	if got := s.post(t, path+"/stages/prod/approve", "token-of-cyd", "", nil); got != http.StatusForbidden {
		t.Errorf("cyd, who is in no group, approves: %d", got)
	}
	if got := s.post(t, path+"/stages/prod/approve", "token-of-bob", "", nil); got != http.StatusSeeOther {
		t.Errorf("bob approves: %d", got)
	}
	s.Until(t, ref, "is approved", func(v service.DeploymentView) bool { return len(v.State.Approvals) == 0 })
}

// The buttons that approve need the scope approve, the others operate; neither shows nor does what the other may.
func TestApprovalsNeedTheirOwnScope(t *testing.T) {
	t.Parallel()
	s := serve(t)
	for name, scope := range map[string]string{"bob": "approve", "cyd": "operate"} {
		if err := s.Ledger.CreateToken(t.Context(),
			token.Token{Hash: sha256.Sum256([]byte("token-of-" + name)), Name: name, Scopes: []string{scope}}); err != nil {
			t.Fatal(err)
		}
	}
	s.Apply(t, strings.Replace(servertest.Definition, "- name: prod\n", "- name: prod\n  approval: {by: [bob]}\n", 1))
	ref := s.Ship(t, "greeter", "3f2c9a1")
	s.Until(t, ref, "waits", func(v service.DeploymentView) bool { return len(v.State.Approvals) == 1 })
	path := fmt.Sprintf("/deployments/greeter/%d", ref.Number)
	for name, want := range map[string]bool{"bob": true, "cyd": false} {
		shown := s.page(t, path, "token-of-"+name)
		if !strings.Contains(shown, "approval 0 of 1") ||
			!strings.Contains(shown, "bob may approve it, but not ana, who registered the revision.") {
			t.Errorf("%s does not see what prod waits for", name)
		}
		if strings.Contains(shown, path+"/stages/prod/approve") != want || strings.Contains(shown, path+"/hold") == want {
			t.Errorf("%s sees the wrong buttons", name)
		}
	}
	if got := s.post(t, path+"/stages/prod/approve", "token-of-cyd", "", nil); got != http.StatusForbidden {
		t.Errorf("cyd approves: %d, want %d", got, http.StatusForbidden)
	}
	for _, kind := range []string{"approve", "reject", "approval-given"} { // the commands of the scope operate do not include these
		if got := s.post(t, path+"/"+kind, "token-of-cyd", "", url.Values{"target": {"prod"}}); got != http.StatusBadRequest {
			t.Errorf("cyd sends the command %s: %d, want %d", kind, got, http.StatusBadRequest)
		}
	}
	if got := s.post(t, path+"/stages/prod/reject", "token-of-bob", "", url.Values{"reason": {"error rate"}}); got != http.StatusSeeOther {
		t.Errorf("bob rejects: %d", got)
	}
	if !strings.Contains(s.page(t, path, "token-of-bob"), "rejected by bob: error rate") {
		t.Error("the page does not show the rejection")
	}
	if got := s.post(t, path+"/stages/prod/approve", "token-of-bob", "", nil); got != http.StatusSeeOther {
		t.Errorf("bob approves: %d", got)
	}
	s.Until(t, ref, "ends", func(v service.DeploymentView) bool { return v.Status == pipeline.StatusFinished })
}
