package config_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/config"
	"github.com/waybill-dev/waybill/internal/secret"
	"github.com/waybill-dev/waybill/internal/webhook"
)

func TestProjectsAreRead(t *testing.T) {
	t.Parallel()
	c, err := config.Read("server.yaml", []byte(`
builds:
  projects:
    shop: {repository: "https://git.example.org/shop.git", branch: main, subdirectory: app, credential: github, id: 42}
    tools: {repository: /srv/git/tools.git}
`))
	want := map[string]config.Project{
		"shop":  {ID: "42", Repository: "https://git.example.org/shop.git", Branch: "main", Subdirectory: "app", Credential: "github"},
		"tools": {Repository: "/srv/git/tools.git"},
	}
	if diff := cmp.Diff(want, c.Builds.Projects); diff != "" || err != nil {
		t.Error(diff, err)
	}
}

func TestFaultsOfProjectsAreNamed(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`shop: {branch: main}`: `builds.projects.shop`,
		`shop: {repository: "https://ana:secret@git.example.org"}`:    `builds.projects.shop: the repository's URL has a password`,
		`shop: {repository: x, branch: a..b}`:                         `builds.projects.shop: the branch "a..b"`,
		`shop: {repository: x, subdirectory: ../y}`:                   `builds.projects.shop.subdirectory: want a path inside the repository, found "../y"`,
		`"a b": {repository: x}`:                                      `project "a b": want a name`,
		`shop: {repository: x, id: 0}`:                                `builds.projects.shop.id: want a whole number above zero of at most 18 digits, found 0`,
		`shop: {repository: x, id: 1234567890123456789}`:              `builds.projects.shop.id: want a whole number`,
		`shop: {repository: x, id: 0x10}`:                             `builds.projects.shop.id: want a whole number`,
		`shop: {repository: x, id: 4}, tools: {repository: x, id: 4}`: `builds.projects.tools.id: project tools has the same number as project shop`,
		`"4": {repository: x}, tools: {repository: x, id: 4}`:         `builds.projects.tools.id: project tools has the same number as project 4`,
		`tools: {repository: x, id: 4}, "4": {repository: x}`:         `builds.projects.4.id: project 4 has the same number as project tools`,
		`shop: {repo: x}`:                                             `unknown key "repo" in builds.projects.shop`,
	} {
		_, err := config.Read("server.yaml", []byte("builds: {projects: {"+text+"}}"))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestBuildEnginesAreWebhooks(t *testing.T) {
	t.Parallel()
	c, err := config.Read("server.yaml", []byte(`
builds:
  engine: jenkins
  engines:
    jenkins:
      secrets: [{name: token, type: env, env: JENKINS_TOKEN}]
      request: {url: "https://jenkins.example.org/generic-webhook-trigger/invoke", headers: {Authorization: "Bearer {{ .secrets.token }}"}}
    own: {tokens: [own-2, own-3], request: {url: "https://ci.example.org/{{ .parameters.project }}", body: "{{ .parameters.commit }}"}}
  projects:
    shop: {repository: "https://git.example.org/shop.git"}
    tools: {repository: /srv/git/tools.git, engine: own}
    blog: {repository: /srv/git/blog.git, engine: waybill}
`))
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range []struct{ project, asked, want string }{
		{"shop", "", "jenkins"}, {"shop", "own", "own"}, {"shop", "waybill", ""}, {"tools", "", "own"}, {"blog", "", ""},
		{"blog", "jenkins", "jenkins"},
	} {
		if got, err := c.Builds.EngineOf(one.project, one.asked); got != one.want || err != nil {
			t.Errorf("%v: %q, %v", one, got, err)
		}
	}
	if _, err := c.Builds.EngineOf("shop", "jenkin"); err == nil || !strings.Contains(err.Error(), `build engine "jenkin" not found`) {
		t.Error(err)
	}
	for _, one := range []struct {
		engine, token string
		want          bool
	}{{"jenkins", "jenkins", true}, {"jenkins", "own-2", false}, {"own", "own-3", true}, {"own", "own", false},
		{"own", "jenkins", false}, {"removed", "jenkins", false}} {
		if got := c.Builds.MayReport(one.engine, one.token); got != one.want {
			t.Errorf("%v: %v", one, got)
		}
	}
	h := c.Builds.Engines["jenkins"]
	call, err := h.Request.Render(webhook.Data{ID: "1", Secrets: secret.Values{"token": "t"},
		Parameters: map[string]any{"build": 41, "commit": "3f9c2ab"}}, time.Now())
	if err != nil || call.Body != `{"build":41,"commit":"3f9c2ab"}` || call.Method != http.MethodPost ||
		call.Header.Get("Content-Type") != "application/json" ||
		call.Header.Get("Authorization") != "Bearer t" {
		t.Errorf("%+v, %v", call, err)
	}
}

func TestFaultsOfBuildEnginesAreNamed(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`engine: jenkins`: `builds.engine: build engine "jenkins" not found`,
		`projects: {shop: {repository: x, engine: jenkins}}`:                                                     `builds.projects.shop.engine: build engine "jenkins" not found`,
		`engines: {waybill: {request: {url: "https://x.example"}}}`:                                              `build engine "waybill": want a name`,
		`engines: {jenkins: {tokens: jenkins, request: {url: "https://x.example"}}}`:                             `builds.engines.jenkins.tokens`,
		`engines: {jenkins: {request: {url: "https://x.example"}, tokens: [` + strings.Repeat("x,", 101) + `]}}`: `builds.engines.jenkins.tokens: want at most 100`,
		`engines: {jenkins: {}}`: `builds.engines.jenkins`,
		`engines: {jenkins: {request: {url: "https://x.example"}, lane: a}}`:       `unknown key "lane" in builds.engines.jenkins`,
		`engines: {jenkins: {request: {url: "https://x.example/{{ .nothing }}"}}}`: `builds.engines.jenkins.request`,
	} {
		_, err := config.Read("server.yaml", []byte("builds: {"+text+"}"))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
