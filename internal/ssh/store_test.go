package ssh

import (
	"crypto/ed25519"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/crypto/ssh"
)

func TestKeysThatAreStoredAtTheSameTimeAreAllKept(t *testing.T) {
	t.Parallel()
	public, _, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	key, err := ssh.NewPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "new", "known_hosts")
	const callers = 20
	var wait sync.WaitGroup
	for i := range callers {
		wait.Go(func() {
			if err := Store(file, []Shown{{Address: fmt.Sprintf("host%d.example.net:22", i), key: key}}); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if lines := strings.Count(string(text), "\n"); lines != callers {
		t.Errorf("%d of %d keys are kept:\n%s", lines, callers, text)
	}
}
