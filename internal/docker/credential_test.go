package docker

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/moby/moby/api/pkg/authconfig"
)

// TestCredentialsOfTheDockerCommand sets variables of the process, so it has no parallel ones.
func TestCredentialsOfTheDockerCommand(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("DOCKER_CONFIG", dir)
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	helper := `#!/bin/sh
read -r key
case $key in
token.example) echo '{"Username": "<token>", "Secret": "t0ken"}';;
broken.example) echo 'locked' >&2; exit 1;;
odd.example) echo 'odd';;
user.example) echo '{"Username": "ana", "Secret": "from the helper"}';;
*) echo 'credentials not found in native keychain'; exit 1;;
esac
`
	if err := os.WriteFile(filepath.Join(dir, "docker-credential-mine"), []byte(helper), 0o700); err != nil {
		t.Fatal(err)
	}
	const plain = `{"auths": {"https://index.docker.io/v1/": {"auth": "YW5hOnBhc3M6d29yZA=="}, "r.example:5000": {"auth": "YTpi"}, "bad.example": {"auth": "%"}},
		"credHelpers": {"token.example": "mine", "broken.example": "mine", "odd.example": "mine", "user.example": "mine", "none.example": "mine", "path.example": "../mine"}}`
	for _, c := range []struct{ config, image, want string }{
		{"", "shop:1", ""},
		{plain, "shop:1", "ana/pass:word//https://index.docker.io/v1/"},
		{plain, "r.example:5000/team/shop@sha256:" + strings.Repeat("a", 64), "a/b//r.example:5000"},
		{plain, "other.example/shop", ""},
		{plain, "token.example/shop", "//t0ken/token.example"},
		{plain, "user.example/shop", "ana/from the helper//user.example"},
		{plain, "none.example/shop", ""},
		{plain, "broken.example/shop", "error: ask docker-credential-mine about broken.example: exit status 1"},
		{plain, "odd.example/shop", "error: ask docker-credential-mine about odd.example"},
		{plain, "path.example/shop", `error: the configuration of docker: "../mine" cannot be the name of a helper`},
		{plain, "bad.example/shop", "error: the configuration of docker for bad.example"},
		{`{"credsStore": "mine"}`, "user.example/shop", "ana/from the helper//user.example"},
		{`{`, "shop", "error: read the configuration of docker"},
	} {
		path := filepath.Join(dir, "config.json")
		_ = os.Remove(path) // the first time it is not there
		if c.config != "" {
			if err := os.WriteFile(path, []byte(c.config), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		got := ""
		encoded, err := credentials(t.Context(), c.image)
		if err != nil {
			got = "error: " + err.Error()
		} else if encoded != "" {
			auth, err := authconfig.Decode(encoded)
			if err != nil {
				t.Fatal(err)
			}
			got = strings.Join([]string{auth.Username, auth.Password, auth.IdentityToken, auth.ServerAddress}, "/")
		}
		if got != c.want && !(strings.HasPrefix(c.want, "error") && strings.HasPrefix(got, c.want)) {
			t.Errorf("%s: got %q, want %q", c.image, got, c.want)
		}
	}
}
