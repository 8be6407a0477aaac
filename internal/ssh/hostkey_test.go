//go:build services

package ssh_test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/ssh"
	"github.com/waybill-dev/waybill/internal/ssh/sshtest"
)

// manyKeys starts a server that has a key of each kind, and returns their fingerprints by kind.
func manyKeys(t *testing.T) (*sshtest.Server, map[string]string) {
	t.Helper()
	dir, config, prints := t.TempDir(), []string{}, map[string]string{}
	for _, kind := range []string{"rsa", "ecdsa"} {
		file := filepath.Join(dir, kind)
		sshtest.KeygenOf(t, kind, file)
		config, prints[kind] = append(config, "HostKey "+file), sshtest.FingerprintOf(t, file+".pub")
	}
	s := sshtest.Start(t, config...)
	prints["ed25519"] = s.Fingerprint()
	return s, prints
}

// TestAFingerprintIsOfAnyKeyOfTheHost: also of the jump host. Only the first connection has to find out which one.
func TestAFingerprintIsOfAnyKeyOfTheHost(t *testing.T) {
	t.Parallel()
	s, prints := manyKeys(t)
	bastion, jumpPrints := manyKeys(t)
	for kind, print := range prints {
		p, target := reach(t, s, func(_ *ssh.Config, target *ssh.Target) { target.HostKey, target.KnownHosts = print, "" })
		target.Jump = &ssh.Target{Address: bastion.Address, User: bastion.User, Identity: bastion.Key, HostKey: jumpPrints[kind]}
		if out, _ := shell(t, host(t, p, target), "echo in"); out != "in\n" {
			t.Errorf("%s: %q", kind, out)
		}
		before := s.Accepted()
		p.Forget(target)
		if out, _ := shell(t, host(t, p, target), "echo again"); out != "again\n" || s.Accepted() != before+1 {
			t.Errorf("%s: %q over %d more connections, want 1", kind, out, s.Accepted()-before)
		}
	}
	p, target := reach(t, s, func(_ *ssh.Config, target *ssh.Target) { target.HostKey = bastion.Fingerprint() })
	if _, err := p.Host(t.Context(), target); !fault.IsPermanent(err) ||
		!strings.Contains(err.Error(), "has changed: it shows "+prints["ed25519"]) {
		t.Errorf("a fingerprint of no key: %v", err)
	}
}

// TestTheKeyThatIsShownIsTheOneThatPeopleCompare: by documentation the ed25519 one.
func TestTheKeyThatIsShownIsTheOneThatPeopleCompare(t *testing.T) {
	t.Parallel()
	s, prints := manyKeys(t)
	for pin, want := range map[string]ssh.Shown{
		"":              {Fingerprint: prints["ed25519"]},
		prints["rsa"]:   {Fingerprint: prints["rsa"], Known: true},
		"SHA256:absent": {Fingerprint: prints["ed25519"], Problem: "has changed"},
	} {
		p, target := reach(t, s, func(_ *ssh.Config, target *ssh.Target) { target.HostKey, target.KnownHosts = pin, t.TempDir()+"/none" })
		got, err := p.Show(t.Context(), target)
		if err != nil || got.Fingerprint != want.Fingerprint || got.Known != want.Known ||
			!strings.Contains(got.Problem, want.Problem) || got.Problem != "" && want.Problem == "" {
			t.Errorf("%q: %+v, %v", pin, got, err)
		}
	}
}

// TestAHostThatLostItsKnownKeyHasChanged: it shows one of another kind.
func TestAHostThatLostItsKnownKeyHasChanged(t *testing.T) {
	t.Parallel()
	s := sshtest.Start(t)
	rsa := filepath.Join(t.TempDir(), "rsa")
	sshtest.KeygenOf(t, "rsa", rsa)
	p, target := reach(t, s)
	known, err := os.ReadFile(target.KnownHosts)
	if err != nil {
		t.Fatal(err)
	}
	name, _, _ := strings.Cut(string(known), " ")
	public, err := os.ReadFile(rsa + ".pub")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(target.KnownHosts, []byte(name+" "+string(public)), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = p.Host(t.Context(), target)
	if !fault.IsPermanent(err) || !strings.Contains(err.Error(), "has changed: it shows "+s.Fingerprint()) {
		t.Errorf("%v", err)
	}
}

// certified starts a server with a certificate of its host key, made with the options, and returns the authority's file.
func certified(t *testing.T, options ...string) (s *sshtest.Server, authority string) {
	t.Helper()
	dir := t.TempDir()
	authority = filepath.Join(dir, "authority")
	sshtest.Keygen(t, authority)
	s = sshtest.Start(t, "HostCertificate "+filepath.Join(dir, "host-cert.pub"))
	public, err := os.ReadFile(filepath.Join(s.Dir, "host.pub"))
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "host.pub"), public, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	sshtest.Run(t, "ssh-keygen", append(append([]string{"-q", "-s", authority, "-I", "host"}, options...), filepath.Join(dir, "host.pub"))...)
	return s, authority
}

// writeKnown writes a file of known hosts of lines, in which AUTHORITY is the public key of a file.
func writeKnown(t *testing.T, authority string, lines ...string) string {
	t.Helper()
	public, err := os.ReadFile(authority + ".pub")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "known_hosts")
	text := strings.ReplaceAll(strings.Join(lines, "\n")+"\n", "AUTHORITY", strings.TrimSpace(string(public)))
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestHostCertificates(t *testing.T) {
	t.Parallel()
	s, authority := certified(t, "-h", "-n", "127.0.0.1")
	own, err := os.ReadFile(s.KnownHosts())
	if err != nil {
		t.Fatal(err)
	}
	elsewhere, elsewhereBy := certified(t, "-h", "-n", "elsewhere.example.net")
	expired, expiredBy := certified(t, "-h", "-n", "127.0.0.1", "-V", "20200101:20200201")
	user, userBy := certified(t, "-n", "127.0.0.1")
	for name, c := range map[string]struct {
		server *sshtest.Server
		known  string
		pin    string
		want   string // "": it is accepted
	}{
		"by its authority": {s, writeKnown(t, authority, "@cert-authority *,!10.* AUTHORITY"), "", ""},
		"another host's authority": {s, writeKnown(t, authority, "@cert-authority *.example.net AUTHORITY"), "",
			"is not known (it shows " + s.Fingerprint()},
		"another authority": {s, writeKnown(t, elsewhereBy, "@cert-authority * AUTHORITY"), "",
			"is not known (it shows " + s.Fingerprint()},
		"the key inside":              {s, s.KnownHosts(), "", ""},
		"key inside, other authority": {s, writeKnown(t, elsewhereBy, string(own), "@cert-authority * AUTHORITY"), "", ""},
		"a fingerprint":               {s, "", s.Fingerprint(), ""},
		"a revoked authority":         {s, writeKnown(t, authority, "@cert-authority * AUTHORITY", "@revoked * AUTHORITY"), "", "revoked"},
		"a revoked key":               {s, writeKnown(t, authority, "@cert-authority * AUTHORITY", "@revoked "+string(own)), "", "revoked"},
		"another principal": {elsewhere, writeKnown(t, elsewhereBy, "@cert-authority * AUTHORITY"), "",
			"its certificate does not count"},
		"expired":   {expired, writeKnown(t, expiredBy, "@cert-authority * AUTHORITY"), "", "expired"},
		"of a user": {user, writeKnown(t, userBy, "@cert-authority * AUTHORITY"), "", "is not known"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, target := reach(t, c.server, func(_ *ssh.Config, target *ssh.Target) { target.KnownHosts, target.HostKey = c.known, c.pin })
			h, err := p.Host(t.Context(), target)
			if c.want == "" && err == nil {
				_ = h.Close()
				return
			}
			if c.want == "" || !strings.Contains(fmt.Sprint(err), c.want) || !fault.IsPermanent(err) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

// TestTheKeyInsideOfACertificateIsStored: and is then known, whether the host shows the certificate or not.
func TestTheKeyInsideOfACertificateIsStored(t *testing.T) {
	t.Parallel()
	s, authority := certified(t, "-h", "-n", "elsewhere.example.net")
	file := writeKnown(t, authority, "@cert-authority * AUTHORITY")
	p, target := reach(t, s, func(_ *ssh.Config, target *ssh.Target) { target.KnownHosts = file })
	shown, err := p.Show(t.Context(), target)
	if err != nil || shown.Known || shown.Problem != "" || shown.Fingerprint != s.Fingerprint() || shown.Kind != "ssh-ed25519" {
		t.Fatalf("%+v, %v", shown, err)
	}
	if err := ssh.Store(file, []ssh.Shown{shown}); err != nil {
		t.Fatal(err)
	}
	if out, _ := shell(t, host(t, p, target), "echo in"); out != "in\n" {
		t.Errorf("%q", out)
	}
	if shown, err = p.Show(t.Context(), target); err != nil || !shown.Known {
		t.Errorf("%+v, %v", shown, err)
	}
	if unknown, err := ssh.Unknown([]ssh.Target{target}); len(unknown) != 0 || err != nil {
		t.Errorf("%v, %v", unknown, err)
	}
}

// startAgent starts an ssh-agent with keys, and returns its socket.
func startAgent(t *testing.T, keys ...string) string {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "agent")
	agent := exec.Command("ssh-agent", "-D", "-a", socket)
	if err := agent.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = agent.Process.Kill(); _ = agent.Wait() })
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); <-time.After(5 * time.Millisecond) {
		if conn, err := net.Dial("unix", socket); err == nil {
			_ = conn.Close()
			break
		}
	}
	for _, key := range keys {
		add := exec.Command("ssh-add", "-q", key)
		add.Env = append(os.Environ(), "SSH_AUTH_SOCK="+socket)
		if out, err := add.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	return socket
}

// TestAnAgentWithManyKeys: the server gives up before the right one comes, and would do so the next time. identity picks
// one of the agent's keys.
func TestAnAgentWithManyKeys(t *testing.T) {
	t.Parallel()
	s := sshtest.Start(t)
	var keys []string
	for i := range 7 {
		keys = append(keys, filepath.Join(t.TempDir(), fmt.Sprint("key", i)))
		sshtest.Keygen(t, keys[i])
	}
	socket := startAgent(t, append(keys, s.Key)...)
	p, target := reach(t, s, func(c *ssh.Config, target *ssh.Target) { target.Identity, c.Agent = "", socket })
	_, err := p.Host(t.Context(), target)
	if !fault.IsPermanent(err) || !strings.Contains(err.Error(), "takes no more keys") ||
		!strings.Contains(fault.HintOf(err), "ssh.identity") {
		t.Errorf("%v (%s)", err, fault.HintOf(err))
	}
	target.Identity = s.Key + ".pub"
	if out, _ := shell(t, host(t, p, target), "echo in"); out != "in\n" {
		t.Errorf("%q", out)
	}
	sshtest.Run(t, "ssh-keygen", "-q", "-p", "-N", "secret", "-f", s.Key)
	target.Identity = s.Key
	if out, _ := shell(t, host(t, p, target), "echo locked"); out != "locked\n" {
		t.Errorf("%q", out)
	}
	stranger := filepath.Join(t.TempDir(), "stranger")
	sshtest.Keygen(t, stranger)
	target.Identity = stranger + ".pub"
	if _, err := p.Host(t.Context(), target); !fault.IsPermanent(err) ||
		!strings.Contains(err.Error(), "the ssh-agent does not have the key") {
		t.Errorf("%v", err)
	}
}
