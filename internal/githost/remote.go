package githost

import (
	"context"
	"strings"

	"github.com/waybill-dev/waybill/internal/git/mirror"
)

// The keys of a Secret for Git alone.
const (
	KeyIdentity   = "identity" // private key for ssh
	KeyKnownHosts = "known_hosts"
	KeySigning    = "signingKey" // signs commits
)

// KeysOf returns the data of a Secret as keys for Open, without the line ends that editors leave after names, passwords and tokens.
func KeysOf(data map[string][]byte) map[string]string {
	keys := make(map[string]string, len(data))
	for key, value := range data {
		text := string(value)
		switch key {
		case KeyUsername, KeyPassword, KeyToken, KeyAppID, KeyInstallationID:
			text = strings.TrimRight(text, "\r\n")
		}
		keys[key] = text
	}
	return keys
}

// Remote returns the repository as Git reaches it. scope names the owner of the credential, such as the Secret. The tokens of GitHub Apps
// end after an hour, so get one before each use.
func (c *Client) Remote(ctx context.Context, scope string) (mirror.Remote, error) {
	r := mirror.Remote{URL: c.host.URL, Scope: scope, CA: []byte(c.keys[KeyCA]), Identity: []byte(c.keys[KeyIdentity]),
		KnownHosts: []byte(c.keys[KeyKnownHosts])}
	if c.keys[KeyIdentity] != "" {
		return r, nil
	}
	auth, err := c.GitAuth(ctx)
	r.Username, r.Password, r.Bearer = auth.Username, auth.Password, auth.Bearer
	return r, err
}
