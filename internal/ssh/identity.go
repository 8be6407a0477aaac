package ssh

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"github.com/waybill-dev/waybill/internal/fault"
)

// maxKeyFile is the size limit of a key file, in bytes.
const maxKeyFile = 64 << 10

// methods returns how to authenticate: with the key that the target names, else with those of the agent
// and then the configured ones. done is called after the handshake: an agent is asked during it.
func (c *Config) methods(ctx context.Context, t Target) (methods []ssh.AuthMethod, done func(), err error) {
	if t.Identity != "" {
		return c.named(ctx, t.Identity)
	}
	var signers []ssh.Signer
	for _, file := range c.Identities {
		if found, err := identity(file); err == nil {
			signers = append(signers, found...)
		}
	}
	if c.Agent != "" {
		held, done, err := c.agent(ctx)
		switch {
		case err == nil:
			both := func() ([]ssh.Signer, error) {
				held, err := held.Signers()
				if err != nil && len(signers) == 0 {
					return nil, err
				}
				return append(held, signers...), nil
			}
			return []ssh.AuthMethod{ssh.PublicKeysCallback(both)}, done, nil
		case len(signers) == 0:
			return nil, nil, err
		}
	}
	return []ssh.AuthMethod{ssh.PublicKeys(signers...)}, func() {}, nil
}

// named returns how to authenticate with the key in a file, which the agent has if the file has only its public half, or
// needs a passphrase.
func (c *Config) named(ctx context.Context, file string) (methods []ssh.AuthMethod, done func(), err error) {
	signers, err := identity(file)
	locked, ok := errors.AsType[*lockedKey](err)
	if !ok || c.Agent == "" {
		return []ssh.AuthMethod{ssh.PublicKeys(signers...)}, func() {}, err
	}
	held, done, err := c.agent(ctx)
	if err != nil {
		return nil, nil, err
	}
	all, err := held.Signers()
	all = slices.DeleteFunc(all, func(s ssh.Signer) bool { return !same(inside(s.PublicKey()), locked.public) })
	if err == nil && len(all) == 0 {
		err = fault.New(fault.Refused, "the ssh-agent does not have the key of %s", file).WithHint("ssh-add %s", file)
	}
	if err != nil {
		done()
		return nil, nil, fault.Permanent(err)
	}
	return []ssh.AuthMethod{ssh.PublicKeys(all...)}, done, nil
}

// agent connects to the agent. done ends the connection.
func (c *Config) agent(ctx context.Context) (held agent.Agent, done func(), err error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", c.Agent)
	if err != nil {
		return nil, nil, fault.Permanent(fault.New(fault.Unavailable, "reach the ssh-agent: %w", err))
	}
	return agent.NewClient(conn), func() { _ = conn.Close() }, nil
}

// lockedKey is the error of a file whose private key cannot be read, but whose public one can.
type lockedKey struct {
	public ssh.PublicKey
	reason string
}

func (l *lockedKey) Error() string { return l.reason }

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
	text, err := readSmall(file, maxKeyFile)
	if err != nil {
		return nil, err
	}
	if public, _, _, _, err := ssh.ParseAuthorizedKey(text); err == nil && filepath.Ext(file) == ".pub" {
		return nil, &lockedKey{inside(public), "it is a public key: add its private one to an ssh-agent"}
	}
	info, err := os.Stat(file)
	if err != nil {
		return nil, err
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("others can read it (mode %04o): chmod 600 %s", info.Mode().Perm(), filepath.Base(file))
	}
	return parseKey(text)
}

// parseKey reads the text of a private key.
func parseKey(text []byte) (ssh.Signer, error) {
	signer, err := ssh.ParsePrivateKey(text)
	if missing, ok := errors.AsType[*ssh.PassphraseMissingError](err); ok {
		if missing.PublicKey == nil {
			return nil, errors.New("it has a passphrase: add it to an ssh-agent, and leave out identity")
		}
		return nil, &lockedKey{missing.PublicKey, "it has a passphrase: add it to an ssh-agent"}
	}
	return signer, err
}

// readCertificate reads the certificate of a key; nil when there is no file.
func readCertificate(file string, signer ssh.Signer) (ssh.Signer, error) {
	text, err := readSmall(file, maxKeyFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return parseCertificate(text, signer)
}

// parseCertificate reads the text of a key's certificate.
func parseCertificate(text []byte, signer ssh.Signer) (ssh.Signer, error) {
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
