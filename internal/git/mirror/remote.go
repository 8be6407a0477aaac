package mirror

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/crypto/ssh"
)

// Remote is a repository and the means to reach it.
type Remote struct {
	URL string // https, http or ssh, or user@host:path
	// Scope names the owner of the credentials. Mirrors of one repository in two scopes share nothing.
	Scope              string
	Username, Password string // used with https and http; a token is a password
	Bearer             string // instead of a password: sent as Authorization: Bearer
	CA                 []byte // certificates in PEM, instead of those of the system
	Identity           []byte // private key for ssh
	KnownHosts         []byte // keys of the host, as in ~/.ssh/known_hosts
}

const longestURL = 2048

// location is the parsed form of a remote's URL.
type location struct {
	url  *url.URL // it has a user for ssh only
	port string
}

// isBlank reports whether a character is a blank or a control character.
func isBlank(r rune) bool { return r <= ' ' || r == 0x7f }

// parseURL reads the address of a repository.
func (s *Store) parseURL(text string) (location, error) {
	bad := func(want string) (location, error) {
		return location{}, fatal("BadURL", "the repository's URL %.200q: %s", text, want)
	}
	if text == "" || len(text) > longestURL || strings.ContainsFunc(text, isBlank) {
		return bad("want an address of at most 2048 bytes, without blanks")
	}
	if host, path, ok := strings.Cut(text, ":"); ok && !strings.Contains(text, "://") && !strings.Contains(host, "/") {
		text = "ssh://" + host + "/" + strings.TrimPrefix(path, "/")
	}
	u, err := url.Parse(text)
	if err != nil {
		return bad("want one of https or ssh")
	}
	ports := map[string]string{"https": "443", "ssh": "22"}
	if s.PlainHTTP {
		ports["http"] = "80"
	}
	a := location{u, ports[u.Scheme]}
	if port := u.Port(); port != "" && a.port != "" {
		a.port = port
	}
	switch {
	case u.Scheme == "http" && !s.PlainHTTP:
		return bad("plain HTTP is not allowed here")
	case a.port == "":
		return bad("want one of https or ssh")
	}
	if want := a.fault(); want != "" {
		return bad(want)
	}
	return a, nil
}

// fault describes a part of the address that no repository has, or that git could take for an option; "": none.
func (a location) fault() string {
	u := a.url
	isOption := func(text string) bool { return strings.HasPrefix(text, "-") }
	if _, password := u.User.Password(); password {
		return "it has a password; write it into the Secret"
	}
	switch {
	case u.Hostname() == "" || isOption(u.Hostname()) || u.RawQuery != "" || u.Fragment != "" || u.Opaque != "":
		return "want https://HOST/PATH or ssh://USER@HOST/PATH"
	case isOption(u.User.Username()) || isOption(strings.TrimLeft(u.Path, "/")):
		return "a user or a path may not begin with -"
	}
	return ""
}

// connect checks the remote and collects the settings with which git reaches it, and nothing else.
func (o *session) connect(ctx context.Context) error {
	a, err := o.store.parseURL(o.remote.URL)
	if err != nil {
		return err
	}
	isSSH := a.url.Scheme == "ssh"
	if user := a.url.User; user != nil && !isSSH {
		if o.remote.Username == "" {
			o.remote.Username = user.Username()
		}
		a.url.User = nil
	}
	o.url = a.url.String()
	sum := sha256.Sum256([]byte(o.url + "\x00" + o.remote.Scope))
	o.dir = filepath.Join(o.store.Dir, hex.EncodeToString(sum[:16])+".git")
	o.private = keysOf(o.dir)
	addresses, err := o.resolve(ctx, a)
	switch {
	case err != nil:
		return err
	case isSSH:
		return o.useSSH(a, addresses)
	}
	return o.useHTTP(a, addresses)
}

// resolve returns the addresses of the remote's host that may be reached; none: git looks them up itself.
func (o *session) resolve(ctx context.Context, a location) ([]netip.Addr, error) {
	host := a.url.Hostname()
	if o.store.Check == nil {
		return nil, nil
	}
	if via, err := o.proxyFor(a); err != nil {
		return nil, err
	} else if via != "" { // the proxy looks the name up
		if at, err := netip.ParseAddr(host); err == nil {
			if err := o.store.Check(at); err != nil {
				return nil, fatal("RefusedAddress", "the repository's host: %v", err)
			}
		}
		return nil, nil
	}
	found, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, &Error{Class: Throttle, Text: fmt.Sprintf("look up the repository's host: %v", err)}
	}
	var allowed []netip.Addr
	var refused error
	for _, at := range found {
		if err := o.store.Check(at.Unmap()); err != nil {
			refused = err
			continue
		}
		allowed = append(allowed, at.Unmap())
	}
	if len(allowed) == 0 {
		return nil, fatal("RefusedAddress", "the repository's host: %v", refused)
	}
	return allowed, nil
}

// proxyFor returns the proxy that leads to the remote; "": it is reached directly.
func (o *session) proxyFor(a location) (string, error) {
	if a.url.Scheme == "ssh" {
		return "", nil
	}
	via, err := o.store.Proxy.For(a.url)
	if err != nil {
		return "", &Error{Class: Throttle, Text: fmt.Sprintf("find the proxy of the repository's host: %v", err)}
	}
	if via == nil {
		return "", nil
	}
	return via.String(), nil
}

// useHTTP adds the settings of https and http.
func (o *session) useHTTP(a location, addresses []netip.Addr) error {
	via, err := o.proxyFor(a)
	if err != nil {
		return err
	}
	const follow, proxy = "http.followRedirects", "http.proxy"
	o.set = append(o.set, setting{follow, "false"}, setting{proxy, via}, setting{"http.lowSpeedLimit", "1000"},
		setting{"http.lowSpeedTime", "60"}, setting{"credential.helper", ""}, setting{"http.postBuffer", "16777216"})
	if len(addresses) > 0 {
		texts := make([]string, len(addresses))
		for i, at := range addresses {
			texts[i] = at.String()
			if at.Is6() {
				texts[i] = "[" + texts[i] + "]"
			}
		}
		o.set = append(o.set, setting{"http.curloptResolve", a.url.Hostname() + ":" + a.port + ":" + strings.Join(texts, ",")})
	}
	credential, err := o.remote.authorization()
	if err != nil {
		return err
	}
	if credential != "" {
		o.set = append(o.set, setting{"http." + a.url.Scheme + "://" + a.url.Host + "/.extraHeader", "Authorization: " + credential})
	}
	if len(o.remote.CA) > 0 {
		if !x509.NewCertPool().AppendCertsFromPEM(o.remote.CA) {
			return fatal(BadSecret, "the Secret's caFile has no certificate in PEM form")
		}
		o.set = append(o.set, setting{"http.sslCAInfo", o.keyFile("ca.pem")})
	}
	o.environ = append(o.environ, "GIT_ALLOW_PROTOCOL="+a.url.Scheme)
	return nil
}

// authorization returns the value of the header Authorization; "": none is sent.
func (r Remote) authorization() (string, error) {
	if strings.ContainsAny(r.Username, ":\n\r\x00") || strings.ContainsAny(r.Password+r.Bearer, "\n\r\x00") {
		return "", fatal(BadSecret, "the Secret's user name or password has a line end, or the user name a colon")
	}
	switch {
	case r.Bearer != "":
		return "Bearer " + r.Bearer, nil
	case r.Password != "":
		return "Basic " + base64.StdEncoding.EncodeToString([]byte(r.Username+":"+r.Password)), nil
	}
	return "", nil
}

// useSSH adds the command of ssh, with the one identity and the known keys of the host.
func (o *session) useSSH(a location, addresses []netip.Addr) error {
	if len(o.remote.Identity) == 0 || len(o.remote.KnownHosts) == 0 {
		return fatal(BadSecret, "the Secret needs identity and known_hosts for a repository over ssh")
	}
	if _, err := ssh.ParsePrivateKey(o.remote.Identity); err != nil {
		return fatal(BadSecret, "the Secret's identity: %v", err)
	}
	alias := a.url.Hostname()
	if a.port != "22" {
		alias = "[" + alias + "]:" + a.port
	}
	command := []string{"ssh", "-F", os.DevNull, "-oBatchMode=yes", "-oIdentitiesOnly=yes", "-oIdentityAgent=none",
		"-oStrictHostKeyChecking=yes",
		"-oUpdateHostKeys=no", "-oGlobalKnownHostsFile=" + os.DevNull, "-oConnectTimeout=20",
		"-oServerAliveInterval=15", "-oClearAllForwardings=yes",
		"-oIdentityFile=" + quoteSSH(o.keyFile("identity")), "-oUserKnownHostsFile=" + quoteSSH(o.keyFile("known_hosts")),
		"-oHostKeyAlias=" + alias}
	if len(addresses) > 0 {
		command = append(command, "-oHostName="+addresses[0].String())
	}
	for i, word := range command {
		command[i] = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
	}
	o.environ = append(o.environ, "GIT_ALLOW_PROTOCOL=ssh", "GIT_SSH_VARIANT=ssh", "GIT_SSH_COMMAND="+strings.Join(command, " "))
	return nil
}

// quoteSSH quotes a path for an option of ssh.
func quoteSSH(path string) string { return `"` + strings.ReplaceAll(path, "%", "%%") + `"` }

// keyFile returns the path of a file that the operation has written for git.
func (o *session) keyFile(name string) string { return filepath.Join(o.private, name) }

// writeKeys writes the files of the operation's credentials.
func (o *session) writeKeys(more map[string][]byte) error {
	files := map[string][]byte{"ca.pem": o.remote.CA, "identity": o.remote.Identity, "known_hosts": o.remote.KnownHosts}
	for name, text := range more {
		files[name] = text
	}
	for name, text := range files {
		if len(text) == 0 {
			continue
		}
		if err := os.MkdirAll(o.private, 0o700); err != nil {
			return fmt.Errorf("make a folder for keys: %w", err)
		}
		if name != "ca.pem" && text[len(text)-1] != '\n' { // ssh wants it
			text = append(text[:len(text):len(text)], '\n')
		}
		if err := os.WriteFile(o.keyFile(name), text, 0o600); err != nil {
			return fmt.Errorf("write a key for git: %w", err)
		}
	}
	return nil
}
