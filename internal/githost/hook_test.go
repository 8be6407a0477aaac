package githost_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/githost"
	"github.com/waybill-dev/waybill/internal/promotion"
)

const hookKey = "shared-with-the-host"

func signature(body []byte) string {
	mac := hmac.New(sha256.New, []byte(hookKey))
	mac.Write(body)
	return hex.EncodeToString(mac.Sum(nil))
}

// hooks are webhooks as hosts send them, in testdata/hooks, with the headers that prove them.
var hooks = []struct {
	kind, file string
	number     int64
	prove      func(h http.Header, body []byte)
}{
	{githost.GitHub, "github-pull.json", 41, func(h http.Header, b []byte) { h.Set("X-Hub-Signature-256", "sha256="+signature(b)) }},
	{githost.GitHub, "github-check.json", 41, func(h http.Header, b []byte) { h.Set("X-Hub-Signature-256", "sha256="+signature(b)) }},
	{githost.GitHub, "github-push.json", 0, func(h http.Header, b []byte) { h.Set("X-Hub-Signature-256", "sha256="+signature(b)) }},
	{githost.GitLab, "gitlab-merge.json", 41, func(h http.Header, _ []byte) { h.Set("X-Gitlab-Token", hookKey) }},
	{githost.GitLab, "gitlab-pipeline.json", 41, func(h http.Header, _ []byte) { h.Set("X-Gitlab-Token", hookKey) }},
	{githost.Gitea, "gitea-pull.json", 41, func(h http.Header, b []byte) { h.Set("X-Gitea-Signature", signature(b)) }},
	{githost.Forgejo, "gitea-pull.json", 41, func(h http.Header, b []byte) { h.Set("X-Forgejo-Signature", signature(b)) }},
	{githost.BitbucketServer, "bitbucket-server-pull.json", 41, func(h http.Header, b []byte) { h.Set("X-Hub-Signature", "sha256="+signature(b)) }},
	{githost.BitbucketCloud, "bitbucket-cloud-pull.json", 41, func(h http.Header, b []byte) { h.Set("X-Hub-Signature", "sha256="+signature(b)) }},
	{githost.AzureDevOps, "azure-pull.json", 41, func(h http.Header, _ []byte) { h.Set("Authorization", basicOf("waybill", "shared-with-the-host")) }},
}

func basicOf(user, password string) string {
	r := http.Request{Header: http.Header{}}
	r.SetBasicAuth(user, password)
	return r.Header.Get("Authorization")
}

func keyOf(kind string) string {
	if kind == githost.AzureDevOps {
		return "waybill:" + hookKey
	}
	return hookKey
}

func TestHooksNameTheProposal(t *testing.T) {
	t.Parallel()
	for _, hook := range hooks {
		t.Run(hook.file+" of "+hook.kind, func(t *testing.T) {
			t.Parallel()
			body, err := os.ReadFile(filepath.Join("testdata", "hooks", hook.file))
			if err != nil {
				t.Fatal(err)
			}
			header := http.Header{}
			hook.prove(header, body)
			got, err := githost.ReadHook(hook.kind, keyOf(hook.kind), header, body)
			if want := (githost.Hook{Repository: "apps/fleet", Number: hook.number}); err != nil || got != want {
				t.Errorf("got %+v, %v; want %+v", got, err, want)
			}
		})
	}
}

func TestHooksWithoutProofAreRefused(t *testing.T) {
	t.Parallel()
	for _, hook := range hooks {
		body, err := os.ReadFile(filepath.Join("testdata", "hooks", hook.file))
		if err != nil {
			t.Fatal(err)
		}
		for name, change := range map[string]func(h http.Header, key *string, body *[]byte){
			"no header": func(h http.Header, _ *string, _ *[]byte) { clear(h) },
			"other key": func(_ http.Header, key *string, _ *[]byte) { *key += "x" },
			"no key":    func(_ http.Header, key *string, _ *[]byte) { *key = "" },
			"changed body": func(h http.Header, key *string, body *[]byte) {
				*body = append([]byte(" "), *body...)
				if h.Get("X-Gitlab-Token") != "" || h.Get("Authorization") != "" {
					*key = "x" // these do not cover the body
				}
			},
		} {
			header, key, changed := http.Header{}, keyOf(hook.kind), body
			hook.prove(header, body)
			change(header, &key, &changed)
			if _, err := githost.ReadHook(hook.kind, key, header, changed); fault.CodeOf(err) != fault.Unauthorized {
				t.Errorf("%s, %s: %v", hook.file, name, err)
			}
		}
	}
}

func TestHooksThatNameNothing(t *testing.T) {
	t.Parallel()
	for _, body := range []string{"", "{}", "[]", `{"repository":5}`, `{"repository":{"full_name":"` + strings.Repeat("x", 2000) + `"}}`,
		strings.Repeat("[", 100000)} {
		header := http.Header{"X-Hub-Signature-256": {"sha256=" + signature([]byte(body))}}
		if _, err := githost.ReadHook(githost.GitHub, hookKey, header, []byte(body)); fault.CodeOf(err) != fault.Invalid {
			t.Errorf("%.40q: %v", body, err)
		}
	}
	ping := http.Header{"X-Hub-Signature-256": {"sha256=" + signature([]byte("{}"))}, "X-Github-Event": {"ping"}}
	if got, err := githost.ReadHook(githost.GitHub, hookKey, ping, []byte("{}")); err != nil || got.Repository != "" {
		t.Errorf("ping: %+v, %v", got, err)
	}
	if _, err := githost.ReadHook(githost.GitHub, hookKey, ping, make([]byte, 3<<20)); fault.CodeOf(err) != fault.TooLarge {
		t.Errorf("too large: %v", err)
	}
}

func TestRepositoryOfAHost(t *testing.T) {
	t.Parallel()
	got, err := githost.Repository(promotion.Host{Type: githost.GitHub, URL: "https://github.com/Apps/Fleet.git"})
	if err != nil || got != "apps/fleet" {
		t.Errorf("got %q, %v", got, err)
	}
}
