//go:build services

// Package githosts runs the suite of Git hosts against real ones.
package githosts

import (
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/githost"
	"github.com/waybill-dev/waybill/internal/githost/githosttest"
	"github.com/waybill-dev/waybill/internal/promotion"
	"github.com/waybill-dev/waybill/internal/webhook"
	"github.com/waybill-dev/waybill/test/testbed"
)

// world is a repository on a real Gitea. Waybill is the user waybill there.
type world struct {
	waybill *testbed.GitHost
	fleet   *testbed.Repository
	clone   *testbed.Clone
	hosts   *githost.Hosts
	pushes  int
}

func (w *world) Config(branch string) promotion.Host {
	return promotion.Host{Type: githost.Gitea, URL: w.fleet.URL, Base: "main", Branch: branch}
}

func (w *world) Person(name string) string { return name }

func (w *world) Open(t testing.TB, host promotion.Host) *githost.Client {
	t.Helper()
	c, err := w.hosts.Open(host, map[string]string{githost.KeyToken: w.waybill.Token, githost.KeyUsername: w.waybill.User})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (w *world) Push(t testing.TB, branch, message string) string {
	t.Helper()
	w.clone.Git(t, "fetch", "--quiet", "origin")
	w.clone.Git(t, "checkout", "--quiet", "-B", branch, "origin/main")
	return w.commit(t, branch, message)
}

func (w *world) Append(t testing.TB, branch, message string) string {
	t.Helper()
	w.clone.Git(t, "fetch", "--quiet", "origin")
	w.clone.Git(t, "checkout", "--quiet", "-B", branch, "origin/"+branch)
	return w.commit(t, branch, message)
}

// commit adds a commit that changes a file, and pushes by force.
func (w *world) commit(t testing.TB, branch, message string) string {
	t.Helper()
	w.pushes++
	name := "change-" + strconv.Itoa(w.pushes)
	write(t, w.clone, name, message)
	w.clone.Git(t, "add", "--all")
	w.clone.Git(t, "commit", "--quiet", "--message", message)
	w.clone.Git(t, "push", "--quiet", "--force", "origin", branch)
	return w.clone.Git(t, "rev-parse", "HEAD")
}

func (w *world) SetCheck(t testing.TB, sha, name, state string) {
	t.Helper()
	w.fleet.SetStatus(t, sha, name, state)
}

func (w *world) MergeByPerson(t testing.TB, number int64) {
	t.Helper()
	w.fleet.Merge(t, number, "merge")
}

func (w *world) CloseByPerson(t testing.TB, number int64) { t.Helper(); w.fleet.ClosePull(t, number) }

func (w *world) Pulls(t testing.TB) []githosttest.Pull {
	t.Helper()
	var pulls []githosttest.Pull
	for _, p := range w.fleet.Pulls(t, "all") {
		pull := githosttest.Pull{Number: p.Number, Title: p.Title, Body: p.Body, State: githosttest.State(p.State), Head: p.Head.Name,
			Base: p.Base.Name, SHA: p.Head.SHA, Comments: w.fleet.Comments(t, p.Number)}
		if p.Merged {
			pull.State = githosttest.Merged
		}
		for _, l := range p.Labels {
			pull.Labels = append(pull.Labels, l.Name)
		}
		pulls = append([]githosttest.Pull{pull}, pulls...)
	}
	return pulls
}

// TestGiteaConforms runs the suite of all drivers against one real Gitea, with a repository for each row.
func TestGiteaConforms(t *testing.T) {
	t.Parallel()
	root := testbed.Gitea(t)
	waybill := root.As(t, "waybill")
	for _, user := range []string{"ann", "bob"} {
		root.As(t, user)
	}
	var rows atomic.Int64
	githosttest.Run(t, func(t *testing.T) githosttest.World {
		t.Helper()
		owner := "apps-" + strconv.FormatInt(rows.Add(1), 10)
		root.Organisation(t, owner)
		fleet := root.Repository(t, owner, "fleet")
		for _, user := range []string{"waybill", "ann", "bob"} {
			fleet.Allow(t, user, "write")
		}
		for _, label := range []string{"promotion", "team-a"} {
			err := root.API(t.Context(), http.MethodPost, "/repos/"+owner+"/fleet/labels", map[string]any{"name": label, "color": "#00aabb"}, nil)
			if err != nil {
				t.Fatal(err)
			}
		}
		hosts := githost.NewHosts(githost.Options{PlainHTTP: true, Pause: time.Millisecond,
			Guard: webhook.Guard{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}})
		t.Cleanup(hosts.Close)
		return &world{waybill: waybill, fleet: fleet, clone: fleet.Clone(t), hosts: hosts}
	})
}

func write(t testing.TB, clone *testbed.Clone, name, content string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(clone.Folder, name), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}
