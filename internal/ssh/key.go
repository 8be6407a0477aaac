package ssh

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"github.com/waybill-dev/waybill/internal/fault"
)

// maxKeyFile bounds a key file, in bytes.
const maxKeyFile = 64 << 10

// hostKeys returns the check of a target's host key, and the kinds of keys to ask the host for: those that
// the check can accept. A host that has several keys would otherwise show one that nothing is known of.
func (p *Pool) hostKeys(t Target) (ssh.HostKeyCallback, []string, error) {
	if t.HostKey != "" {
		return func(_ string, _ net.Addr, key ssh.PublicKey) error {
			if seen := ssh.FingerprintSHA256(key); seen != t.HostKey {
				return changedKey(t, key.Type(), seen, t.HostKey)
			}
			return nil
		}, nil, nil
	}
	check, err := p.known.read(t.KnownHosts)
	if errors.Is(err, errNoKnownHosts) {
		return nil, nil, unknownKey(t, "", err)
	}
	if err != nil {
		return nil, nil, err
	}
	return func(address string, remote net.Addr, key ssh.PublicKey) error {
		err := check(address, remote, key)
		if _, revoked := errors.AsType[*knownhosts.RevokedError](err); revoked {
			return fault.Permanent(fault.New(fault.Refused, "the key of %s is revoked by %s: %s", t.Address, t.KnownHosts, ssh.FingerprintSHA256(key)))
		}
		if mismatch, ok := errors.AsType[*knownhosts.KeyError](err); ok {
			if len(mismatch.Want) == 0 {
				return unknownKey(t, ssh.FingerprintSHA256(key), errUnknownKey)
			}
			return changedKey(t, key.Type(), ssh.FingerprintSHA256(key), ssh.FingerprintSHA256(mismatch.Want[0].Key))
		}
		return err
	}, knownKinds(check, t), nil
}

// knownFiles keeps files of host keys that were read, each until it changes: one with many hosts takes longer
// to read than the rest of a dial. Safe for concurrent use.
type knownFiles struct {
	mu    sync.Mutex
	files map[string]knownFile // by path
}

type knownFile struct {
	info  fs.FileInfo // when it was read
	check ssh.HostKeyCallback
}

// read returns the check of a file as it is now. The error is errNoKnownHosts if there is none.
func (k *knownFiles) read(file string) (ssh.HostKeyCallback, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	info, err := os.Stat(file) // before it is read: what changes meanwhile is seen the next time
	kept, ok := k.files[file]
	if err == nil && ok && os.SameFile(info, kept.info) && info.Size() == kept.info.Size() && info.ModTime().Equal(kept.info.ModTime()) {
		return kept.check, nil
	}
	check, failed := readKnownHosts(file)
	if failed == nil && err == nil {
		k.files[file] = knownFile{info, check}
	}
	return check, failed
}

// readKnownHosts reads a file of host keys. The error is errNoKnownHosts if there is none.
func readKnownHosts(file string) (ssh.HostKeyCallback, error) {
	check, err := knownhosts.New(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errNoKnownHosts
	}
	if err != nil {
		return nil, fault.Permanent(fault.New(fault.Invalid, "read known hosts: %w", err))
	}
	return check, nil
}

// knownKinds returns the kinds of the keys that are known of a host, in the order of the file. It asks
// about a key that no host has, since the answer names the keys that the check would accept. It returns nil
// when there are none: then the handshake finds out what the host shows.
func knownKinds(check ssh.HostKeyCallback, t Target) (kinds []string) {
	err := check(t.Address, &net.TCPAddr{}, noKey{})
	mismatch, ok := errors.AsType[*knownhosts.KeyError](err)
	if !ok {
		return nil
	}
	for _, known := range mismatch.Want {
		kind := known.Key.Type()
		if kind == ssh.KeyAlgoRSA { // one key, which signs in several ways
			kinds = append(kinds, ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256)
			continue
		}
		kinds = append(kinds, kind)
	}
	return kinds
}

// noKey is a public key that no host has.
type noKey struct{}

func (noKey) Type() string                        { return "none" }
func (noKey) Marshal() []byte                     { return []byte("none") }
func (noKey) Verify([]byte, *ssh.Signature) error { return errors.New("not a key") }

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
	return fault.Permanent(fault.New(fault.Refused, "the host key of %s has changed: it shows %s (%s), known is %s", t.Address, seen, kind, want).
		WithHint("find out why before you change hostKey or knownHosts: another machine may answer"))
}

// signers reads the key that a target names, or what it can of the keys for all targets.
func (c *Config) signers(t Target) (signers []ssh.Signer, err error) {
	if t.Identity != "" {
		return identity(t.Identity)
	}
	for _, file := range c.Identities {
		if found, err := identity(file); err == nil {
			signers = append(signers, found...)
		}
	}
	return signers, nil
}

// identity reads a private key. A file NAME-cert.pub beside it is its certificate, which comes first.
func identity(file string) (signers []ssh.Signer, err error) {
	signer, err := readKey(file)
	if err != nil {
		return nil, fault.Permanent(fault.New(fault.Invalid, "read the ssh key %s: %w", file, err))
	}
	certificate, err := readCertificate(file+"-cert.pub", signer)
	if err != nil {
		return nil, fault.Permanent(fault.New(fault.Invalid, "read the ssh certificate %s-cert.pub: %w", file, err))
	}
	if certificate != nil {
		signers = append(signers, certificate)
	}
	return append(signers, signer), nil
}

// readKey reads a private key without a passphrase. Like ssh itself, it refuses a file that others can read.
func readKey(file string) (ssh.Signer, error) {
	text, err := readSmall(file)
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(file)
	if err != nil {
		return nil, err
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("others can read it (mode %04o): chmod 600 %s", info.Mode().Perm(), filepath.Base(file))
	}
	signer, err := ssh.ParsePrivateKey(text)
	if _, locked := errors.AsType[*ssh.PassphraseMissingError](err); locked {
		return nil, errors.New("it has a passphrase: add it to an ssh-agent, and leave out identity")
	}
	return signer, err
}

// readCertificate reads the certificate of a key; nil when there is no file.
func readCertificate(file string, signer ssh.Signer) (ssh.Signer, error) {
	text, err := readSmall(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	key, _, _, _, err := ssh.ParseAuthorizedKey(text)
	if err != nil {
		return nil, err
	}
	certificate, ok := key.(*ssh.Certificate)
	if !ok {
		return nil, fmt.Errorf("it holds a %s key, want a certificate", strings.TrimPrefix(key.Type(), "ssh-"))
	}
	return ssh.NewCertSigner(certificate, signer)
}

func readSmall(file string) ([]byte, error) {
	info, err := os.Stat(file)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, errors.New("it is not a regular file")
	case info.Size() > maxKeyFile:
		return nil, fmt.Errorf("it has %d bytes, at most %d are read", info.Size(), maxKeyFile)
	}
	return os.ReadFile(file)
}
