package mirror

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/git/gittest"
	"github.com/waybill-dev/waybill/internal/marker"
)

// host is a Git host, and requests to it.
type host struct{ *gittest.Host }

func newHost(t *testing.T, files map[string]string) host { return host{gittest.New(t, files)} }

func (h host) remote() Remote {
	return Remote{URL: h.URL(), Scope: "apps/fleet-git", Username: gittest.User, Password: gittest.Password, CA: h.CA()}
}

const head = "promotion-apps-podinfo-prod"

// request returns one for a revision in prod.
func (h host) request(revision string) Request {
	return Request{
		Remote: h.remote(), Base: "main", Head: head, Of: marker.Environment{Namespace: "apps", Pipeline: "podinfo", Name: "prod"},
		Revision: revision, Run: "run-12", At: time.Date(2026, 1, 2, 14, 2, 0, 0, time.UTC),
	}
}

// open returns a store in a new folder.
func open(t *testing.T) *Store {
	t.Helper()
	s, err := Open(Options{Dir: filepath.Join(t.TempDir(), "mirrors")})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func propose(t *testing.T, s *Store, r Request) Result {
	t.Helper()
	result, err := s.Propose(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return result
}
