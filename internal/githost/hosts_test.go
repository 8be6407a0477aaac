package githost

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"encoding/pem"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/promotion"
	"github.com/waybill-dev/waybill/internal/webhook"
)

func TestAddressesOfRepositories(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ kind, url, api, owner, name string }{
		{GitHub, "https://github.com/apps/fleet", "https://api.github.com", "apps", "fleet"},
		{GitHub, "git@github.com:apps/fleet.git", "https://api.github.com", "apps", "fleet"},
		{GitHub, "ssh://git@github.com/apps/fleet.git", "https://api.github.com", "apps", "fleet"},
		{GitHub, "https://ghe.example.com/apps/fleet.git", "https://ghe.example.com/api/v3", "apps", "fleet"},
		{GitLab, "https://gitlab.com/group/sub/fleet.git", "https://gitlab.com/api/v4", "group/sub", "fleet"},
		{Gitea, "http://git.example.com:3000/apps/fleet.git", "http://git.example.com:3000/api/v1", "apps", "fleet"},
		{Gitea, "https://example.com/git/apps/fleet", "https://example.com/git/api/v1", "apps", "fleet"},
		{Forgejo, "ssh://git@codeberg.org:22/apps/fleet.git", "https://codeberg.org/api/v1", "apps", "fleet"},
		{BitbucketServer, "https://bb.example.com/scm/apps/fleet.git", "https://bb.example.com/rest/api/1.0", "apps", "fleet"},
		{BitbucketServer, "https://bb.example.com/ctx/scm/apps/fleet.git", "https://bb.example.com/ctx/rest/api/1.0", "apps", "fleet"},
		{BitbucketServer, "https://bb.example.com/projects/APPS/repos/fleet/browse", "https://bb.example.com/rest/api/1.0", "APPS",
			"fleet"},
		{BitbucketServer, "https://bb.example.com/users/ann/repos/fleet", "https://bb.example.com/rest/api/1.0", "~ann", "fleet"},
		{BitbucketServer, "ssh://git@bb.example.com:7999/apps/fleet.git", "https://bb.example.com/rest/api/1.0", "apps", "fleet"},
		{BitbucketCloud, "https://bitbucket.org/apps/fleet.git", "https://api.bitbucket.org/2.0", "apps", "fleet"},
		{AzureDevOps, "https://dev.azure.com/org/project/_git/fleet", "https://dev.azure.com/org", "project", "fleet"},
		{AzureDevOps, "https://dev.azure.com/org/_git/fleet", "https://dev.azure.com/org", "fleet", "fleet"},
		{AzureDevOps, "https://org.visualstudio.com/project/_git/fleet", "https://org.visualstudio.com", "project", "fleet"},
		{AzureDevOps, "https://tfs.example.com/tfs/collection/project/_git/fleet", "https://tfs.example.com/tfs/collection",
			"project", "fleet"},
		{AzureDevOps, "git@ssh.dev.azure.com:v3/org/project/fleet", "https://dev.azure.com/org", "project", "fleet"},
	} {
		at, err := parseRepository(promotion.Host{Type: row.kind, URL: row.url})
		if err != nil || at.api.String() != row.api || at.owner != row.owner || at.name != row.name {
			t.Errorf("%s: %s of %s at %v, %v; want %s of %s at %s", row.url, at.name, at.owner, at.api, err, row.name, row.owner, row.api)
		}
	}
}

func TestAddressesThatNameNoRepository(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"", "fleet", "https://github.com", "https://github.com/fleet", "https://github.com/apps/..", "ftp://github.com/apps/fleet",
		"https://github.com/apps/fl eet", "https://github.com/apps/fleet?x", "file:///etc/passwd", "https://" +
			strings.Repeat("x", 3000) + "/a/b",
		"https://github.com/apps/%2e%2e", "https://github.com/apps/fleet%2Fx%3Fy"} {
		if at, err := parseRepository(promotion.Host{Type: GitHub, URL: url}); err == nil && url != "https://github.com/apps/fleet?x" {
			t.Errorf("%.80q: %+v", url, at)
		}
	}
	if _, err := parseRepository(promotion.Host{Type: "svn", URL: "https://github.com/apps/fleet"}); err == nil {
		t.Error("type svn was accepted")
	}
	for _, api := range []string{"ftp://x", "https://user:password@x", "x"} {
		if _, err := parseRepository(promotion.Host{Type: GitHub, URL: "https://github.com/apps/fleet", APIURL: api}); err == nil {
			t.Errorf("apiURL %s was accepted", api)
		}
	}
}

// latest requests the newest proposal of a Gitea with these options, at an address.
func latest(t *testing.T, o Options, url string, keys map[string]string) error {
	t.Helper()
	hosts := NewHosts(o)
	t.Cleanup(hosts.Close)
	c, err := hosts.Open(promotion.Host{Type: Gitea, URL: url + "/apps/fleet", Base: "main", Branch: "x"}, keys)
	if err != nil {
		return err
	}
	_, err = c.Prepare(t.Context(), promotion.Work{})
	return err
}

func loopback() webhook.Guard {
	return webhook.Guard{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}
}

func empty(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("[]")) }

func TestHostsOnLoopbackNeedTheOperator(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(empty))
	defer server.Close()
	keys := map[string]string{KeyToken: "t0ken-of-a-test"}
	err := latest(t, Options{PlainHTTP: true, Guard: webhook.Guard{Allow: webhook.Private()}}, server.URL, keys)
	if o := Outcome(err); err == nil || o.Kind != action.Fatal || o.Code != webhook.CodeRefused {
		t.Errorf("got %v, want the address refused", err)
	}
	keys[KeyToken] += "\n" // as files end
	if err := latest(t, Options{PlainHTTP: true, Guard: loopback()}, server.URL, keys); err != nil {
		t.Errorf("allowed: %v", err)
	}
}

func TestPlainHTTPNeedsTheOperator(t *testing.T) {
	t.Parallel()
	err := latest(t, Options{Guard: loopback()}, "http://127.0.0.1:1", map[string]string{KeyToken: "x"})
	if fault.CodeOf(err) != fault.Invalid {
		t.Errorf("got %v", err)
	}
}

func TestHostsHaveTheirOwnAuthority(t *testing.T) {
	t.Parallel()
	server := httptest.NewTLSServer(http.HandlerFunc(empty))
	defer server.Close()
	keys := map[string]string{KeyToken: "t0ken-of-a-test"}
	if o := Outcome(latest(t, Options{Guard: loopback()}, server.URL, keys)); o.Kind != action.Throttle || o.Code != webhook.CodeTLS {
		t.Errorf("unknown authority: %+v", o)
	}
	keys[KeyCA] = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	if err := latest(t, Options{Guard: loopback()}, server.URL, keys); err != nil {
		t.Errorf("known authority: %v", err)
	}
	keys[KeyCA] = "no certificate"
	if err := latest(t, Options{Guard: loopback()}, server.URL, keys); fault.CodeOf(err) != fault.Invalid {
		t.Errorf("bad authority: %v", err)
	}
}

func TestKeysAreBounded(t *testing.T) {
	t.Parallel()
	for _, keys := range []map[string]string{{KeyToken: strings.Repeat("x", maxToken+1)}, {KeyToken: "a\nb"}, {KeyUsername: "ann"}, {}} {
		if err := latest(t, Options{}, "https://git.example.com", keys); fault.CodeOf(err) != fault.Invalid {
			t.Errorf("%.40v: %v", keys, err)
		}
	}
}

func TestPagesStayOnTheHost(t *testing.T) {
	t.Parallel()
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("%s was sent to another host", r.Header.Get("Authorization"))
	}))
	defer elsewhere.Close()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Link", `<`+elsewhere.URL+`/next>; rel="next"`)
		empty(w, r)
	}))
	defer server.Close()
	hosts := NewHosts(Options{PlainHTTP: true, Guard: loopback()})
	defer hosts.Close()
	c, err := hosts.Open(promotion.Host{Type: GitHub, URL: server.URL + "/apps/fleet", Base: "main", Branch: "x"},
		map[string]string{KeyToken: "t0ken-of-a-test"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Prepare(t.Context(), promotion.Work{}); Outcome(err).Kind != action.Fatal {
		t.Errorf("got %v", err)
	}
}

func TestCredentialsForGit(t *testing.T) {
	t.Parallel()
	jwt := "eyJhbGciOiJub25lIn0.e30.x"
	for _, row := range []struct {
		kind string
		keys map[string]string
		want GitAuth
	}{
		{GitHub, map[string]string{KeyToken: "t"}, GitAuth{Username: "x-access-token", Password: "t"}},
		{GitHub, map[string]string{KeyUsername: "ann", KeyPassword: "p"}, GitAuth{Username: "ann", Password: "p"}},
		{GitLab, map[string]string{KeyToken: "t"}, GitAuth{Username: "waybill", Password: "t"}},
		{Gitea, map[string]string{KeyToken: "t", KeyUsername: "ann"}, GitAuth{Username: "ann", Password: "t"}},
		{BitbucketCloud, map[string]string{KeyToken: "t", KeyUsername: "ann@example.com"},
			GitAuth{Username: "x-bitbucket-api-token-auth", Password: "t"}},
		{BitbucketCloud, map[string]string{KeyToken: "t"}, GitAuth{Username: "x-token-auth", Password: "t"}},
		{BitbucketServer, map[string]string{KeyToken: "t"}, GitAuth{Bearer: "t"}},
		{AzureDevOps, map[string]string{KeyToken: "t"}, GitAuth{Username: "waybill", Password: "t"}},
		{AzureDevOps, map[string]string{KeyToken: jwt}, GitAuth{Bearer: jwt}},
	} {
		c := &Client{host: promotion.Host{Type: row.kind}, keys: row.keys}
		if got, err := c.GitAuth(t.Context()); err != nil || got != row.want {
			t.Errorf("%s %v: %+v, %v; want %+v", row.kind, row.keys, got, err, row.want)
		}
	}
}
