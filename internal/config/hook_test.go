package config_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/internal/config"
)

func TestHooksOfGitHostsAreRead(t *testing.T) {
	t.Parallel()
	c, err := config.Read("/etc/waybill/server.yaml", []byte(`promoter:
  hooks:
  - {name: fleet, type: gitea, secretFile: fleet-hook}
  - {name: apps, type: azure-devops, secretEnv: APPS_HOOK}
`))
	if err != nil {
		t.Fatal(err)
	}
	fleet, apps := c.Promoter.Hooks["fleet"], c.Promoter.Hooks["apps"]
	if fleet.Type != "gitea" || fleet.Secret.Path != filepath.Join("/etc/waybill", "fleet-hook") || apps.Type != "azure-devops" || apps.Secret.Env != "APPS_HOOK" {
		t.Errorf("hooks: %+v", c.Promoter.Hooks)
	}
}

func TestFaultsOfHooksNameTheirPlace(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{name: a, type: svn, secretEnv: A}`:                                          `promoter.hooks[0].type: "svn" is none of github, gitlab`,
		`{name: a/b, type: gitea, secretEnv: A}`:                                      `promoter.hooks[0].name: hook "a/b": want a name`,
		`{name: a, type: gitea}`:                                                      `promoter.hooks[0]: a hook has either secretFile or secretEnv`,
		`{name: a, type: gitea, secretEnv: A, secretFile: b}`:                         `promoter.hooks[0]: a hook has either secretFile or secretEnv`,
		`{name: a, type: gitea, secretEnv: A}, {name: a, type: github, secretEnv: A}`: `promoter.hooks[1].name: "a" is named twice`,
		strings.Repeat(`{name: a, type: gitea, secretEnv: A},`, 101):                  "promoter.hooks: 101 hooks, at most 100",
	} {
		_, err := config.Read("server.yaml", []byte("promoter: {hooks: ["+text+"]}\n"))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80s: %v; want %s", text, err, want)
		}
	}
}
