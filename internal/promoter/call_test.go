package promoter_test

import (
	"context"
	"encoding/base64"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/waybill-dev/waybill/internal/blob"
	"github.com/waybill-dev/waybill/internal/conductor"
	"github.com/waybill-dev/waybill/internal/conductor/handler/evidence"
	"github.com/waybill-dev/waybill/internal/conductor/handler/pullrequest"
	"github.com/waybill-dev/waybill/internal/git/gittest"
	"github.com/waybill-dev/waybill/internal/git/mirror"
	"github.com/waybill-dev/waybill/internal/githost"
	"github.com/waybill-dev/waybill/internal/githost/githosttest"
	"github.com/waybill-dev/waybill/internal/promoter"
	"github.com/waybill-dev/waybill/internal/promotion"
	"github.com/waybill-dev/waybill/internal/promotions"
	"github.com/waybill-dev/waybill/internal/webhook"
)

// proposing has the pipeline promote into prod by pull requests of a model of Gitea, which are read once an hour.
func (w *world) proposing() (git *gittest.Host, model *githosttest.Host) {
	w.t.Helper()
	const head = "promotion-apps-podinfo-prod"
	git, model = gittest.New(w.t, fleet("6.5.4", "6.5.4")), githosttest.New(w.t, githost.Gitea)
	address, err := url.Parse(model.Config(head).URL)
	if err != nil {
		w.t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.Out.URL.Scheme, r.Out.URL.Host, r.Out.Host = address.Scheme, address.Host, r.In.Host
	}}
	git.Token = githosttest.Token
	git.API = http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		model.SetBranch(head, commits(git, head)...)
		proxy.ServeHTTP(out, r)
	})
	encode := base64.StdEncoding.EncodeToString
	w.management.Add(schema.GroupVersionResource{Version: "v1", Resource: "secrets"}, w.object(`{apiVersion: v1, kind: Secret,
		metadata: {name: fleet, namespace: apps}, data: {token: `+encode([]byte(githosttest.Token))+`, caFile: `+encode(git.CA())+`}}`))
	mirrors, err := mirror.Open(mirror.Options{Dir: w.t.TempDir()})
	if err != nil {
		w.t.Fatal(err)
	}
	blobs, err := blob.OpenDir(w.t.TempDir())
	if err != nil {
		w.t.Fatal(err)
	}
	hosts := githost.NewHosts(githost.Options{Pause: time.Millisecond,
		Guard: webhook.Guard{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}})
	w.t.Cleanup(hosts.Close)
	w.more = func(c *promoter.Config) { c.Mirrors, c.Hosts, c.ProposalsEvery = mirrors, hosts, time.Hour }
	w.handlers = map[string]conductor.Handler{promotion.HandlerPullRequest: pullrequest.New(pullrequest.Config{Hosts: hosts,
		Mirrors: mirrors,
		Archive: evidence.Archive{Blobs: blobs}, Secret: func(ctx context.Context, namespace, name string) (map[string][]byte, error) {
			data, _, err := w.management.Cluster(namespace).Secret(ctx, name)
			return data, err
		}})}
	return git, model
}

// commits returns the commits of a head branch, the oldest first.
func commits(git *gittest.Host, head string) (list []githosttest.Commit) {
	if git.Tip(head) == "" {
		return nil
	}
	for one := range strings.SplitSeq(git.Git(git.Dir, "log", "--reverse", "--format=%H%x00%B%x01", "main.."+head), "\x01") {
		if sha, message, ok := strings.Cut(strings.TrimSpace(one), "\x00"); ok {
			list = append(list, githosttest.Commit{SHA: sha, Message: message})
		}
	}
	return list
}

// TestACallOfAHostHasItsPullRequestRead: a merge is seen at once, although the promoter reads pull requests once an hour.
func TestACallOfAHostHasItsPullRequestRead(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	git, model := w.proposing()
	w.at("dev", "6.5.4")
	w.at("prod", "6.5.4")
	w.proposedBy(git)
	w.start()
	w.awaitBaseline()
	w.at("dev", "6.6.0")
	number := w.proposed()
	model.MergeByPerson(t, number)
	repository, err := githost.Repository(promotion.Host{Type: githost.Gitea, URL: git.URL()})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []promotions.Call{
		{Host: githost.GitHub, Name: repository, Number: number}, {Host: githost.Gitea, Name: "apps/other"}, // no effect
		{Host: githost.Gitea, Name: repository, Number: number},
	} {
		if err := w.ledger.Promotions.Call(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	w.await("the merge", func(v promotions.View) bool {
		p := v.Environments[1].Proposal
		return p != nil && p.State == promotion.Merged && phase(v, "prod") == promotion.PhaseRollingOut
	})
}
