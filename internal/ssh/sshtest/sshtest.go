// Package sshtest runs real OpenSSH servers for tests.
package sshtest

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/crypto/ssh"
)

// Server is an OpenSSH server on a port of the loopback, for the user that runs the test. Every
// connection has an sshd of its own, as inetd would start it, so that a test can end one of them.
type Server struct {
	Dir     string // its keys and its configuration
	Address string // HOST:PORT
	User    string // the account
	Key     string // file of the private key that the account accepts

	t        testing.TB
	listener net.Listener
	mu       sync.Mutex
	accepted int
	running  map[*exec.Cmd]*os.File // the servers of connections, and their sockets
	refuses  bool
	lines    sync.WaitGroup
	log      bytes.Buffer
}

// Start starts a server that ends with the test. config has further lines of sshd_config.
func Start(t testing.TB, config ...string) *Server {
	t.Helper()
	who, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{Dir: t.TempDir(), User: who.Username, t: t, running: map[*exec.Cmd]*os.File{}}
	s.Key = filepath.Join(s.Dir, "id")
	s.NewHostKey()
	Keygen(t, s.Key)
	s.Accept(s.Key + ".pub")
	lines := append([]string{
		"HostKey " + filepath.Join(s.Dir, "host"),
		"AuthorizedKeysFile " + filepath.Join(s.Dir, "authorized_keys"),
		"StrictModes no", "UsePAM no", "PidFile none", "LogLevel INFO",
		"PasswordAuthentication no", "KbdInteractiveAuthentication no", "PermitRootLogin prohibit-password",
		"SetEnv SHLVL=2", // or bash runs the account's .bashrc, which may do anything
	}, config...)
	if err := os.WriteFile(filepath.Join(s.Dir, "sshd_config"), []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if os.Getuid() == 0 {
		if err := os.MkdirAll("/run/sshd", 0o755); err != nil { // where sshd gives up its rights
			t.Fatal(err)
		}
	}
	var l net.ListenConfig
	l.SetMultipathTCP(false) // whose sockets take no filter
	if s.listener, err = l.Listen(t.Context(), "tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	s.Address = s.listener.Addr().String()
	s.lines.Go(s.serve)
	t.Cleanup(s.stop)
	return s
}

// serve starts an sshd for each connection.
func (s *Server) serve() {
	for {
		conn, err := s.listener.Accept()
		if err != nil {
			return
		}
		s.lines.Go(func() { s.line(conn.(*net.TCPConn)) })
	}
}

// line runs the sshd of a connection to its end.
func (s *Server) line(conn *net.TCPConn) {
	if s.refusing() {
		_ = conn.SetLinger(0) // a reset
		_ = conn.Close()
		return
	}
	file, err := conn.File()
	_ = conn.Close()
	if err != nil {
		return
	}
	defer file.Close()
	cmd := exec.CommandContext(context.Background(), program(s.t), "-i", "-e", "-f", filepath.Join(s.Dir, "sshd_config"))
	cmd.Stdin, cmd.Stdout, cmd.Stderr = file, file, &lockedWriter{s: s}
	s.mu.Lock()
	err = cmd.Start()
	s.accepted++
	if err == nil {
		s.running[cmd] = file
	}
	s.mu.Unlock()
	if err != nil {
		s.t.Errorf("start sshd: %v", err)
		return
	}
	_ = cmd.Wait() // its status has no meaning for a test
	s.mu.Lock()
	delete(s.running, cmd)
	s.mu.Unlock()
}

// stop ends the server and its connections.
func (s *Server) stop() {
	_ = s.listener.Close()
	s.Cut()
	s.lines.Wait()
	if s.t.Failed() {
		s.t.Logf("sshd of %s:\n%s", s.Address, s.Log())
	}
}

// Cut kills the sshd of every connection.
func (s *Server) Cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for cmd := range s.running {
		_ = cmd.Process.Kill()
	}
}

// Refuse ends all connections, and those to come, until it is called with false.
func (s *Server) Refuse(all bool) {
	s.mu.Lock()
	s.refuses = all
	s.mu.Unlock()
	if all {
		s.Cut()
	}
}

func (s *Server) refusing() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.refuses
}

// Accepted returns how many connections the server has had.
func (s *Server) Accepted() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.accepted
}

// Log returns what the servers wrote.
func (s *Server) Log() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log.String()
}

// NewHostKey gives the server a new key for connections from now on.
func (s *Server) NewHostKey() {
	s.t.Helper()
	file := filepath.Join(s.Dir, "host")
	_ = os.Remove(file)
	_ = os.Remove(file + ".pub")
	Keygen(s.t, file)
}

// Accept lets a public key into the account, instead of those before.
func (s *Server) Accept(public string) {
	s.t.Helper()
	text, err := os.ReadFile(public)
	if err == nil {
		err = os.WriteFile(filepath.Join(s.Dir, "authorized_keys"), text, 0o600)
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// Fingerprint returns the fingerprint of the server's key.
func (s *Server) Fingerprint() string {
	s.t.Helper()
	return FingerprintOf(s.t, filepath.Join(s.Dir, "host.pub"))
}

// KnownHosts writes a file of known hosts with the server's present key, and returns its name.
func (s *Server) KnownHosts() string {
	s.t.Helper()
	key, err := os.ReadFile(filepath.Join(s.Dir, "host.pub"))
	if err != nil {
		s.t.Fatal(err)
	}
	host, port, _ := net.SplitHostPort(s.Address)
	file := filepath.Join(s.t.TempDir(), "known_hosts")
	if err := os.WriteFile(file, fmt.Appendf(nil, "[%s]:%s %s", host, port, key), 0o600); err != nil {
		s.t.Fatal(err)
	}
	return file
}

// Keygen makes an Ed25519 key pair without a passphrase, as ssh-keygen does in a process.
func Keygen(t testing.TB, file string) {
	t.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		t.Fatal(err)
	}
	line, err := ssh.NewPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	err = errors.Join(os.WriteFile(file, pem.EncodeToMemory(block), 0o600), os.WriteFile(file+".pub", ssh.MarshalAuthorizedKey(line), 0o644))
	if err != nil {
		t.Fatal(err)
	}
}

// KeygenOf makes a key pair of a kind, such as rsa, without a passphrase.
func KeygenOf(t testing.TB, kind, file string) {
	t.Helper()
	Run(t, "ssh-keygen", "-q", "-t", kind, "-N", "", "-f", file)
}

// FingerprintOf returns the fingerprint of a key by the file of its public half.
func FingerprintOf(t testing.TB, public string) string {
	t.Helper()
	return strings.Fields(Run(t, "ssh-keygen", "-lf", public))[1]
}

// Run runs a command and returns its output.
func Run(t testing.TB, name string, arguments ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), name, arguments...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s", name, arguments, err, out)
	}
	return string(out)
}

// program returns the path of sshd, which insists on an absolute one.
func program(t testing.TB) string {
	for _, dir := range append(filepath.SplitList(os.Getenv("PATH")), "/usr/sbin") {
		if path := filepath.Join(dir, "sshd"); filepath.IsAbs(path) {
			if _, err := os.Stat(path); err == nil {
				return path
			}
		}
	}
	t.Error("sshd not found: make setup installs it")
	return "sshd"
}

// lockedWriter collects what the servers write.
type lockedWriter struct{ s *Server }

func (w *lockedWriter) Write(p []byte) (int, error) {
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	return w.s.log.Write(p)
}
