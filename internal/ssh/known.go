package ssh

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // OpenSSH hashes the names of hosts by it
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"slices"
	"strings"
	"sync"

	"golang.org/x/crypto/ssh"

	"github.com/waybill-dev/waybill/internal/fault"
)

// maxKnownHosts is the size limit of a file of known hosts, in bytes.
const maxKnownHosts = 16 << 20

// Markers at the start of a line.
const (
	markAuthority = "@cert-authority" // the key signs the certificates of the hosts
	markRevoked   = "@revoked"        // the key is refused for the hosts
)

// knownHosts is a file of host keys in OpenSSH's format.
type knownHosts []knownKey

// knownKey is one line: a key and its hosts.
type knownKey struct {
	mark     string   // "": it is the hosts' own key
	patterns []string // in lower case; nil: salt and sum
	salt     []byte
	sum      []byte // the HMAC of one host's name
	key      ssh.PublicKey
}

// parseKnownHosts reads a file of host keys. Lines with kinds of keys that Waybill does not speak count for nothing.
func parseKnownHosts(text []byte) (known knownHosts, err error) {
	number := 0
	for line := range bytes.Lines(text) {
		number++
		k, err := parseKnownKey(string(line))
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		if k.key != nil {
			known = append(known, k)
		}
	}
	return known, nil
}

// parseKnownKey reads a line. The key is nil when there is none to read.
func parseKnownKey(line string) (k knownKey, err error) {
	fields := strings.Fields(line)
	if len(fields) == 0 || fields[0][0] == '#' {
		return k, nil
	}
	if fields[0][0] == '@' {
		if k.mark = fields[0]; k.mark != markAuthority && k.mark != markRevoked {
			return k, fmt.Errorf("%.40q is not a marker", k.mark)
		}
		fields = fields[1:]
	}
	if len(fields) < 3 {
		return k, errors.New("want hosts, the kind of a key, and the key")
	}
	if !spoken(fields[1]) {
		return k, nil
	}
	if err := k.setHosts(fields[0]); err != nil {
		return k, err
	}
	blob, err := base64.StdEncoding.DecodeString(fields[2])
	if err != nil {
		return k, errors.New("the key is not valid base64")
	}
	key, err := ssh.ParsePublicKey(blob)
	switch {
	case err != nil:
		return k, fmt.Errorf("the key is not valid: %w", err)
	case key.Type() != fields[1]:
		return k, fmt.Errorf("the key is of the kind %.40q, not %s", key.Type(), fields[1])
	}
	k.key = inside(key)
	return k, nil
}

// setHosts parses the hosts of a line.
func (k *knownKey) setHosts(field string) error {
	if rest, hashed := strings.CutPrefix(field, "|1|"); hashed {
		salt, sum, _ := strings.Cut(rest, "|")
		var err, failed error
		k.salt, err = base64.StdEncoding.DecodeString(salt)
		if k.sum, failed = base64.StdEncoding.DecodeString(sum); err != nil || failed != nil || len(k.sum) != sha1.Size {
			return errors.New("the hashed host is not valid")
		}
		return nil
	}
	k.patterns = strings.Split(strings.ToLower(field), ",")
	for i, p := range k.patterns {
		// A name in brackets that needs none, as other programs write it.
		if bare, ok := strings.CutSuffix(strings.TrimSuffix(p, ":22"), "]"); ok && strings.HasPrefix(bare, "[") {
			k.patterns[i] = bare[1:]
		}
	}
	return nil
}

// names reports whether the line is for a host, by its name as OpenSSH writes it: with the port unless that is 22.
func (k *knownKey) names(host string) (named bool) {
	if k.sum != nil {
		mac := hmac.New(sha1.New, k.salt)
		mac.Write([]byte(host)) // never fails
		return hmac.Equal(mac.Sum(nil), k.sum)
	}
	for _, p := range k.patterns {
		except, negated := strings.CutPrefix(p, "!")
		switch {
		case negated && matches(except, host):
			return false
		case !negated && matches(p, host):
			named = true
		}
	}
	return named
}

// matches reports whether a pattern with * and ? is a name's.
func matches(pattern, name string) bool {
	star, resume := -1, 0 // where to resume when the star before takes one character more
	p, n := 0, 0
	for n < len(name) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, resume = p, n
			p++
		case p < len(pattern) && (pattern[p] == '?' || pattern[p] == name[n]):
			p++
			n++
		case star >= 0:
			resume++
			p, n = star+1, resume
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}

// hostName returns how a host and its port are written in a file of known hosts.
func hostName(host, port string) string {
	if port == "22" {
		return strings.ToLower(host)
	}
	return "[" + strings.ToLower(host) + "]:" + port
}

// of returns the lines for an address HOST:PORT, and after them, for another port than 22, those for the host without a
// port. own is the number of the first ones.
func (k knownHosts) of(address string) (found knownHosts, own int) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, 0
	}
	found = k.named(hostName(host, port))
	own = len(found)
	if port != "22" {
		found = append(found, k.named(hostName(host, "22"))...)
	}
	return found, own
}

func (k knownHosts) named(name string) (found knownHosts) {
	for i := range k {
		if k[i].names(name) {
			found = append(found, k[i])
		}
	}
	return found
}

// has reports whether a line with the mark has the key.
func (k knownHosts) has(mark string, key ssh.PublicKey) bool {
	return slices.ContainsFunc(k, func(line knownKey) bool { return line.mark == mark && same(line.key, key) })
}

// keys returns the keys with the mark.
func (k knownHosts) keys(mark string) (keys []ssh.PublicKey) {
	for _, line := range k {
		if line.mark == mark {
			keys = append(keys, line.key)
		}
	}
	return keys
}

// check judges the key that a target shows, as OpenSSH does: a certificate that no authority of the host has signed, or
// that is not valid, counts as the key inside; a line without a port accepts its key at every port.
func (k knownHosts) check(t Target, key ssh.PublicKey) error {
	found, own := k.of(t.Address)
	certificate, certified := key.(*ssh.Certificate)
	plain := inside(key)
	if found.has(markRevoked, plain) || certified && found.has(markRevoked, certificate.SignatureKey) {
		return fault.Permanent(fault.New(fault.Refused, "the key of %s is revoked by %s: %s", t.Address, t.KnownHosts,
			ssh.FingerprintSHA256(plain)))
	}
	reason := errUnknownKey
	if certified && found.has(markAuthority, certificate.SignatureKey) {
		err := checkCertificate(t, certificate)
		if err == nil {
			return nil
		}
		reason = fmt.Errorf("%w, and its certificate does not count: %w", reason, err)
	}
	want := found[:own].keys("")
	switch {
	case found[:own].has("", plain), len(want) == 0 && found.has("", plain):
		return nil
	case len(want) == 0:
		return unknownKey(t, ssh.FingerprintSHA256(plain), reason)
	}
	like := max(0, slices.IndexFunc(want, func(other ssh.PublicKey) bool { return other.Type() == plain.Type() }))
	return changedKey(t, plain.Type(), ssh.FingerprintSHA256(plain), ssh.FingerprintSHA256(want[like]))
}

// checkCertificate checks the kind, the validity and the principals of a host's certificate. Its authority is known.
func checkCertificate(t Target, c *ssh.Certificate) error {
	if c.CertType != ssh.HostCert {
		return errors.New("it is not a certificate of a host")
	}
	host, _, err := net.SplitHostPort(t.Address)
	if err != nil {
		return err
	}
	return new(ssh.CertChecker).CheckCert(host, c)
}

// kinds returns the kinds of keys to ask a host for: certificates only if an authority is known for the host, and the
// kinds that are known before the rest.
func (k knownHosts) kinds(address string) []string {
	found, _ := k.of(address)
	known := map[string]bool{}
	for _, key := range found.keys("") {
		known[key.Type()] = true
	}
	var certificates, first, rest []string
	for _, kind := range hostKinds {
		if found.keys(markAuthority) != nil {
			certificates = append(certificates, kind.certificates...)
		}
		if known[kind.name] {
			first = append(first, kind.algorithms...)
		} else {
			rest = append(rest, kind.algorithms...)
		}
	}
	return slices.Concat(certificates, first, rest)
}

// knows reports whether some line can accept the target's key.
func (k knownHosts) knows(address string) bool {
	found, _ := k.of(address)
	return found.keys("") != nil || found.keys(markAuthority) != nil
}

// hostKind is a kind of host key and its signature algorithms.
type hostKind struct {
	name                     string
	algorithms, certificates []string
}

// hostKinds are the kinds of keys that a host is asked for, the best first. Documentation has people compare the first.
var hostKinds = []hostKind{
	{ssh.KeyAlgoED25519, []string{ssh.KeyAlgoED25519}, []string{ssh.CertAlgoED25519v01}},
	{ssh.KeyAlgoECDSA256, []string{ssh.KeyAlgoECDSA256}, []string{ssh.CertAlgoECDSA256v01}},
	{ssh.KeyAlgoECDSA384, []string{ssh.KeyAlgoECDSA384}, []string{ssh.CertAlgoECDSA384v01}},
	{ssh.KeyAlgoECDSA521, []string{ssh.KeyAlgoECDSA521}, []string{ssh.CertAlgoECDSA521v01}},
	{ssh.KeyAlgoRSA, []string{ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256}, []string{ssh.CertAlgoRSASHA512v01, ssh.CertAlgoRSASHA256v01}},
}

// algorithmsOf returns the signature algorithms of a kind of key.
func algorithmsOf(name string) []string {
	for _, kind := range hostKinds {
		if kind.name == name {
			return kind.algorithms
		}
	}
	return nil
}

// spoken reports whether keys of a kind can be read: hosts' own, those of authorities, and certificates.
func spoken(kind string) bool {
	kind, _ = strings.CutSuffix(kind, "-cert-v01@openssh.com")
	return algorithmsOf(kind) != nil || algorithmsOf(strings.TrimPrefix(strings.TrimSuffix(kind, "@openssh.com"), "sk-")) != nil
}

// inside returns the key of a certificate, and any other key as it is.
func inside(key ssh.PublicKey) ssh.PublicKey {
	if certificate, ok := key.(*ssh.Certificate); ok {
		return certificate.Key
	}
	return key
}

func same(a, b ssh.PublicKey) bool { return bytes.Equal(a.Marshal(), b.Marshal()) }

// knownFiles keeps files of host keys that were read, each until it changes: one with many hosts takes longer
// to read than the rest of a dial. Safe for concurrent use.
type knownFiles struct {
	mu    sync.Mutex
	files map[string]knownFile // by path
}

type knownFile struct {
	info  fs.FileInfo // state of the file at the read
	known knownHosts
}

// read returns a file's keys as they are now. The error is errNoKnownHosts if there is none.
func (k *knownFiles) read(file string) (knownHosts, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	info, err := os.Stat(file) // before it is read: what changes in the meantime is seen the next time
	kept, ok := k.files[file]
	if err == nil && ok && os.SameFile(info, kept.info) && info.Size() == kept.info.Size() && info.ModTime().Equal(kept.info.ModTime()) {
		return kept.known, nil
	}
	known, failed := readKnownHosts(file)
	if failed == nil && err == nil {
		k.files[file] = knownFile{info, known}
	}
	return known, failed
}

// readKnownHosts reads a file of host keys. The error is errNoKnownHosts if there is none.
func readKnownHosts(file string) (knownHosts, error) {
	text, err := readSmall(file, maxKnownHosts)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errNoKnownHosts
	}
	var known knownHosts
	if err == nil {
		known, err = parseKnownHosts(text)
	}
	if err != nil {
		return nil, fault.Permanent(fault.New(fault.Invalid, "read known hosts: %s: %w", file, err))
	}
	return known, nil
}
