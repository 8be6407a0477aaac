package step

import (
	"context"
	"io"
	"net"
	"net/url"
	"path/filepath"

	"github.com/waybill-dev/waybill/internal/command"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/ssh"
)

// Host is a computer that runs services. Whatever must be atomic on it is done by the host program.
type Host interface {
	// Run runs argv to its end and returns its exit status. An error is about the way to the host,
	// not about argv. When ctx ends first, Run returns its cause and argv continues without its
	// streams.
	Run(ctx context.Context, argv []string, stdin io.Reader, stdout, stderr io.Writer) (exit int, err error)
	// Dial connects to an address as the host itself sees it.
	Dial(ctx context.Context, network, address string) (net.Conn, error)
	// Close gives the connection back.
	Close() error
}

// Hosts reaches the hosts of definitions: folders of this machine, and accounts on others.
type Hosts struct {
	Home string    // local://NAME is hosts/NAME in it, and known_hosts in it has the keys of ssh hosts; absolute
	Dir  string    // relative files of ssh count from here; absolute
	SSH  *ssh.Pool // connections to ssh hosts; nil: they are not known
	Env  []string  // environment of commands on local hosts; nil: PATH, HOME and the like of this process
}

// connect returns a host and the folder of the service on it. It dials nothing.
func (h *Hosts) connect(at pipeline.Place, service string) (Host, string, error) {
	if at.Host.Remote() {
		return h.connectSSH(at, service)
	}
	dir, err := localDir(h.Home, *at.Host)
	if err != nil {
		return nil, "", err
	}
	return &command.Local{Env: h.Env}, filepath.Join(dir, service), nil
}

// localDir returns the folder that holds the services of a local host.
func localDir(home string, h pipeline.Host) (string, error) {
	u, err := url.Parse(h.URL)
	if err != nil || u.Scheme != "local" {
		return "", fault.Permanent(fault.New(fault.Invalid, "host %q: %s is not a local host", h.Name, h.URL))
	}
	dir := u.Path
	if u.Host != "" {
		dir = filepath.Join(home, "hosts", u.Host)
	}
	if filepath.IsAbs(h.Root) {
		return h.Root, nil
	}
	return filepath.Join(dir, h.Root), nil
}
