package step

import (
	"context"
	"io"
	"net"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/ssh"
)

// remote is an account on another machine. It borrows a connection for each command, so that an
// attempt may outlive a connection.
type remote struct {
	pool   *ssh.Pool
	target ssh.Target
	sudo   bool // commands run as root
}

func (r *remote) Run(ctx context.Context, argv []string, stdin io.Reader, stdout, stderr io.Writer) (int, error) {
	h, err := r.pool.Host(ctx, r.target)
	if err != nil {
		return -1, err
	}
	defer h.Close()
	if r.sudo {
		argv = append([]string{"sudo", "-n", "--"}, argv...)
	}
	return h.Run(ctx, argv, stdin, stdout, stderr)
}

func (r *remote) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	h, err := r.pool.Host(ctx, r.target)
	if err != nil {
		return nil, err
	}
	conn, err := h.Dial(ctx, network, address)
	if err != nil {
		_ = h.Close()
		return nil, err
	}
	return &borrowed{conn, h}, nil
}

// Renew makes the next command use a new connection.
func (r *remote) Renew() { r.pool.Forget(r.target) }

// Close does nothing: there is no connection between two commands.
func (r *remote) Close() error { return nil }

// borrowed is a connection through a host, which it gives back when it is closed.
type borrowed struct {
	net.Conn
	host *ssh.Host
}

func (b *borrowed) Close() error {
	defer b.host.Close()
	return b.Conn.Close()
}

// Folders of services on ssh hosts that name no root: the first from the home of the account.
const (
	accountRoot = "waybill"
	sudoRoot    = "/opt"
)

// connectSSH returns an ssh host and the folder of the service on it.
func (h *Hosts) connectSSH(at pipeline.Place, service string) (Host, string, error) {
	if h.SSH == nil {
		return nil, "", fault.Permanent(fault.New(fault.Unavailable, "host %s: this process reaches no ssh hosts", at.Host.Name))
	}
	target, err := h.Account(at)
	if err != nil {
		return nil, "", err
	}
	root, sudo := at.Host.Root, at.SSH != nil && at.SSH.Sudo
	switch {
	case root != "":
	case sudo:
		root = sudoRoot
	default:
		root = accountRoot
	}
	return &remote{pool: h.SSH, target: target, sudo: sudo}, path.Join(root, service), nil
}

// Account returns how an ssh host is reached.
func (h *Hosts) Account(at pipeline.Place) (ssh.Target, error) {
	var s pipeline.SSH
	if at.SSH != nil {
		s = *at.SSH
	}
	known := filepath.Join(h.Home, "known_hosts")
	if s.KnownHosts != "" {
		known = expand(s.KnownHosts, h.Dir)
	}
	target := ssh.Target{HostKey: at.Host.HostKey, KnownHosts: known, Identity: expand(s.Identity, h.Dir)}
	var err error
	if target.User, target.Address, err = accountOf(at.Host.URL); err != nil || s.Jump == "" {
		return target, err
	}
	jump := target
	jump.HostKey = s.JumpKey
	jump.User, jump.Address, err = accountOf(s.Jump)
	if jump.Address != target.Address { // the jump host may be a host of the pipeline as well
		target.Jump = &jump
	}
	return target, err
}

// accountOf returns the user and the address HOST:PORT of a URL as definitions store it.
func accountOf(text string) (user, address string, err error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "ssh" || u.User == nil || u.Port() == "" {
		return "", "", fault.Permanent(fault.New(fault.Invalid, "%s is not ssh://user@host:port", text))
	}
	return u.User.Username(), u.Host, nil
}

// expand returns the path of a file that a definition names; "" stays.
func expand(file, dir string) string {
	rest, ofHome := strings.CutPrefix(file, "~/")
	home, err := os.UserHomeDir()
	switch {
	case file == "" || filepath.IsAbs(file):
		return file
	case ofHome && err == nil:
		return filepath.Join(home, rest)
	}
	return filepath.Join(dir, file)
}
