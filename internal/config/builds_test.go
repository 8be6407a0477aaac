package config_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/config"
)

func TestProjectsAreRead(t *testing.T) {
	t.Parallel()
	c, err := config.Read("server.yaml", []byte(`
builds:
  projects:
    shop: {repository: "https://git.example.org/shop.git", branch: main, subdirectory: app, credential: github}
    tools: {repository: /srv/git/tools.git}
`))
	want := map[string]config.Project{
		"shop":  {Repository: "https://git.example.org/shop.git", Branch: "main", Subdirectory: "app", Credential: "github"},
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
		`shop: {repository: "https://ana:secret@git.example.org"}`: `builds.projects.shop: the repository's URL has a password`,
		`shop: {repository: x, branch: a..b}`:                      `builds.projects.shop: the branch "a..b"`,
		`shop: {repository: x, subdirectory: ../y}`:                `builds.projects.shop.subdirectory: want a path inside the repository, found "../y"`,
		`"a b": {repository: x}`:                                   `project "a b": want a name`,
		`shop: {repo: x}`:                                          `unknown key "repo" in builds.projects.shop`,
	} {
		_, err := config.Read("server.yaml", []byte("builds: {projects: {"+text+"}}"))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
