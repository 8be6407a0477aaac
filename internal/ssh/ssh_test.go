//go:build services

package ssh_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/ssh"
	"github.com/waybill-dev/waybill/internal/ssh/sshtest"
)

// reach returns a pool that knows the server, and the server as a target.
func reach(t *testing.T, s *sshtest.Server, with ...func(*ssh.Config, *ssh.Target)) (*ssh.Pool, ssh.Target) {
	t.Helper()
	c := ssh.Config{}
	target := ssh.Target{Address: s.Address, User: s.User, Identity: s.Key, KnownHosts: s.KnownHosts()}
	for _, change := range with {
		change(&c, &target)
	}
	p := ssh.NewPool(c)
	t.Cleanup(p.Close)
	return p, target
}

// host returns a connection that the test closes at its end.
func host(t *testing.T, p *ssh.Pool, target ssh.Target) *ssh.Host {
	t.Helper()
	h, err := p.Host(t.Context(), target)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Close() })
	return h
}

// hostOf returns a connection to a server, of a pool of its own.
func hostOf(t *testing.T, s *sshtest.Server) *ssh.Host {
	t.Helper()
	p, target := reach(t, s)
	return host(t, p, target)
}

// shell runs a line of shell and returns its output and exit status.
func shell(t *testing.T, h *ssh.Host, line string) (string, int) {
	t.Helper()
	var out bytes.Buffer
	exit, err := h.Run(t.Context(), []string{"sh", "-c", line}, nil, &out, nil)
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	return out.String(), exit
}

func TestRunsCommands(t *testing.T) {
	t.Parallel()
	s := sshtest.Start(t)
	h := hostOf(t, s)
	for line, want := range map[string]struct {
		out  string
		exit int
	}{
		"echo hello":                 {"hello\n", 0},
		"exit 75":                    {"", 75},
		"kill -9 $$":                 {"", 137},
		"printf '%s' \"$0\"; exit 3": {"sh", 3},
	} {
		if out, exit := shell(t, h, line); out != want.out || exit != want.exit {
			t.Errorf("%s: %q, exit status %d; want %q, %d", line, out, exit, want.out, want.exit)
		}
	}
	if _, err := h.Run(t.Context(), []string{"echo", "a\x00b"}, nil, nil, nil); !fault.IsPermanent(err) {
		t.Errorf("an argument with the byte 0: %v", err)
	}
}

func TestStreamsAreWholeInBothDirections(t *testing.T) {
	t.Parallel()
	h := hostOf(t, sshtest.Start(t))
	sent := make([]byte, 20<<20)
	_, _ = rand.Read(sent)
	var got bytes.Buffer
	if exit, err := h.Run(t.Context(), []string{"cat"}, bytes.NewReader(sent), &got, nil); exit != 0 || err != nil ||
		!bytes.Equal(got.Bytes(), sent) {
		t.Errorf("exit status %d, %v, %d bytes of %d came back", exit, err, got.Len(), len(sent))
	}
}

// TestArgumentsArriveAsTheyAre: every byte but 0, in any order, reaches the command through the shell
// of the account, also through one that is not a POSIX shell.
func TestArgumentsArriveAsTheyAre(t *testing.T) {
	t.Parallel()
	for _, shell := range []string{"sh", "bash", "tcsh"} {
		t.Run(shell, func(t *testing.T) {
			t.Parallel()
			argumentsArrive(t, hostOf(t, sshtest.Start(t, `ForceCommand exec `+shell+` -c "$SSH_ORIGINAL_COMMAND"`)))
		})
	}
}

func argumentsArrive(t *testing.T, h *ssh.Host) {
	t.Helper()
	var every []byte
	for b := 1; b < 256; b++ {
		every = append(every, byte(b))
	}
	for _, word := range []string{string(every), "", "'", "''", `\`, "$(id)", "`id`", "a b", "-n", "*", "~", "!!", "#", "a\nb", "é"} {
		var got bytes.Buffer
		exit, err := h.Run(t.Context(), []string{"printf", "%s|", word, "end"}, nil, &got, nil)
		if exit != 0 || err != nil || got.String() != word+"|end|" {
			t.Errorf("%q arrived as %q (%d, %v)", word, got.String(), exit, err)
		}
	}
	if exit, err := h.Run(t.Context(), []string{"sh", "-c", "# two lines!\nexit 75"}, nil, nil, nil); exit != 75 || err != nil {
		t.Errorf("exit status %d, %v", exit, err)
	}
}

func TestStepsShareOneConnection(t *testing.T) {
	t.Parallel()
	s := sshtest.Start(t)
	p, target := reach(t, s)
	var all sync.WaitGroup
	for range 20 { // more than a connection has channels
		all.Go(func() {
			h, err := p.Host(t.Context(), target)
			if err != nil {
				t.Error(err)
				return
			}
			defer h.Close()
			if exit, err := h.Run(t.Context(), []string{"true"}, nil, nil, nil); exit != 0 || err != nil {
				t.Errorf("%d, %v", exit, err)
			}
		})
	}
	all.Wait()
	if n := s.Accepted(); n != 1 {
		t.Errorf("%d connections, want 1", n)
	}
}

// Connections are counted by their outcomes, and never by host.
func TestConnectionsAreCounted(t *testing.T) {
	t.Parallel()
	s := sshtest.Start(t)
	p, target := reach(t, s)
	counts := p.Metrics()
	h := host(t, p, target)
	shell(t, h, "true")
	shell(t, host(t, p, target), "true")
	stranger := target
	stranger.KnownHosts = filepath.Join(t.TempDir(), "none")
	if _, err := p.Host(t.Context(), stranger); err == nil {
		t.Error("a host without a known key is trusted")
	}
	nowhere, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	away := target
	away.Address = nowhere.Addr().String()
	away.HostKey = s.Fingerprint()
	_ = nowhere.Close()
	if _, err := p.Host(t.Context(), away); err == nil {
		t.Error("a closed port answers")
	}
	for end, want := range map[string]float64{"ok": 1, "refused": 1, "unreachable": 1} {
		if got := testutil.ToFloat64(counts.Dials.WithLabelValues(end)); got != want {
			t.Errorf("%v dials that were %s, want %v", got, end, want)
		}
	}
	if open, reused := testutil.ToFloat64(counts.Connections), testutil.ToFloat64(counts.Reused); open != 1 || reused != 1 {
		t.Errorf("%v connections, %v reused, want 1 each", open, reused)
	}
	before := testutil.ToFloat64(counts.Sent)
	if _, err := h.Run(t.Context(), []string{"cat"}, strings.NewReader(strings.Repeat("x", 1<<20)), nil, nil); err != nil {
		t.Fatal(err)
	}
	if sent := testutil.ToFloat64(counts.Sent) - before; sent < 1<<20 {
		t.Errorf("%v bytes were sent, want at least 1 MiB", sent)
	}
	p.Close()
	for deadline := time.Now().Add(20 * time.Second); testutil.ToFloat64(counts.Connections) != 0 && time.Now().Before(deadline); {
		<-time.After(10 * time.Millisecond)
	}
	if open := testutil.ToFloat64(counts.Connections); open != 0 {
		t.Errorf("%v connections are open after the pool was closed", open)
	}
}

func TestAnUnusedConnectionIsClosed(t *testing.T) {
	t.Parallel()
	s := sshtest.Start(t)
	p, target := reach(t, s, func(c *ssh.Config, _ *ssh.Target) { c.Idle = time.Millisecond })
	h := host(t, p, target)
	out, _ := shell(t, h, "echo $PPID")
	_ = h.Close()
	server, _ := filepath.Glob("/proc/" + strings.TrimSpace(out) + "/stat")
	for deadline := time.Now().Add(20 * time.Second); len(server) > 0 && time.Now().Before(deadline); {
		<-time.After(10 * time.Millisecond)
		server, _ = filepath.Glob("/proc/" + strings.TrimSpace(out) + "/stat")
	}
	if len(server) > 0 {
		t.Error("the server of the connection still runs")
	}
	if out, _ := shell(t, host(t, p, target), "echo again"); out != "again\n" {
		t.Errorf("%q", out)
	}
}

func TestHostKeysAreChecked(t *testing.T) {
	t.Parallel()
	s := sshtest.Start(t)
	other := sshtest.Start(t)
	known := s.KnownHosts()
	revoked := filepath.Join(t.TempDir(), "revoked")
	text, _ := os.ReadFile(known)
	_ = os.WriteFile(revoked, []byte("@revoked "+string(text)), 0o600)
	damaged := filepath.Join(t.TempDir(), "damaged")
	_ = os.WriteFile(damaged, []byte("[127.0.0.1]:22 ssh-ed25519 !!!\n"), 0o600)
	old := s.Fingerprint()
	for name, c := range map[string]struct {
		known, key string
		want       string // "": it is accepted
	}{
		"known":          {known, "", ""},
		"pinned":         {"", old, ""},
		"no file":        {filepath.Join(t.TempDir(), "none"), "", "is not known"},
		"another host's": {other.KnownHosts(), "", "is not known"},
		"another pinned": {known, other.Fingerprint(), "has changed: it shows " + old},
		"revoked":        {revoked, "", "revoked"},
		"a damaged file": {damaged, "", "read known hosts"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, target := reach(t, s, func(_ *ssh.Config, target *ssh.Target) { target.KnownHosts, target.HostKey = c.known, c.key })
			h, err := p.Host(t.Context(), target)
			if c.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				_ = h.Close()
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.want) || !fault.IsPermanent(err) {
				t.Errorf("%v, want a permanent error with %q", err, c.want)
			}
		})
	}
}

func TestAChangedHostKeyIsRefused(t *testing.T) {
	t.Parallel()
	s := sshtest.Start(t)
	p, target := reach(t, s)
	old := s.Fingerprint()
	s.NewHostKey()
	_, err := p.Host(t.Context(), target)
	if err == nil || !strings.Contains(err.Error(), s.Fingerprint()) || !strings.Contains(err.Error(), old) || !fault.IsPermanent(err) {
		t.Errorf("%v, want both fingerprints", err)
	}
}

// TestKnownHostsAreReadAgainWhenTheyChange: also when a key takes the place of another of the same length.
func TestKnownHostsAreReadAgainWhenTheyChange(t *testing.T) {
	t.Parallel()
	s := sshtest.Start(t)
	p, target := reach(t, s)
	right, err := os.ReadFile(target.KnownHosts)
	if err != nil {
		t.Fatal(err)
	}
	s.NewHostKey()
	other, err := os.ReadFile(s.KnownHosts())
	if err != nil {
		t.Fatal(err)
	}
	try := func(text []byte) error {
		if text == nil {
			err = os.Remove(target.KnownHosts)
		} else {
			err = os.WriteFile(target.KnownHosts, text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		p.Forget(target)
		h, err := p.Host(t.Context(), target)
		if err == nil {
			_ = h.Close()
		}
		return err
	}
	for i, c := range []struct {
		text []byte
		want string // "": it is accepted
	}{{right, "has changed"}, {other, ""}, {right, "has changed"}, {nil, "is not known"}, {other, ""}} {
		if err := try(c.text); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("content %d: %v, want %q", i, err, c.want)
		}
	}
}

func TestWhoMayEnter(t *testing.T) {
	t.Parallel()
	s := sshtest.Start(t)
	stranger := filepath.Join(t.TempDir(), "stranger")
	sshtest.Keygen(t, stranger)
	open := filepath.Join(t.TempDir(), "open")
	sshtest.Keygen(t, open)
	_ = os.Chmod(open, 0o644)
	locked := filepath.Join(t.TempDir(), "locked")
	sshtest.Run(t, "ssh-keygen", "-q", "-t", "ed25519", "-N", "secret", "-f", locked)
	for name, c := range map[string]struct{ key, want string }{
		"the account's":     {s.Key, ""},
		"a stranger's":      {stranger, "accepts none of the keys for user " + s.User},
		"one others read":   {open, "others can read it"},
		"with a passphrase": {locked, "it has a passphrase"},
		"none":              {filepath.Join(t.TempDir(), "none"), "no such file"},
		"a public key":      {s.Key + ".pub", "it is a public key"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, target := reach(t, s, func(_ *ssh.Config, target *ssh.Target) { target.Identity = c.key })
			h, err := p.Host(t.Context(), target)
			if c.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				_ = h.Close()
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.want) || !fault.IsPermanent(err) {
				t.Errorf("%v, want a permanent error with %q", err, c.want)
			}
		})
	}
}

// TestAnAgentHasTheKey: a key with a passphrase works through an agent.
func TestAnAgentHasTheKey(t *testing.T) {
	t.Parallel()
	s := sshtest.Start(t)
	socket := startAgent(t, s.Key)
	p, target := reach(t, s, func(c *ssh.Config, target *ssh.Target) { target.Identity, c.Agent = "", socket })
	if out, _ := shell(t, host(t, p, target), "echo in"); out != "in\n" {
		t.Errorf("%q", out)
	}
	p, target = reach(t, s, func(c *ssh.Config, target *ssh.Target) { target.Identity, c.Agent = "", socket+"-absent" })
	if _, err := p.Host(t.Context(), target); err == nil || !strings.Contains(err.Error(), "ssh-agent") {
		t.Errorf("without the agent: %v", err)
	}
}

// TestACertificateLetsIn: the account trusts an authority, not the key.
func TestACertificateLetsIn(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	authority, key := filepath.Join(dir, "authority"), filepath.Join(dir, "id")
	sshtest.Keygen(t, authority)
	sshtest.Keygen(t, key)
	s := sshtest.Start(t, "TrustedUserCAKeys "+authority+".pub")
	p, target := reach(t, s, func(_ *ssh.Config, target *ssh.Target) { target.Identity = key })
	if _, err := p.Host(t.Context(), target); err == nil {
		t.Fatal("a key without a certificate is accepted")
	}
	sshtest.Run(t, "ssh-keygen", "-q", "-s", authority, "-I", "waybill", "-n", s.User, key+".pub")
	if out, _ := shell(t, host(t, p, target), "echo in"); out != "in\n" {
		t.Errorf("%q", out)
	}
}

// TestAServerThatDies: the command's end is not known, and the next user gets a new connection.
func TestAServerThatDies(t *testing.T) {
	t.Parallel()
	s := sshtest.Start(t)
	p, target := reach(t, s)
	h := host(t, p, target)
	begun, out := make(chan struct{}), &firstWrite{}
	out.first = sync.OnceFunc(func() { close(begun) })
	ended := make(chan error, 1)
	go func() {
		_, err := h.Run(t.Context(), []string{"sh", "-c", "echo begun; exec sleep 60"}, nil, out, nil)
		ended <- err
	}()
	<-begun
	s.Cut()
	if err := <-ended; !fault.Is(err, fault.Unavailable) || fault.IsPermanent(err) {
		t.Errorf("%v, want an error that passes", err)
	}
	if out, _ := shell(t, host(t, p, target), "echo again"); out != "again\n" || s.Accepted() != 2 {
		t.Errorf("%q over %d connections", out, s.Accepted())
	}
}

// firstWrite calls a function at the first write.
type firstWrite struct{ first func() }

func (w *firstWrite) Write(p []byte) (int, error) {
	w.first()
	return len(p), nil
}

func TestNobodyAnswers(t *testing.T) {
	t.Parallel()
	s := sshtest.Start(t)
	p, _ := reach(t, s)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
	_, err = p.Host(t.Context(), ssh.Target{Address: l.Addr().String(), User: s.User, HostKey: s.Fingerprint()})
	if !fault.Is(err, fault.Unavailable) || fault.IsPermanent(err) || !strings.Contains(err.Error(), "refused") {
		t.Errorf("a closed port: %v", err)
	}
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = silent.Close() })
	ctx, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, errors.New("the attempt is over"))
	defer cancel()
	if _, err := p.Host(ctx, ssh.Target{Address: silent.Addr().String(), User: s.User,
		HostKey: s.Fingerprint()}); err == nil || err.Error() != "the attempt is over" {
		t.Errorf("a host that says nothing: %v", err)
	}
}

// TestTheEndOfAnAttemptLeavesTheCommand: it continues without its streams, which are not used any more.
func TestTheEndOfAnAttemptLeavesTheCommand(t *testing.T) {
	t.Parallel()
	h := hostOf(t, sshtest.Start(t))
	fifo := filepath.Join(t.TempDir(), "fifo")
	sshtest.Run(t, "mkfifo", fifo)
	ctx, cancel := context.WithCancelCause(t.Context())
	over := errors.New("over")
	out := &firstWrite{first: sync.OnceFunc(func() { cancel(over) })}
	if _, err := h.Run(ctx, []string{"sh", "-c",
		"trap '' HUP PIPE; echo begun; echo still here >" + ssh.Quote([]string{fifo})}, nil, out, nil); !errors.Is(err, over) {
		t.Fatalf("%v, want the cause", err)
	}
	text, err := os.ReadFile(fifo) // waits for the command
	if string(text) != "still here\n" || err != nil {
		t.Errorf("%q, %v", text, err)
	}
}

func TestReachesPortsAsTheHostDoes(t *testing.T) {
	t.Parallel()
	h := hostOf(t, sshtest.Start(t))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		conn, err := l.Accept()
		if err == nil {
			_, _ = io.WriteString(conn, "hello")
			_ = conn.Close()
		}
	}()
	conn, err := h.Dial(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(conn)
	_ = conn.Close()
	if string(text) != "hello" || err != nil {
		t.Errorf("%q, %v", text, err)
	}
	_ = l.Close()
	for range 10 { // more than there are places: a refused one gives its place back
		if conn, err := h.Dial(t.Context(), "tcp", l.Addr().String()); err == nil {
			_ = conn.Close()
			t.Fatal("a closed port answers")
		}
	}
}

func TestAJumpHostLeadsToTheOther(t *testing.T) {
	t.Parallel()
	inner, bastion := sshtest.Start(t), sshtest.Start(t)
	p := ssh.NewPool(ssh.Config{Identities: []string{filepath.Join(t.TempDir(), "none"), inner.Key, bastion.Key}})
	t.Cleanup(p.Close)
	target := ssh.Target{Address: inner.Address, User: inner.User, HostKey: inner.Fingerprint(),
		Jump: &ssh.Target{Address: bastion.Address, User: bastion.User, HostKey: bastion.Fingerprint()}}
	if out, _ := shell(t, host(t, p, target), "echo through"); out != "through\n" || bastion.Accepted() != 1 {
		t.Errorf("%q over %d connections of the jump host", out, bastion.Accepted())
	}
	target.Jump.HostKey = inner.Fingerprint()
	if _, err := p.Host(t.Context(), target); !fault.IsPermanent(err) || !strings.Contains(err.Error(), "jump host "+bastion.Address) {
		t.Errorf("a jump host with another key: %v", err)
	}
}
