package ssh

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"golang.org/x/crypto/ssh"

	"github.com/waybill-dev/waybill/internal/fault"
	files "github.com/waybill-dev/waybill/internal/file"
)

// hostCheck decides which keys a host may show.
type hostCheck struct {
	kinds []string                  // to ask the host for, the best first
	check func(ssh.PublicKey) error // check of the key that it shows
	pin   string                    // names the kind that a fingerprint turned out to be of; "": the target has none
}

// hostKeys returns the check of a target's host key. The error is errNoKnownHosts, with a check that refuses every key,
// if the file of known hosts does not exist.
func (p *Pool) hostKeys(t Target) (hostCheck, error) {
	if t.HostKey == "" {
		known, err := p.known.read(t.KnownHosts)
		return hostCheck{kinds: known.kinds(t.Address), check: func(key ssh.PublicKey) error { return known.check(t, key) }}, err
	}
	c := hostCheck{pin: t.Address + " " + t.HostKey, check: func(key ssh.PublicKey) error {
		if seen := ssh.FingerprintSHA256(inside(key)); seen != t.HostKey {
			return changedKey(t, inside(key).Type(), seen, t.HostKey)
		}
		return nil
	}}
	p.mu.Lock()
	defer p.mu.Unlock()
	first := algorithmsOf(p.pinned[c.pin])
	c.kinds = slices.Concat(first, without(knownHosts(nil).kinds(t.Address), first))
	return c, nil
}

// The reasons why a key is not known.
var (
	errNoKnownHosts = errors.New("no keys of hosts are stored yet")
	errUnknownKey   = errors.New("none is stored")
)

func unknownKey(t Target, seen string, why error) error {
	text := "the host key of " + t.Address + " is not known"
	if seen != "" {
		text += " (it shows " + seen + ")"
	}
	return fault.Permanent(fault.New(fault.Refused, "%s: %w", text, why).
		WithHint("waybill pipeline trust shows it and stores it; or set hostKey of the host in waybill.yaml"))
}

func changedKey(t Target, kind, seen, want string) error {
	return fault.Permanent(fault.New(fault.Refused, "the host key of %s has changed: it shows %s (%s), known is %s",
		t.Address, seen, kind, want).
		WithHint("find out why before you change hostKey or knownHosts: another machine may answer"))
}

// without returns the kinds that are not among others.
func without(kinds, others []string) []string {
	return slices.DeleteFunc(slices.Clone(kinds), func(kind string) bool { return slices.Contains(others, kind) })
}

// readSmall reads a regular file of limited size.
func readSmall(file string, most int64) ([]byte, error) {
	info, err := os.Stat(file)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, errors.New("it is not a regular file")
	case info.Size() > most:
		return nil, fmt.Errorf("it has %d bytes, at most %d are read", info.Size(), most)
	}
	return files.Read(file, most)
}
