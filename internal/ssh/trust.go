package ssh

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"golang.org/x/crypto/ssh"
	"golang.org/x/sys/unix"

	"github.com/waybill-dev/waybill/internal/fault"
	files "github.com/waybill-dev/waybill/internal/file"
)

// Shown is the key that a host shows.
type Shown struct {
	Address     string `json:"address"`           // HOST:PORT
	Kind        string `json:"kind"`              // such as ssh-ed25519
	Fingerprint string `json:"fingerprint"`       // SHA256:…
	Known       bool   `json:"known"`             // it is the one that is expected
	Problem     string `json:"problem,omitempty"` // why it must not be stored: another is expected, or it is revoked

	key ssh.PublicKey
}

// errSeen ends a handshake once the host has shown its key.
var errSeen = errors.New("the key was seen")

// Show asks a host for its key and compares it with what is known. It proves nothing to the host. The
// way over a jump host needs that one's key to be known.
func (p *Pool) Show(ctx context.Context, t Target) (Shown, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, dialTime, fmt.Errorf("no answer within %s", dialTime))
	defer cancel()
	check, err := p.hostKeys(t)
	if err != nil && !errors.Is(err, errNoKnownHosts) {
		return Shown{}, err
	}
	way := &line{}
	defer way.end()
	if err := p.lead(t, way); err != nil {
		return Shown{}, err
	}
	shown := Shown{Address: t.Address}
	judge := check.check
	check.check = func(key ssh.PublicKey) error {
		err := judge(key)
		if key = inside(key); shown.key == nil || err == nil {
			shown.Kind, shown.Fingerprint, shown.key = key.Type(), ssh.FingerprintSHA256(key), key
			shown.judge(err)
		}
		if err != nil && check.pin != "" {
			return err // it may have the one that is wanted as well
		}
		return errSeen
	}
	if _, err = p.meet(ctx, t, way, check, nil); shown.key == nil {
		return Shown{}, err
	}
	return shown, nil
}

// judge notes the result of checking the key.
func (s *Shown) judge(err error) {
	switch {
	case err == nil:
		s.Known, s.Problem = true, ""
	case !errors.Is(err, errUnknownKey):
		s.Problem = err.Error()
	}
}

// Unknown returns the indexes of those targets whose keys are not known. It asks no host.
func Unknown(targets []Target) (unknown []int, err error) {
	files := map[string]knownHosts{}
	for i, t := range targets {
		if t.HostKey != "" {
			continue
		}
		known, read := files[t.KnownHosts]
		if !read {
			if known, err = readKnownHosts(t.KnownHosts); err != nil && !errors.Is(err, errNoKnownHosts) {
				return nil, err
			}
			files[t.KnownHosts] = known
		}
		if !known.knows(t.Address) {
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
	old, err := files.Read(file, files.Most)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fault.New(fault.Unavailable, "read %s: %w", file, err)
	}
	text := string(old)
	if text != "" && text[len(text)-1] != '\n' {
		text += "\n"
	}
	for _, k := range keys {
		host, port, err := net.SplitHostPort(k.Address)
		if err != nil {
			return fault.New(fault.Invalid, "store the key of %s: %w", k.Address, err)
		}
		text += hostName(host, port) + " " + string(ssh.MarshalAuthorizedKey(k.key))
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
