package assembly

import (
	"fmt"
	"path/filepath"

	"github.com/waybill-dev/waybill/internal/conductor/handler/step"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/ssh"
)

// ownKeys are the private keys in ~/.ssh that are tried for ssh hosts whose definition names none.
var ownKeys = []string{"id_ed25519", "id_ecdsa", "id_rsa"}

// mostDials bounds --ssh-dials.
const mostDials = 1000

// Hosts returns how this process reaches hosts: those of a home, and ssh hosts of a definition whose
// files count from dir. Nothing is dialed yet.
func (p Place) Hosts(h Home, dir string) (*step.Hosts, error) {
	home, err := filepath.Abs(h.Dir)
	if err != nil {
		return nil, fmt.Errorf("find the home: %w", err)
	}
	if n := p.Flags.SSHDials; n < 0 || n > mostDials {
		return nil, fault.New(fault.Invalid, "--ssh-dials is %d, want 1 to %d", n, mostDials)
	}
	c := ssh.Config{Dials: p.Flags.SSHDials, Agent: p.Environment("SSH_AUTH_SOCK")}
	if user := p.Environment("HOME"); user != "" {
		for _, name := range ownKeys {
			c.Identities = append(c.Identities, filepath.Join(user, ".ssh", name))
		}
	}
	return &step.Hosts{Home: home, Dir: dir, SSH: ssh.NewPool(c)}, nil
}
