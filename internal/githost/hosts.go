package githost

import (
	"cmp"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/obs"
	"github.com/waybill-dev/waybill/internal/promotion"
	"github.com/waybill-dev/waybill/internal/secret"
	"github.com/waybill-dev/waybill/internal/webhook"
)

// Types of hosts, as promotion.Host has them.
const (
	GitHub          = "github"
	GitLab          = "gitlab"
	Gitea           = "gitea"
	Forgejo         = "forgejo"
	BitbucketServer = "bitbucket-server"
	BitbucketCloud  = "bitbucket-cloud"
	AzureDevOps     = "azure-devops"
)

// The keys of a Secret that this package reads.
const (
	KeyUsername       = "username"
	KeyPassword       = "password"
	KeyToken          = "token"
	KeyCA             = "caFile" // certificates of authorities, PEM
	KeyAppID          = "githubAppID"
	KeyInstallationID = "githubAppInstallationID"
	KeyAppPrivateKey  = "githubAppPrivateKey"
)

// maxToken is the size in bytes of the largest credential.
const maxToken = 4 << 10

// Options configures Hosts.
type Options struct {
	// Guard restricts addresses. Git hosts are often in private networks: allow webhook.Private there.
	Guard     webhook.Guard
	Proxy     webhook.Proxy
	PlainHTTP bool          // hosts may be reached without TLS
	Pause     time.Duration // between two writes with one credential; 0 (default): 1 s, as GitHub wants
	Metrics   *obs.GitHost  // nil (default): none
}

// maxAccounts is the number of credentials whose connections and memory are kept.
const maxAccounts = 1000

// Hosts opens clients. Clients with the same credential share its connections, pace and tokens. Safe for concurrent use.
type Hosts struct {
	options Options

	mu       sync.Mutex
	accounts map[string]*account
}

// NewHosts returns Hosts.
func NewHosts(o Options) *Hosts {
	o.Pause = cmp.Or(o.Pause, time.Second)
	return &Hosts{options: o, accounts: map[string]*account{}}
}

// Close ends idle connections.
func (h *Hosts) Close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, a := range h.accounts {
		a.http.Close()
	}
}

// Open returns a client of a repository. keys are those of its Secret. It makes no request. An error is permanent until
// host or keys change; its code is fault.Invalid.
func (h *Hosts) Open(host promotion.Host, keys map[string]string) (*Client, error) {
	at, err := parseRepository(host)
	if err != nil {
		return nil, fault.New(fault.Invalid, "url of the repository: %w", err)
	}
	if at.api.Scheme != "https" && !h.options.PlainHTTP {
		return nil, fault.New(fault.Invalid, "%s has no TLS, and reaching hosts without it is not allowed", at.api.Host)
	}
	keys = trimmed(keys)
	if err := checkKeys(keys); err != nil {
		return nil, err
	}
	a, err := h.account(host.Type, at, keys)
	if err != nil {
		return nil, err
	}
	c := &Client{account: a, host: host, at: at, keys: keys}
	c.driver, err = newDriver(c)
	return c, err
}

// lineKeys are the keys whose values are one line each.
var lineKeys = []string{KeyUsername, KeyPassword, KeyToken, KeyAppID, KeyInstallationID}

// trimmed returns the keys without the line breaks with which files end.
func trimmed(keys map[string]string) map[string]string {
	out := maps.Clone(keys)
	for _, name := range lineKeys {
		if value, ok := out[name]; ok {
			out[name] = strings.TrimRight(value, "\r\n")
		}
	}
	return out
}

// checkKeys refuses credentials that no host accepts.
func checkKeys(keys map[string]string) error {
	for _, name := range lineKeys {
		if len(keys[name]) > maxToken {
			return fault.New(fault.Invalid, "key %s of the Secret has more than %d bytes", name, maxToken)
		}
		for _, r := range keys[name] {
			if r < ' ' || r == 0x7f {
				return fault.New(fault.Invalid, "key %s of the Secret has a line break or another control character", name)
			}
		}
	}
	return nil
}

// account returns the account of a credential.
func (h *Hosts) account(kind string, at repository, keys map[string]string) (*account, error) {
	scope := at.api.String()
	if keys[KeyAppID] != "" {
		scope += " " + at.owner // its token is that of one installation
	}
	id, err := fingerprint(kind, scope, keys)
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if a, ok := h.accounts[id]; ok {
		return a, nil
	}
	config := webhook.ClientConfig{Guard: h.options.Guard, Proxy: h.options.Proxy}
	if pem := keys[KeyCA]; pem != "" {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM([]byte(pem)) {
			return nil, fault.New(fault.Invalid, "key %s of the Secret has no certificate in PEM form", KeyCA)
		}
	}
	a := &account{http: webhook.NewClient(config), api: at.api, pace: newPace(h.options.Pause), metrics: h.options.Metrics,
		redactor: secretKeys(keys).Redactor()}
	if err := authenticate(a, kind, at, keys); err != nil {
		return nil, fault.New(fault.Invalid, "%w", err)
	}
	if len(h.accounts) >= maxAccounts {
		for old, forgotten := range h.accounts {
			forgotten.http.Close()
			delete(h.accounts, old)
			break
		}
	}
	h.accounts[id] = a
	return a, nil
}

// secretKeys returns the values that no message may contain.
func secretKeys(keys map[string]string) secret.Values {
	values := secret.Values{}
	for _, name := range []string{KeyPassword, KeyToken, KeyAppPrivateKey} {
		if keys[name] != "" {
			values[name] = keys[name]
		}
	}
	return values
}

// fingerprint identifies a credential at a host without containing it.
func fingerprint(kind, scope string, keys map[string]string) (string, error) {
	encoded, err := json.Marshal([]any{kind, scope, keys})
	if err != nil {
		return "", fmt.Errorf("read the Secret: %w", err)
	}
	sum := sha256.Sum256(encoded)
	return hex.EncodeToString(sum[:]), nil
}

var errNoCredential = errors.New("the Secret has neither a token nor a username with a password")
