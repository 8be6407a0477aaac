package docker

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/distribution/reference"
	"github.com/moby/moby/api/pkg/authconfig"
	"github.com/moby/moby/api/types/registry"

	"github.com/waybill-dev/waybill/internal/file"
)

// The user's configuration of the docker command, and the part that is read of it.
const (
	maxClientConfig = 1 << 20
	helperWithin    = 30 * time.Second
	dockerHub       = "docker.io"
	dockerHubKey    = "https://index.docker.io/v1/" // its name in the configuration
	tokenUser       = "<token>"                     // the user name that a helper gives with a token
)

// clientConfig is config.json of the docker command, which docker login writes.
type clientConfig struct {
	Auths map[string]struct {
		Auth          string `json:"auth"` // base64 of USER:PASSWORD
		IdentityToken string `json:"identitytoken"`
	} `json:"auths"`
	CredsStore  string            `json:"credsStore"`
	CredHelpers map[string]string `json:"credHelpers"` // by registry
}

// credentials returns the credentials that the user's docker command would send to the registry of an image; "" if it
// has none.
func credentials(ctx context.Context, image string) (string, error) {
	named, err := reference.ParseNormalizedNamed(image)
	if err != nil {
		return "", err
	}
	config, err := readClientConfig()
	if err != nil {
		return "", fmt.Errorf("read the configuration of docker: %w", err)
	}
	key := reference.Domain(named)
	if key == dockerHub {
		key = dockerHubKey
	}
	auth, err := config.find(ctx, key)
	if err != nil || auth == (registry.AuthConfig{}) {
		return "", err
	}
	auth.ServerAddress = key
	return authconfig.Encode(auth)
}

func readClientConfig() (c clientConfig, err error) {
	dir := os.Getenv("DOCKER_CONFIG")
	if dir == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return c, nil //nolint:nilerr // a user without a home has none
		}
		dir = filepath.Join(home, ".docker")
	}
	data, err := file.Read(filepath.Join(dir, "config.json"), maxClientConfig)
	if errors.Is(err, fs.ErrNotExist) {
		return c, nil
	} else if err != nil {
		return c, err
	}
	return c, json.Unmarshal(data, &c)
}

// find runs the helper of a registry, else reads the credentials in the configuration itself.
func (c clientConfig) find(ctx context.Context, key string) (auth registry.AuthConfig, err error) {
	helper := c.CredHelpers[key]
	if helper == "" {
		helper = c.CredsStore
	}
	if helper != "" {
		return askHelper(ctx, helper, key)
	}
	entry := c.Auths[key]
	plain, err := base64.StdEncoding.DecodeString(entry.Auth)
	if err != nil {
		return auth, fmt.Errorf("the configuration of docker for %s: %w", key, err)
	}
	auth.Username, auth.Password, _ = strings.Cut(string(plain), ":")
	auth.IdentityToken = entry.IdentityToken
	return auth, nil
}

// askHelper runs a program that keeps credentials, such as docker-credential-pass.
func askHelper(ctx context.Context, helper, key string) (auth registry.AuthConfig, err error) {
	if strings.ContainsAny(helper, `/\`) {
		return auth, fmt.Errorf("the configuration of docker: %q cannot be the name of a helper", helper)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, helperWithin, fmt.Errorf("no answer within %s", helperWithin))
	defer cancel()
	get := exec.CommandContext(ctx, "docker-credential-"+helper, "get") //nolint:gosec // the user's own program
	get.Stdin = strings.NewReader(key)
	get.WaitDelay = time.Second
	out := &bounded{}
	get.Stdout = out
	err = get.Run()
	if err != nil && bytes.Contains(out.Bytes(), []byte("credentials not found")) {
		return auth, nil
	} else if err != nil {
		return auth, fmt.Errorf("ask docker-credential-%s about %s: %w", helper, key, err)
	}
	var answer struct{ Username, Secret string }
	if err := json.Unmarshal(out.Bytes(), &answer); err != nil {
		return auth, fmt.Errorf("ask docker-credential-%s about %s: %w", helper, key, err)
	}
	if answer.Username == tokenUser {
		return registry.AuthConfig{IdentityToken: answer.Secret}, nil
	}
	return registry.AuthConfig{Username: answer.Username, Password: answer.Secret}, nil
}
