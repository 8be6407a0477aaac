package githost

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// authenticate sets the credential that an account sends.
func authenticate(a *account, kind string, at repository, keys map[string]string) error {
	token, user, password := keys[KeyToken], keys[KeyUsername], keys[KeyPassword]
	fixed := func(value string) error {
		a.auth = func(context.Context) (string, error) { return value, nil }
		return nil
	}
	switch {
	case kind == GitHub && keys[KeyAppID] != "":
		return a.authenticateApp(at, keys)
	case token == "" && (user == "" || password == ""):
		return errNoCredential
	case token == "":
		return fixed(basic(user, password))
	}
	switch kind {
	case Gitea, Forgejo:
		return fixed("token " + token)
	case GitLab:
		a.header = http.Header{"Private-Token": {token}}
		return fixed("")
	case BitbucketCloud:
		if user != "" {
			return fixed(basic(user, token))
		}
	case AzureDevOps:
		if !isJWT(token) {
			return fixed(basic("", token))
		}
	}
	return fixed("Bearer " + token)
}

func basic(user, password string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))
}

// isJWT reports whether a token is one of Microsoft Entra, and not a personal token.
func isJWT(token string) bool {
	return strings.HasPrefix(token, "eyJ") && strings.Count(token, ".") == 2
}

// GitAuth is the credential with which Git reads and writes a repository over HTTP.
type GitAuth struct {
	Username, Password string
	Bearer             string // if not "": the header Authorization has Bearer and this, instead of a password
}

// GitAuth returns the credential for Git. The tokens of GitHub Apps end after an hour, so get one before each use.
func (c *Client) GitAuth(ctx context.Context) (GitAuth, error) {
	token, user, password := c.keys[KeyToken], c.keys[KeyUsername], c.keys[KeyPassword]
	switch {
	case c.host.Type == GitHub && c.keys[KeyAppID] != "":
		credential, err := c.account.auth(ctx)
		return GitAuth{Username: "x-access-token", Password: strings.TrimPrefix(credential, "Bearer ")}, err
	case token == "":
		return GitAuth{Username: user, Password: password}, nil
	}
	switch c.host.Type {
	case GitHub:
		user = "x-access-token"
	case BitbucketCloud:
		if user != "" {
			user = "x-bitbucket-api-token-auth"
		} else {
			user = "x-token-auth"
		}
	case BitbucketServer:
		if user == "" {
			return GitAuth{Bearer: token}, nil
		}
	case AzureDevOps:
		if isJWT(token) {
			return GitAuth{Bearer: token}, nil
		}
	}
	if user == "" {
		user = "waybill" // the token alone counts
	}
	return GitAuth{Username: user, Password: token}, nil
}

var errAppKey = errors.New("key " + KeyAppPrivateKey + " of the Secret is not an RSA private key in PEM form")

// identifier refuses a number of GitHub's that is not one, since it becomes part of an address.
func identifier(name, text string) error {
	if text == "" || len(text) > 20 || strings.Trim(text, "0123456789") != "" {
		return fmt.Errorf("key %s of the Secret is not a number", name)
	}
	return nil
}
