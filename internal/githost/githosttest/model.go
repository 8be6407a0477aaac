package githosttest

import (
	"cmp"
	"crypto/rsa"
	"crypto/sha1" //nolint:gosec // names of commits, as Git has them
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/githost"
	"github.com/waybill-dev/waybill/internal/promotion"
	"github.com/waybill-dev/waybill/internal/webhook"
)

// State is the state of a pull request.
type State string

// The states.
const (
	Open   State = "open"
	Merged State = "merged"
	Closed State = "closed"
)

// Pull is a pull request.
type Pull struct {
	Number      int64
	Title, Body string
	State       State
	Head, Base  string // branches
	SHA         string // newest commit; that of the end once it has ended
	Draft       bool
	Labels      []string
	Reviewers   []string
	Assignees   []string
	Comments    []string
	Created     time.Time
	Ended       time.Time
	EndedBy     string
	Version     int

	Conflict  bool
	Behind    bool
	Computing bool // the host has not computed yet whether it can be merged

	merging int    // number of further reads until an asynchronous merge is done
	wanted  string // the head at which it is made
	queue   bool   // it goes into the merge queue
	refused refusal
	updated time.Time
	queued  bool
	fork    bool
}

// Check is the state of a check: pending, success, failure.
type Check struct{ Name, State string }

type modelCommit struct {
	message, parent string
	onBase          bool
}

// Host is a model host with one repository, apps/fleet, whose base is main.
type Host struct {
	Vendor string

	server *httptest.Server
	hosts  *githost.Hosts

	mu       sync.Mutex
	clock    time.Time
	branches map[string]string
	commits  map[string]modelCommit
	pulls    []*Pull
	checks   map[string][]Check
	users    []string
	labels   []string
	faults   []*Fault
	before   func() // called before the next write
	calls    []string
	hidden   int  // number of further lists that lack the newest pull request
	pageSize int  // 0: as requested
	async    bool // merges are asynchronous
	stuck    bool // an asynchronous merge fails
	required bool // the base wants checks to pass before a merge
	lifetime time.Duration
	appKey   *rsa.PublicKey
	etags    bool // conditional requests are answered
	limit    int  // reported budget of requests; 0: none is reported
	reset    time.Time

	unmodified, used, issued int // numbers of answers 304, of requests within the budget, of tokens for an App
}

// Token is the credential that the model accepts.
const Token = "model-token-of-a-test"

// New starts a model host of a vendor, which is a type of promotion.Host.
func New(t testing.TB, vendor string) *Host {
	t.Helper()
	h := &Host{Vendor: vendor, clock: time.Now().UTC().Add(-time.Hour).Truncate(time.Second), branches: map[string]string{},
		commits: map[string]modelCommit{}, checks: map[string][]Check{}, users: []string{"ann", "bob"},
		labels: []string{"promotion", "team-a"}}
	h.branches["main"] = h.commit("Begin", "", true)
	h.server = httptest.NewServer(h.intercept(h.routes()))
	t.Cleanup(h.server.Close)
	h.Restart(t)
	return h
}

// Restart makes clients that are opened from now on know nothing of earlier ones.
func (h *Host) Restart(t testing.TB) {
	t.Helper()
	h.hosts = githost.NewHosts(githost.Options{PlainHTTP: true, Pause: time.Millisecond,
		Guard: webhook.Guard{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}})
	t.Cleanup(h.hosts.Close)
}

// routes returns the HTTP interface of the vendor.
func (h *Host) routes() http.Handler {
	mux := http.NewServeMux()
	switch h.Vendor {
	case githost.GitHub:
		h.routeGitHub(mux)
	case githost.GitLab:
		h.routeGitLab(mux)
	case githost.BitbucketServer:
		h.routeServer(mux)
	case githost.BitbucketCloud:
		h.routeCloud(mux)
	case githost.AzureDevOps:
		h.routeAzure(mux)
	case githost.Gitea, githost.Forgejo:
		h.routeGitea(mux)
	default:
		panic("githosttest: no model of " + h.Vendor)
	}
	return mux
}

// Config returns the configuration of the repository for a head branch.
func (h *Host) Config(branch string) promotion.Host {
	host := promotion.Host{Type: h.Vendor, URL: h.server.URL + "/apps/fleet.git", Base: "main", Branch: branch}
	switch h.Vendor {
	case githost.BitbucketServer:
		host.URL = h.server.URL + "/scm/apps/fleet.git"
	case githost.BitbucketCloud:
		host.APIURL = h.server.URL + "/2.0"
	case githost.AzureDevOps:
		host.URL = h.server.URL + "/collection/apps/_git/fleet"
	}
	return host
}

// Person returns the host's word for a user in lists of reviewers and assignees.
func (h *Host) Person(name string) string {
	if h.Vendor == githost.AzureDevOps {
		return azureID(name)
	}
	return name
}

// Keys returns the Secret's keys.
func (h *Host) Keys() map[string]string { return map[string]string{githost.KeyToken: Token} }

// Open opens a client, with the same connections and memory as before.
func (h *Host) Open(t testing.TB, host promotion.Host) *githost.Client {
	t.Helper()
	return h.OpenWith(t, host, h.Keys())
}

// OpenWith opens a client with a Secret's keys.
func (h *Host) OpenWith(t testing.TB, host promotion.Host, keys map[string]string) *githost.Client {
	t.Helper()
	c, err := h.hosts.Open(host, keys)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// commit adds a commit and returns its name. The caller holds mu or owns h.
func (h *Host) commit(message, parent string, onBase bool) string {
	sum := sha1.Sum(fmt.Appendf(nil, "%d %s %s", len(h.commits), message, parent)) //nolint:gosec // as Git
	sha := hex.EncodeToString(sum[:])
	h.commits[sha] = modelCommit{message, parent, onBase}
	return sha
}

// Push makes a branch one commit on top of main, by force, and returns the commit.
func (h *Host) Push(_ testing.TB, branch, message string) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.move(branch, h.commit(message, h.branches["main"], false))
}

// Append adds a commit to a branch.
func (h *Host) Append(_ testing.TB, branch, message string) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.move(branch, h.commit(message, h.branches[branch], branch == "main"))
}

// move sets a branch, and the heads of its open pull requests.
func (h *Host) move(branch, sha string) string {
	h.branches[branch] = sha
	for _, p := range h.pulls {
		if p.State == Open && p.Head == branch && !p.fork {
			p.SHA, p.Version = sha, p.Version+1
		}
	}
	return sha
}

// SetCheck sets a check of a commit: pending, success or failure.
func (h *Host) SetCheck(_ testing.TB, sha, name, state string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i, c := range h.checks[sha] {
		if c.Name == name {
			h.checks[sha][i].State = state
			return
		}
	}
	h.checks[sha] = append(h.checks[sha], Check{name, state})
}

// Pulls returns all pull requests, the oldest first.
func (h *Host) Pulls(testing.TB) []Pull {
	h.mu.Lock()
	defer h.mu.Unlock()
	var out []Pull
	for _, p := range h.pulls {
		out = append(out, *p)
	}
	return out
}

// MergeByPerson merges a pull request as ann.
func (h *Host) MergeByPerson(_ testing.TB, number int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.finish(h.find(number), Merged, "ann")
}

// CloseByPerson closes a pull request as bob.
func (h *Host) CloseByPerson(_ testing.TB, number int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.finish(h.find(number), Closed, "bob")
}

// Edit changes the newest pull request.
func (h *Host) Edit(edit func(p *Pull)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	edit(h.pulls[len(h.pulls)-1])
}

// Fork opens a pull request of a fork whose branch has the same name.
func (h *Host) Fork(branch string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	p := h.add(branch, "main", "From a fork", "", false)
	p.fork, p.SHA = true, h.commit("Of a fork", h.branches["main"], false)
}

// finish ends a pull request.
func (h *Host) finish(p *Pull, state State, by string) {
	h.clock = time.Now().UTC()
	p.State, p.Ended, p.EndedBy, p.Version = state, h.clock, by, p.Version+1
	if state == Merged {
		h.branches["main"] = h.commit("Merge", p.SHA, true)
	}
}

// find returns a pull request; nil: there is none.
func (h *Host) find(number int64) *Pull {
	for _, p := range h.pulls {
		if p.Number == number {
			return p
		}
	}
	return nil
}

// exists returns the open pull request for two branches.
func (h *Host) exists(head, base string) *Pull {
	for _, p := range h.pulls {
		if p.State == Open && p.Head == head && p.Base == base && !p.fork {
			return p
		}
	}
	return nil
}

// add opens a pull request.
func (h *Host) add(head, base, title, body string, draft bool) *Pull {
	h.clock = h.clock.Add(time.Second)
	p := &Pull{Number: int64(len(h.pulls) + 1), Title: title, Body: body, State: Open, Head: head, Base: base, SHA: h.branches[head],
		Draft: draft, Created: h.clock, updated: h.clock}
	h.pulls = append(h.pulls, p)
	return p
}

// between returns the commits of a pull request, the newest first.
func (h *Host) between(p *Pull) (shas []string) {
	for sha := p.SHA; sha != "" && !h.commits[sha].onBase; sha = h.commits[sha].parent {
		shas = append(shas, sha)
	}
	return shas
}

// listed returns the pull requests that lists show, the newest first.
func (h *Host) listed() []*Pull {
	all := slices.Clone(h.pulls)
	slices.Reverse(all)
	if h.hidden > 0 && len(all) > 0 {
		h.hidden--
		all = all[1:]
	}
	return all
}

// page returns part of a list, from 1, and whether there is more.
func page[T any](h *Host, all []T, number, size int) (some []T, more bool) {
	size = cmp.Or(h.pageSize, size, 30)
	from := min(len(all), (max(1, number)-1)*size)
	to := min(len(all), from+size)
	return all[from:to], to < len(all)
}

// refusal is a reason for which a merge is refused; "": none.
type refusal string

// The refusals.
const (
	refusedMoved    refusal = "moved"
	refusedConflict refusal = "conflict"
	refusedChecks   refusal = "checks"
	refusedDraft    refusal = "draft"
	refusedBusy     refusal = "computing"
	refusedEnded    refusal = "ended"
)

// merge merges a pull request at a commit; "": at any.
func (h *Host) merge(p *Pull, sha string) refusal {
	failed := slices.ContainsFunc(h.checks[p.SHA], func(c Check) bool { return c.State != "success" })
	switch {
	case p.State != Open:
		return refusedEnded
	case sha != "" && !strings.EqualFold(sha, p.SHA):
		return refusedMoved
	case p.Draft:
		return refusedDraft
	case p.Computing:
		return refusedBusy
	case p.Conflict:
		return refusedConflict
	case h.required && (failed || len(h.checks[p.SHA]) == 0):
		return refusedChecks
	}
	h.finish(p, Merged, "waybill")
	return ""
}
