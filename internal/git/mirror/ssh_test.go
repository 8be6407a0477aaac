package mirror

import (
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
)

// serveSSH serves the host's repository over ssh to one key, and returns its address and its line for known_hosts.
func (h host) serveSSH(t *testing.T, public string) (address, known string) {
	t.Helper()
	hostKey, err := ssh.NewSignerFromKey(newEd25519(t))
	if err != nil {
		t.Fatal(err)
	}
	config := &ssh.ServerConfig{PublicKeyCallback: func(c ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
		if c.User() != "git" || strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key))) != public {
			return nil, errors.New("unknown key")
		}
		return nil, nil
	}}
	config.AddHostKey(hostKey)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	t.Cleanup(func() {
		_ = listener.Close()
		serving.Wait()
	})
	serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { h.serveConn(conn, config) })
		}
	})
	address = listener.Addr().String()
	return address, knownhosts.Line([]string{knownhosts.Normalize(address)}, hostKey.PublicKey())
}

// serveConn executes Git's services on one connection.
func (h host) serveConn(conn net.Conn, config *ssh.ServerConfig) {
	defer conn.Close()
	_, channels, requests, err := ssh.NewServerConn(conn, config)
	if err != nil {
		return
	}
	go ssh.DiscardRequests(requests)
	for offered := range channels {
		channel, requests, err := offered.Accept()
		if err != nil {
			return
		}
		for r := range requests {
			if r.Type != "exec" {
				_ = r.Reply(r.Type == "env", nil)
				continue
			}
			_ = r.Reply(true, nil)
			service, _, _ := strings.Cut(string(r.Payload[4:]), " ")
			cmd := exec.Command(service, h.Dir)
			cmd.Stdout, cmd.Stderr = channel, channel.Stderr()
			stdin, err := cmd.StdinPipe()
			if err == nil {
				err = cmd.Start()
			}
			if err == nil {
				go func() {
					_, _ = io.Copy(stdin, channel)
					_ = stdin.Close()
				}()
				err = cmd.Wait()
			}
			status := []byte{0, 0, 0, 0}
			if err != nil {
				status[3] = 1
			}
			_, _ = channel.SendRequest("exit-status", false, status)
			_ = channel.Close()
		}
	}
}

func TestProposeOverSSH(t *testing.T) {
	t.Parallel()
	h := newHost(t, fleet())
	key, public := newKey(t, newEd25519(t))
	address, known := h.serveSSH(t, public)
	request := h.request("6.6.0")
	request.Remote = Remote{URL: "ssh://git@" + address + "/fleet.git", Identity: key, KnownHosts: []byte(known)}
	s := open(t)
	if r := propose(t, s, request); !r.Pushed || r.Head != h.Tip(head) {
		t.Errorf("%+v", r)
	}
	other, _ := newKey(t, newEd25519(t))
	for name, change := range map[string]func(*Remote){
		"another key":    func(r *Remote) { r.Identity = other },
		"no key":         func(r *Remote) { r.Identity = nil },
		"no known_hosts": func(r *Remote) { r.KnownHosts = nil },
		"another host key": func(r *Remote) {
			r.KnownHosts = []byte(strings.Replace(known, "AAAAC3NzaC1lZDI1NTE5AAAAI", "AAAAC3NzaC1lZDI1NTE5AAAAIA", 1)[:len(known)])
		},
		"another user":      func(r *Remote) { r.URL = "ssh://root@" + address + "/fleet.git" },
		"not a private key": func(r *Remote) { r.Identity = []byte(public) },
	} {
		wrong := request
		change(&wrong.Remote)
		if _, err := s.Propose(t.Context(), wrong); ClassOf(err) != Fatal {
			t.Errorf("%s: %s %v", name, ClassOf(err), err)
		}
	}
	if left, err := os.ReadDir(s.Dir); err != nil || len(left) > 4 {
		t.Errorf("%v %v", left, err)
	}
}
