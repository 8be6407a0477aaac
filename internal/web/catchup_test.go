package web_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/servertest"
	"github.com/waybill-dev/waybill/internal/service"
)

// The page of a pipeline leads to the catch-up of a host that lacks its revision, for readers with the scope execute.
func TestAHostIsCaughtUpFromThePage(t *testing.T) {
	t.Parallel()
	s := serveGreeter(t)
	s.Until(t, s.Ship(t, "greeter", "3f2c9a1"), "ends", servertest.Ended)
	const path = "/pipelines/greeter/catch-up"
	has(t, s.page(t, path, "token-of-dan"), `id="refused"`, "no host of greeter lacks the current revision")
	s.Apply(t, strings.Replace(servertest.Definition, `{url: "local://yew"`,
		`{url: "local://ash", vars: {port: 7105}}, {url: "local://yew"`, 1))
	for name, want := range map[string]bool{"cyd": false, "dan": true} {
		if got := strings.Contains(s.page(t, "/pipelines/greeter", "token-of-"+name), path+"?target=prod%2fwest%2fash"); got != want {
			t.Errorf("%s sees the link: %t, want %t", name, got, want)
		}
		if got := strings.Contains(s.page(t, path, "token-of-"+name), `id="sure"`); got != want {
			t.Errorf("%s may confirm: %t, want %t", name, got, want)
		}
	}
	has(t, s.page(t, path+"?target=prod/west/ash", ""), "1 host gets 3f2c9a1", "prod/west/ash</th><td>nothing</td><td>3f2c9a1</td>")
	fields := url.Values{"target": {"prod/west/ash"}}
	if got := s.post(t, path, "token-of-cyd", "", fields); got != http.StatusForbidden {
		t.Errorf("cyd catches up: %d, want %d", got, http.StatusForbidden)
	}
	if got := s.post(t, path, "token-of-dan", "", fields); got != http.StatusSeeOther {
		t.Fatalf("dan catches up: %d, want %d", got, http.StatusSeeOther)
	}
	made := s.Until(t, service.Ref{Pipeline: "greeter", Number: 2}, "ends", servertest.Ended)
	if made.Kind != journal.CatchUp || made.By != "dan" {
		t.Errorf("%+v, want a catch-up by dan", made.Deployment)
	}
}
