package ssh

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
	"golang.org/x/sys/unix"

	"github.com/waybill-dev/waybill/internal/fault"
)

// Shown is the key that a host shows.
type Shown struct {
	Address     string `json:"address"`           // HOST:PORT
	Kind        string `json:"kind"`              // such as ssh-ed25519
	Fingerprint string `json:"fingerprint"`       // SHA256:…
	Known       bool   `json:"known"`             // it is the one that is expected
	Problem     string `json:"problem,omitempty"` // why it must not be stored: another one is expected, or it is revoked

	key ssh.PublicKey
}

// errSeen ends a handshake once the host has shown its key.
var errSeen = errors.New("the key was seen")

// Show asks a host for its key and compares it with what is known. It proves nothing to the host. The
// way over a jump host needs that one's key to be known.
func (p *Pool) Show(ctx context.Context, t Target) (Shown, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, dialTime, fmt.Errorf("no answer within %s", dialTime))
	defer cancel()
	check, kinds, err := p.hostKeys(t)
	if err != nil && !errors.Is(err, errNoKnownHosts) {
		return Shown{}, err
	}
	way := &line{}
	defer way.end()
	if err := p.lead(t, way); err != nil {
		return Shown{}, err
	}
	raw, err := p.reach(ctx, t, way)
	if err != nil {
		return Shown{}, err
	}
	defer raw.Close()
	stop := context.AfterFunc(ctx, func() { _ = raw.Close() })
	defer stop()
	shown := Shown{Address: t.Address}
	_, _, _, err = ssh.NewClientConn(raw, t.Address, &ssh.ClientConfig{User: t.User, HostKeyAlgorithms: kinds,
		HostKeyCallback: func(address string, remote net.Addr, key ssh.PublicKey) error {
			shown.Kind, shown.Fingerprint, shown.key = key.Type(), ssh.FingerprintSHA256(key), key
			if check != nil {
				shown.judge(check(address, remote, key))
			}
			return errSeen
		}})
	if shown.key == nil {
		return Shown{}, handshakeError(t, err)
	}
	return shown, nil
}

// judge notes what the check of the key says.
func (s *Shown) judge(err error) {
	switch {
	case err == nil:
		s.Known = true
	case !errors.Is(err, errUnknownKey):
		s.Problem = err.Error()
	}
}

// Unknown returns the indexes of those targets whose keys are not known. It asks no host.
func Unknown(targets []Target) (unknown []int, err error) {
	checks := map[string]ssh.HostKeyCallback{} // by file; nil: there is none
	for i, t := range targets {
		if t.HostKey != "" {
			continue
		}
		check, read := checks[t.KnownHosts]
		if !read {
			if check, err = readKnownHosts(t.KnownHosts); err != nil && !errors.Is(err, errNoKnownHosts) {
				return nil, err
			}
			checks[t.KnownHosts] = check
		}
		if check == nil || len(knownKinds(check, t)) == 0 {
			unknown = append(unknown, i)
		}
	}
	return unknown, nil
}

// Store appends the keys of hosts to a file of known hosts, which is made if there is none. All of them
// are on the disk when it returns, or none. Callers at the same time wait for each other.
func Store(file string, keys []Shown) error {
	folder := filepath.Dir(file)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return fault.New(fault.Unavailable, "make the folder of %s: %w", file, err)
	}
	lock, err := os.Open(folder) // not the file, which is replaced
	if err != nil {
		return fault.New(fault.Unavailable, "open the folder of %s: %w", file, err)
	}
	defer lock.Close() // unlocks it
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		return fault.New(fault.Unavailable, "lock the folder of %s: %w", file, err)
	}
	old, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fault.New(fault.Unavailable, "read %s: %w", file, err)
	}
	text := string(old)
	if text != "" && text[len(text)-1] != '\n' {
		text += "\n"
	}
	for _, k := range keys {
		text += knownhosts.Line([]string{knownhosts.Normalize(k.Address)}, k.key) + "\n"
	}
	if err := replace(file, text); err != nil {
		return fault.New(fault.Unavailable, "write %s: %w", file, err)
	}
	return nil
}

// replace gives a file a new content, all of it or none.
func replace(file, text string) (err error) {
	fresh, err := os.CreateTemp(filepath.Dir(file), ".known_hosts-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(fresh.Name())
		}
	}()
	_, err = fresh.WriteString(text)
	if err = errors.Join(err, fresh.Chmod(0o644), fresh.Sync(), fresh.Close()); err != nil {
		return err
	}
	return os.Rename(fresh.Name(), file)
}
