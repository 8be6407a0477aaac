//go:build services

package ssh_test

import (
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/ssh"
	"github.com/waybill-dev/waybill/internal/ssh/sshtest"
)

// TestManyHostsAreBehindOneJumpHost: as a deployment does it, each host is in use, and then asked over a connection
// of its own whether it is still reached. Fewer are dialed at a time than wait for the jump host.
func TestManyHostsAreBehindOneJumpHost(t *testing.T) {
	t.Parallel()
	const hosts, atOnce = 12, 10
	bastion := sshtest.Start(t)
	jump := ssh.Target{Address: bastion.Address, User: bastion.User, HostKey: bastion.Fingerprint(), Identity: bastion.Key}
	p := ssh.NewPool(ssh.Config{Dials: 2})
	t.Cleanup(p.Close)
	slots := make(chan struct{}, atOnce)
	var all sync.WaitGroup
	for i := range hosts {
		s := sshtest.Start(t)
		target := ssh.Target{Address: s.Address, User: s.User, HostKey: s.Fingerprint(), Identity: s.Key, Jump: &jump}
		all.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			for _, line := range []string{"switch", "confirm"} {
				h, err := p.Host(t.Context(), target)
				if err != nil {
					t.Errorf("%s on host %d: %v", line, i, err)
					return
				}
				defer h.Close()
				if out, _ := shell(t, h, "echo "+line); out != line+"\n" {
					t.Errorf("%s on host %d: %q", line, i, out)
				}
				p.Forget(target)
			}
		})
	}
	all.Wait()
	if n := bastion.Accepted(); n != 1 {
		t.Errorf("%d connections to the jump host, want 1", n)
	}
}

// TestAHostThatTheJumpHostDoesNotReach: the error names both ends, and passes; without forwarding it does not pass.
func TestAHostThatTheJumpHostDoesNotReach(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	away := l.Addr().String()
	_ = l.Close()
	for config, permanent := range map[string]bool{"AllowTcpForwarding yes": false, "AllowTcpForwarding no": true} {
		bastion := sshtest.Start(t, config)
		p, jump := reach(t, bastion)
		_, err := p.Host(t.Context(), ssh.Target{Address: away, User: jump.User, HostKey: bastion.Fingerprint(),
			Identity: jump.Identity, Jump: &jump})
		if fault.IsPermanent(err) != permanent || !strings.Contains(fmt.Sprint(err), "jump host "+bastion.Address) ||
			!strings.Contains(err.Error(), away) {
			t.Errorf("%s: permanent %v: %v", config, fault.IsPermanent(err), err)
		}
	}
}

// TestAServerAllowsFewerSessions than a connection would have: commands take turns.
func TestAServerAllowsFewerSessions(t *testing.T) {
	t.Parallel()
	s := sshtest.Start(t, "MaxSessions 1")
	h := hostOf(t, s)
	var all sync.WaitGroup
	for range 12 {
		all.Go(func() {
			if exit, err := h.Run(t.Context(), []string{"true"}, nil, nil, nil); exit != 0 || err != nil {
				t.Errorf("%d, %v", exit, err)
			}
		})
	}
	all.Wait()
	if n := s.Accepted(); n != 1 {
		t.Errorf("%d connections, want 1", n)
	}
	none := sshtest.Start(t, "MaxSessions 0")
	if _, err := hostOf(t, none).Run(t.Context(), []string{"true"}, nil, nil, nil); !strings.Contains(fmt.Sprint(err), "refuses a session") {
		t.Errorf("a server without sessions: %v", err)
	}
}
