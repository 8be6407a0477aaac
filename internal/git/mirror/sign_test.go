package mirror

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"encoding/pem"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"
)

// newKey returns a private key in the form of ssh-keygen, and its public part.
func newKey(t *testing.T, private any) (key []byte, public string) {
	t.Helper()
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(block), strings.TrimSpace(string(ssh.MarshalAuthorizedKey(signer.PublicKey())))
}

func newEd25519(t *testing.T) ed25519.PrivateKey {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return private
}

func TestSignedCommitsAreTheSameEachTime(t *testing.T) {
	t.Parallel()
	h := newHost(t, fleet())
	key, public := newKey(t, newEd25519(t))
	request := h.request("6.6.0")
	request.SigningKey = key
	first := propose(t, open(t), request)
	signers := filepath.Join(t.TempDir(), "signers")
	if err := os.WriteFile(signers, []byte(Committer{}.orDefault().Email+" "+public+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	h.Git(h.Dir, "-c", "gpg.ssh.allowedSignersFile="+signers, "verify-commit", first.Head)
	if again := propose(t, open(t), request); again.Pushed {
		t.Errorf("%+v", again)
	}
	h.Git(h.Dir, "update-ref", "-d", "refs/heads/"+head)
	if second := propose(t, open(t), request); second.Head != first.Head {
		t.Errorf("the commits are %s and %s", first.Head, second.Head)
	}
}

func TestOtherSigningKeysAreRefused(t *testing.T) {
	t.Parallel()
	h := newHost(t, fleet())
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	other, _ := newKey(t, private)
	block, err := ssh.MarshalPrivateKeyWithPassphrase(newEd25519(t), "", []byte("phrase"))
	if err != nil {
		t.Fatal(err)
	}
	for name, key := range map[string][]byte{"RSA": other, "a passphrase": pem.EncodeToMemory(block), "no key": []byte("ssh-ed25519 AAAA")} {
		request := h.request("6.6.0")
		request.SigningKey = key
		_, err := open(t).Propose(t.Context(), request)
		if e, ok := errors.AsType[*Error](err); !ok || e.Reason != BadSecret || e.Class != Fatal {
			t.Errorf("%s: %v", name, err)
		}
	}
	if h.Tip(head) != "" {
		t.Error("a commit was pushed without a signature")
	}
}
