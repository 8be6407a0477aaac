package githost

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
)

// tokenLeft is the time before its end at which an installation's token is not used any more.
const tokenLeft = 5 * time.Minute

// tokens holds the present token of a GitHub App's installation. Safe for concurrent use.
type tokens struct {
	getting sync.Mutex // held while a token is requested
	number  string     // number of the installation; guarded by getting

	mu          sync.Mutex
	value       string
	until       time.Time
	permissions map[string]string // permissions of the installation
}

// granted returns the permissions of the present token; nil: there is none.
func (t *tokens) granted() map[string]string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.permissions
}

// forget drops a token that the host refuses.
func (t *tokens) forget() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.value = ""
}

func (t *tokens) get(now time.Time) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.until.Sub(now) < tokenLeft {
		return ""
	}
	return t.value
}

func (t *tokens) set(value string, until time.Time, permissions map[string]string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.value, t.until, t.permissions = value, until, permissions
}

// authenticateApp makes an account act as the installation of a GitHub App: it signs a JSON Web Token, which it exchanges
// against a token of the installation, which ends after an hour.
func (a *account) authenticateApp(at repository, keys map[string]string) error {
	app := keys[KeyAppID]
	// An App is named by its number or by its client id.
	if len(app) > 64 || strings.ContainsFunc(app, func(r rune) bool { return r <= ' ' || r == '"' || r == '\\' || r > '~' }) {
		return fmt.Errorf("key %s of the Secret is not the number or the client id of an App", KeyAppID)
	}
	key, err := parseAppKey(keys[KeyAppPrivateKey])
	if err != nil {
		return err
	}
	if number := keys[KeyInstallationID]; number != "" {
		if err := identifier(KeyInstallationID, number); err != nil {
			return err
		}
		a.tokens.number = number
	}
	a.auth = func(ctx context.Context) (string, error) {
		a.tokens.getting.Lock()
		defer a.tokens.getting.Unlock()
		if token := a.tokens.get(time.Now()); token != "" {
			return "Bearer " + token, nil
		}
		jwt, err := signJWT(app, key, time.Now())
		if err != nil {
			return "", err
		}
		return a.install(ctx, at, jwt)
	}
	return nil
}

// install gets a token of the installation.
func (a *account) install(ctx context.Context, at repository, jwt string) (string, error) {
	const doing = "get a token of the GitHub App"
	header := http.Header{"Authorization": {"Bearer " + jwt}}
	if a.tokens.number == "" {
		var installation struct {
			ID json.Number `json:"id"`
		}
		_, err := a.do(ctx, request{doing: doing, op: "token", bare: true, header: header,
			path: "/repos/" + url.PathEscape(at.owner) + "/" + url.PathEscape(at.name) + "/installation"}, &installation)
		if err != nil {
			return "", err
		}
		if err := identifier("id", installation.ID.String()); err != nil {
			return "", fatal("no_installation", doing, "the App is not installed for %s", at.owner)
		}
		a.tokens.number = installation.ID.String()
	}
	var token struct {
		Token     string    `json:"token"`
		ExpiresAt time.Time `json:"expires_at"`
		// Permissions are those that the owner has accepted, such as contents: write.
		Permissions map[string]string `json:"permissions"`
	}
	_, err := a.do(ctx, request{doing: doing, op: "token", method: http.MethodPost, bare: true, header: header,
		path: "/app/installations/" + a.tokens.number + "/access_tokens"}, &token)
	if err != nil {
		return "", err
	}
	if token.Token == "" || len(token.Token) > maxToken {
		return "", &Error{Kind: action.Retry, Code: "no_token", Doing: doing, Message: "the host's answer has no token"}
	}
	a.tokens.set(token.Token, token.ExpiresAt, token.Permissions)
	return "Bearer " + token.Token, nil
}

// parseAppKey reads an RSA key in the forms PKCS #1, which GitHub hands out, and PKCS #8.
func parseAppKey(text string) (*rsa.PrivateKey, error) {
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		return nil, errAppKey
	}
	if key, err := x509.ParsePKCS1PrivateKey(block.Bytes); err == nil {
		return key, nil
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, errAppKey
	}
	key, ok := parsed.(*rsa.PrivateKey)
	if !ok {
		return nil, errAppKey
	}
	return key, nil
}

// signJWT returns a JSON Web Token (RFC 7519, RS256) of an App. GitHub accepts at most ten minutes; the beginning is in
// the past, since clocks differ.
func signJWT(app string, key *rsa.PrivateKey, now time.Time) (string, error) {
	claims, err := json.Marshal(map[string]any{"iat": now.Add(-time.Minute).Unix(), "exp": now.Add(9 * time.Minute).Unix(), "iss": app})
	if err != nil {
		return "", fmt.Errorf("sign as the GitHub App: %w", err)
	}
	encode := base64.RawURLEncoding.EncodeToString
	content := encode([]byte(`{"alg":"RS256","typ":"JWT"}`)) + "." + encode(claims)
	sum := sha256.Sum256([]byte(content))
	signature, err := rsa.SignPKCS1v15(rand.Reader, key, crypto.SHA256, sum[:])
	if err != nil {
		return "", fmt.Errorf("sign as the GitHub App: %w", err)
	}
	return content + "." + encode(signature), nil
}
