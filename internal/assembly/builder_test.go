package assembly

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/token"
)

func TestTheBuilderKeyIsMadeOnce(t *testing.T) {
	t.Parallel()
	h := Home{Dir: t.TempDir()}
	made := make([]build.BuilderKeys, 8)
	var all sync.WaitGroup
	for i := range made {
		all.Go(func() { made[i], _ = h.BuilderKeys("") })
	}
	all.Wait()
	for _, keys := range made {
		if diff := cmp.Diff(made[0], keys); diff != "" || len(keys) != 1 || len(keys[0].Secret) != build.BuilderSecretSize {
			t.Errorf("%d keys: %s", len(keys), diff)
		}
	}
	path := filepath.Join(h.Dir, "builder.key")
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	if err := os.Chmod(path, 0o640); err != nil {
		t.Fatal(err)
	}
	_, err := h.BuilderKeys("")
	wantFault(t, err, fault.Invalid, "other users may read "+path)
	if err := errors.Join(os.WriteFile(path, []byte("k1 secret"), 0o600), os.Chmod(path, 0o600)); err != nil {
		t.Fatal(err)
	}
	if _, err = h.BuilderKeys(path); err == nil || strings.Contains(err.Error(), "k1 secret") {
		t.Error(err)
	}
	if _, err = h.BuilderKeys(filepath.Join(h.Dir, "other.key")); !fault.Is(err, fault.Unavailable) {
		t.Errorf("a named file that is missing: %v", err)
	}
}

// provisionerIn runs the role provisioner in a home until the test ends, and returns its session and address.
func provisionerIn(t *testing.T, configuration string) (*Session, string) {
	t.Helper()
	dir := t.TempDir()
	p := placeIn(dir, nil)
	settings(t, p, configuration)
	s, err := p.Open(t.Context(), dir, Serve)
	if err != nil {
		t.Fatal(err)
	}
	said := &addresses{found: make(chan string, 1)}
	roles, err := s.Roles(t.Context(), RoleOptions{Log: slog.New(slog.NewJSONHandler(said, nil))}, RoleProvisioner)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- roles[0].Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		s.Close()
	})
	return s, <-said.found
}

// addresses finds the address that a role logs.
type addresses struct{ found chan string }

func (a *addresses) Write(p []byte) (int, error) {
	var line struct{ URL string }
	if json.Unmarshal(p, &line) == nil && line.URL != "" {
		a.found <- line.URL
	}
	return len(p), nil
}

func TestOnlyTokensForWorkersReachAProvisioner(t *testing.T) {
	t.Parallel()
	named := sha256.Sum256([]byte("a token of another environment"))
	s, address := provisionerIn(t, fmt.Sprintf("builder: {provisioner: {listen: 127.0.0.1:0, tokens: [%q]}}", hex.EncodeToString(named[:])))
	for name, scope := range map[string]string{"worker": "worker", "reader": "read", "former": "worker"} {
		if err := s.Ledger.CreateToken(t.Context(),
			token.Token{Hash: sha256.Sum256([]byte("the stored one: " + name)), Name: name, Scopes: []string{scope}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Ledger.RevokeToken(t.Context(), "former"); err != nil {
		t.Fatal(err)
	}
	own, err := os.ReadFile(s.Home.Token())
	if err != nil {
		t.Fatal(err)
	}
	for given, want := range map[string]int{
		strings.TrimSpace(string(own)):   http.StatusOK,
		"a token of another environment": http.StatusOK,
		"the stored one: worker":         http.StatusOK,
		"the stored one: reader":         http.StatusForbidden,
		"the stored one: former":         http.StatusUnauthorized,
		"another one":                    http.StatusUnauthorized,
	} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address+"/api/worker", nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Authorization", "Bearer "+given)
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(response.Body)
		if err := errors.Join(err, response.Body.Close()); err != nil || response.StatusCode != want {
			t.Errorf("%s: %s %s, %v, want %d", given, response.Status, text, err, want)
		}
	}
}
