package ssh

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
)

// newKey returns a public key, and its text as a line of known hosts has it.
func newKey(t testing.TB) (ssh.PublicKey, string) {
	t.Helper()
	public, _, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	key, err := ssh.NewPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	return key, strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key)))
}

// TestKnownHostsAreReadAsOpenSSHDoes: A and B are keys of a kind; the host shows A.
func TestKnownHostsAreReadAsOpenSSHDoes(t *testing.T) {
	t.Parallel()
	a, textA := newKey(t)
	_, textB := newKey(t)
	const known, unknown, changed, revoked = "", "is not known", "has changed", "revoked"
	for _, c := range []struct{ file, address, want string }{
		{"elm A", "elm:22", known},
		{"elm B", "elm:22", changed},
		{"elm B\nelm A", "elm:22", known},
		{"ELM A", "Elm:22", known},
		{"oak,elm A", "elm:22", known},
		{"oak A", "elm:22", unknown},
		{"e?m A", "elm:22", known},
		{"*.net,!elm.net A", "elm.net:22", unknown},
		{"*.net,!elm.net A", "oak.net:22", known},
		{"!oak,e* A", "elm:22", known},
		{"[elm]:2222 A", "elm:2222", known},
		{"[elm]:2222 A", "elm:22", unknown},
		{"[*]:2222 A", "elm:2222", known},
		// A line without a port accepts its key at every port, but another key there is only not known.
		{"elm A", "elm:2222", known},
		{"elm B", "elm:2222", unknown},
		{"elm A\n[elm]:2222 B", "elm:2222", changed},
		{"elm A\n[elm]:2223 B", "elm:2222", known},
		{"elm A", "oak:2222", unknown},
		{"[elm]:22 A", "elm:22", known},
		{"::1 A", "[::1]:22", known},
		{"[::1] A", "[::1]:22", known},
		{"[::1]:2222 A", "[::1]:2222", known},
		{knownhosts.HashHostname("elm") + " A", "elm:22", known},
		{knownhosts.HashHostname("elm") + " A", "elm:2222", known},
		{knownhosts.HashHostname("[elm]:2222") + " A", "elm:2222", known},
		{knownhosts.HashHostname("elm") + " A", "oak:22", unknown},
		// A key that is revoked for one host is not for others.
		{"@revoked elm A\nelm,oak A", "elm:22", revoked},
		{"@revoked elm A\nelm,oak A", "oak:22", known},
		{"@revoked * A\nelm,oak A", "oak:22", revoked},
		{"@revoked elm A\nelm A", "elm:2222", revoked},
		{"@cert-authority * A", "elm:22", unknown},
		{"# elm A\n\n   \t\nelm A and a comment of words", "elm:22", known},
		{"  elm\tA\r", "elm:22", known},
		{"elm ssh-future AAAA\nelm 1024 35 12345\nelm A", "elm:22", known},
	} {
		text := strings.NewReplacer(" A", " "+textA, " B", " "+textB, "\tA", "\t"+textA).Replace(c.file)
		k, err := parseKnownHosts([]byte(text))
		if err != nil {
			t.Errorf("%q: %v", c.file, err)
			continue
		}
		err = k.check(Target{Address: c.address, KnownHosts: "FILE"}, a)
		if (err == nil) != (c.want == "") || !strings.Contains(fmt.Sprint(err), c.want) {
			t.Errorf("%q at %s: %v, want %q", c.file, c.address, err, c.want)
		}
	}
}

func TestADamagedLineIsNamed(t *testing.T) {
	t.Parallel()
	_, text := newKey(t)
	for line, want := range map[string]string{
		"elm":                            "want hosts",
		"@revoke elm " + text:            `"@revoke" is not a marker`,
		"elm ssh-ed25519 !!!":            "not valid base64",
		"elm ssh-ed25519 AAAA":           "not valid",
		"elm ssh-rsa" + text[11:]:        "is of the kind",
		"|1|x|y " + text:                 "hashed host",
		"@revoked elm ssh-ed25519 AAAA=": "not valid",
	} {
		if _, err := parseKnownHosts([]byte("# first\n" + line + "\n")); err == nil ||
			!strings.Contains(err.Error(), "line 2: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", line, err, want)
		}
	}
}

// TestTheHostIsAskedForWhatIsKnown: first for certificates, if an authority is known for it; then for known kinds.
func TestTheHostIsAskedForWhatIsKnown(t *testing.T) {
	t.Parallel()
	curve, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	key, err := ssh.NewPublicKey(&curve.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	_, authority := newKey(t)
	text := "elm " + string(ssh.MarshalAuthorizedKey(key)) + "@cert-authority *.net " + authority + "\n"
	k, err := parseKnownHosts([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	for address, want := range map[string]string{
		"elm:22": ssh.KeyAlgoECDSA256, "elm:2222": ssh.KeyAlgoECDSA256, "oak:22": ssh.KeyAlgoED25519, "oak.net:22": ssh.CertAlgoED25519v01,
	} {
		kinds := k.kinds(address)
		if kinds[0] != want || strings.Contains(strings.Join(kinds, " "), "cert") != strings.Contains(want, "cert") {
			t.Errorf("%s is asked for %v, want %s first", address, kinds, want)
		}
	}
}

// FuzzKnownHosts: whatever a file holds, reading it ends, and a key is accepted only by a line that has it.
func FuzzKnownHosts(f *testing.F) {
	a, textA := newKey(f)
	_, textB := newKey(f)
	for _, seed := range []string{"elm A", "*,!elm A", "@revoked elm A\nelm B", "@cert-authority *.net A",
		"|1|AAAA|AAAA A", "[elm]:2222,[::1] A # x",
		"elm ssh-rsa AAAA", knownhosts.HashHostname("elm") + " A", "a*b*c*d*e*f*g A", "@", "@revoked", "\x00 A",
		"elm A B\r\n\nelm", "!!! A", "[]:22 A"} {
		f.Add([]byte(strings.NewReplacer(" A", " "+textA, " B", " "+textB).Replace(seed)), "elm:22")
	}
	f.Add([]byte("[elm]:22 "+textA), "[::1]:2222")
	f.Fuzz(func(t *testing.T, text []byte, address string) {
		k, err := parseKnownHosts(text)
		if err != nil {
			return
		}
		err = k.check(Target{Address: address}, a)
		if len(k.kinds(address)) == 0 {
			t.Error("no kinds to ask for")
		}
		if err == nil && !strings.Contains(string(text), strings.Fields(textA)[1]) {
			t.Errorf("a key that the file does not have is accepted at %q:\n%s", address, text)
		}
	})
}

// FuzzPrivateKey: whatever a file holds, reading it ends, with a key that signs or an error.
func FuzzPrivateKey(f *testing.F) {
	_, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		f.Fatal(err)
	}
	open, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(pem.EncodeToMemory(open))
	f.Add([]byte("-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00\n\nAAAA\n-----END RSA PRIVATE KEY-----\n"))
	f.Add([]byte("-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEA\n-----END OPENSSH PRIVATE KEY-----\n"))
	f.Add([]byte("ssh-ed25519 AAAA"))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, text []byte) {
		signer, err := parseKey(text)
		if locked, ok := errors.AsType[*lockedKey](err); ok && locked.public == nil {
			t.Error("a locked key without its public half")
		}
		if (signer == nil) == (err == nil) {
			t.Errorf("%v, %v", signer, err)
		}
	})
}

// FuzzCertificate: whatever a file holds, reading it ends, with a certificate of this very key or an error.
func FuzzCertificate(f *testing.F) {
	_, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		f.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(private)
	if err != nil {
		f.Fatal(err)
	}
	certificate := &ssh.Certificate{Key: signer.PublicKey(), CertType: ssh.HostCert, ValidPrincipals: []string{"elm"},
		ValidBefore: ssh.CertTimeInfinity}
	if err := certificate.SignCert(rand.Reader, signer); err != nil {
		f.Fatal(err)
	}
	f.Add(ssh.MarshalAuthorizedKey(certificate))
	f.Add(ssh.MarshalAuthorizedKey(signer.PublicKey()))
	f.Add([]byte("ssh-ed25519-cert-v01@openssh.com AAAA"))
	f.Add([]byte("# none\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		got, err := parseCertificate(text, signer)
		if err != nil {
			return
		}
		read, ok := got.PublicKey().(*ssh.Certificate)
		if !ok || !same(read.Key, signer.PublicKey()) {
			t.Errorf("%v is not a certificate of the key", got.PublicKey())
		}
		if err := checkCertificate(Target{Address: "elm:22"},
			read); err == nil && !same(read.SignatureKey, signer.PublicKey()) && len(read.ValidPrincipals) > 0 && read.ValidPrincipals[0] != "elm" {
			t.Errorf("a certificate of %v counts for elm", read.ValidPrincipals)
		}
	})
}
