package definition

import (
	"encoding/base64"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"github.com/waybill-dev/waybill/internal/document"
	"github.com/waybill-dev/waybill/internal/pipeline"
)

// account holds the parts of an ssh URL that hosts may leave out.
type account struct {
	user string
	port int
}

// defaultPort is the port of ssh.
const defaultPort = 22

// reach reads how ssh hosts are reached.
func (r *reader) reach(n *document.Node) *pipeline.SSH {
	r.ssh = account{user: n.Str("user"), port: r.whole(n.Get("port"), "ssh.port", defaultPort, 1, 65535)}
	if n == nil {
		return nil
	}
	if user := n.Get("user"); user != nil {
		r.user(user, r.ssh.user, "ssh.user")
	}
	s := &pipeline.SSH{Identity: n.Str("identity"), KnownHosts: n.Str("knownHosts"),
		JumpKey: r.fingerprint(n.Get("jumpKey"), "ssh.jumpKey"), Sudo: isTrue(n.Get("sudo"))}
	for _, key := range []string{"identity", "knownHosts"} {
		if file := n.Get(key); file != nil && hasControl(file.Text) {
			r.Add(file, "bad-path", "ssh."+key, "ssh.%s %q: want a file", key, file.Text)
		}
	}
	if jump := n.Get("jump"); jump != nil && jump.Kind == document.String {
		u, err := url.Parse(jump.Text)
		if err == nil && u.Scheme == "ssh" {
			_, s.Jump = r.sshURL(jump, u, jump.Text, "ssh.jump")
		}
		if s.Jump == "" {
			r.Add(jump, "bad-url", "ssh.jump", "want ssh://[user@]host[:port]")
		}
	}
	return s
}

// sshURL returns the name of an ssh host and its URL with user and port. Both are empty when the URL names no host.
func (r *reader) sshURL(n *document.Node, u *url.URL, text, at string) (name, stored string) {
	if u.Scheme != "ssh" {
		var err error
		if u, err = url.Parse("ssh://" + text); err != nil { // "x" is short for ssh://x
			return "", ""
		}
	}
	host := u.Hostname()
	if _, password := u.User.Password(); password {
		r.Add(n, "bad-url", at, "the URL has a password: ssh hosts are entered with keys")
		return host, text
	}
	number := portOf(u, r.ssh.port)
	if !namesHost(u) || number == 0 {
		return "", ""
	}
	user := r.ssh.user
	if u.User != nil {
		user = u.User.Username()
		r.user(n, user, at)
	} else if user == "" {
		r.Add(n, "bad-url", at, "%s needs a user: ssh://user@%s, or ssh.user for all hosts", host, host)
	}
	return strings.ReplaceAll(host, ":", "-"), "ssh://" + user + "@" + joinPort(strings.ToLower(host), number)
}

// isAddress reports whether a host is written as an IP address.
func isAddress(host string) bool {
	_, err := netip.ParseAddr(host)
	return err == nil
}

// joinPort returns HOST:PORT, with an IPv6 address in brackets.
func joinPort(host string, port int) string {
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	return host + ":" + strconv.Itoa(port)
}

// namesHost reports whether a URL names a host and has nothing behind its address.
func namesHost(u *url.URL) bool {
	host := u.Hostname()
	bare := u.RawQuery == "" && u.Fragment == "" && u.Opaque == "" && strings.Trim(u.Path, "/") == ""
	return bare && host != "" && host[0] != '-' && (validName(host) || isAddress(host))
}

// portOf returns the port in a URL, or the standard one; 0 if it is not a port.
func portOf(u *url.URL, standard int) int {
	if u.Port() == "" {
		return standard
	}
	number, err := strconv.Atoi(u.Port())
	if err != nil || number < 1 || number > 65535 {
		return 0
	}
	return number
}

// user reports a name that no account has.
func (r *reader) user(n *document.Node, name, at string) {
	if !validUser(name) {
		r.Add(n, "bad-name", at, "user %q: letters, digits, \".\", \"_\" and \"-\" only", name)
	}
}

// validUser reports whether a text is the name of an account.
func validUser(name string) bool {
	if name == "" || len(name) > 64 || name[0] == '-' {
		return false
	}
	for _, c := range name {
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '_' || c == '-') {
			return false
		}
	}
	return true
}

// fingerprint reads the fingerprint of a host key, as ssh-keygen -l prints it.
func (r *reader) fingerprint(n *document.Node, at string) string {
	if n == nil || n.Kind != document.String {
		return ""
	}
	digest, ok := strings.CutPrefix(n.Text, "SHA256:")
	if raw, err := base64.RawStdEncoding.DecodeString(digest); !ok || err != nil || len(raw) != 32 {
		r.Add(n, "bad-key", at, "want the fingerprint of the host's key, SHA256: and 43 characters, as ssh-keygen -l prints it")
	}
	return n.Text
}
