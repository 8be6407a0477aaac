package build_test

import (
	"testing"

	"github.com/waybill-dev/waybill/internal/build"
)

func TestRepositoryOf(t *testing.T) {
	t.Parallel()
	for address, want := range map[string][2]string{
		"https://example.net/team/shop.git":                {"team", "shop"},
		"https://user:token@example.net/a/b/shop":          {"a/b", "shop"},
		"https://example.net/team/shop.git/":               {"team", "shop"},
		"git@example.net:team/shop.git":                    {"team", "shop"},
		"example.net:shop":                                 {"", "shop"},
		"ssh://git@example.net:2222/team/shop.git":         {"team", "shop"},
		"git@ssh.dev.azure.com:v3/org/project/shop":        {"org/project", "shop"},
		"https://dev.azure.com/org/My%20Project/_git/shop": {"org/My Project", "shop"},
		"https://org.visualstudio.com/_git/shop":           {"", "shop"},
		"https://example.net/v2ray/core":                   {"v2ray", "core"},
		"https://example.net/v2/shop":                      {"", "shop"},
		"/srv/git/shop.git":                                {"srv/git", "shop"},
		"../shop.git":                                      {"..", "shop"},
		"https://example.net/%zz/team/shop":                {"%zz/team", "shop"},
		"":                                                 {"", ""},
	} {
		if group, name := build.RepositoryOf(address); group != want[0] || name != want[1] {
			t.Errorf("%s: %q, %q, want %q", address, group, name, want)
		}
	}
}
