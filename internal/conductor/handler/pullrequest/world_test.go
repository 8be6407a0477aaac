package pullrequest

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/blob"
	"github.com/waybill-dev/waybill/internal/conductor"
	"github.com/waybill-dev/waybill/internal/conductor/handler/evidence"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/git/gittest"
	"github.com/waybill-dev/waybill/internal/git/mirror"
	"github.com/waybill-dev/waybill/internal/githost"
	"github.com/waybill-dev/waybill/internal/githost/githosttest"
	"github.com/waybill-dev/waybill/internal/promotion"
	"github.com/waybill-dev/waybill/internal/promotions"
	"github.com/waybill-dev/waybill/internal/webhook"
)

const (
	branch = "promotion-apps-podinfo-prod"
	file   = "clusters/prod/podinfo.yaml"
	mark   = ` # {"$promotion": "apps:podinfo:prod"}`
)

// world is a repository in real Git beside a model of the host's pull requests, and a handler.
type world struct {
	*Handler
	t     *testing.T
	git   *gittest.Host
	model *githosttest.Host
	blobs blob.Store
	keys  map[string][]byte // the Secret's data
	host  promotion.Host
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, model: githosttest.New(t, githost.Gitea)}
	w.git = gittest.New(t, map[string]string{file: "version: 6.5.4" + mark + "\n"})
	model, err := url.Parse(w.model.Config(branch).URL)
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.Out.URL.Scheme, r.Out.URL.Host, r.Out.Host = model.Scheme, model.Host, r.In.Host
	}}
	w.git.Token = githosttest.Token
	w.git.API = http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		w.model.SetBranch(branch, w.commits()...)
		proxy.ServeHTTP(out, r)
	})
	w.keys = map[string][]byte{"token": []byte(githosttest.Token + "\n"), "caFile": w.git.CA()}
	w.host = w.model.Config(branch)
	w.host.URL, w.host.Secret, w.host.Labels = w.git.URL(), "fleet-git", []string{"promotion"}
	if w.blobs, err = blob.OpenDir(filepath.Join(t.TempDir(), "blobs")); err != nil {
		t.Fatal(err)
	}
	w.restart()
	return w
}

// restart makes a handler that remembers nothing.
func (w *world) restart() {
	w.t.Helper()
	mirrors, err := mirror.Open(mirror.Options{Dir: filepath.Join(w.t.TempDir(), "mirrors")})
	if err != nil {
		w.t.Fatal(err)
	}
	hosts := githost.NewHosts(githost.Options{Pause: time.Millisecond,
		Guard: webhook.Guard{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}})
	w.t.Cleanup(hosts.Close)
	w.Handler = New(Config{Hosts: hosts, Mirrors: mirrors, Archive: evidence.Archive{Blobs: w.blobs},
		Secret: func(_ context.Context, namespace, name string) (map[string][]byte, error) {
			if namespace != "apps" || name != "fleet-git" || w.keys == nil {
				return nil, fault.New(fault.NotFound, "Secret %s/%s not found", namespace, name)
			}
			return w.keys, nil
		}})
}

// commits returns the commits of the head branch, the oldest first.
func (w *world) commits() (commits []githosttest.Commit) {
	if w.git.Tip(branch) == "" {
		return nil
	}
	log := w.git.Git(w.git.Dir, "log", "--reverse", "--format=%H%x00%B%x01", "main.."+branch)
	for one := range strings.SplitSeq(log, "\x01") {
		if sha, message, ok := strings.Cut(strings.TrimSpace(one), "\x00"); ok {
			commits = append(commits, githosttest.Commit{SHA: sha, Message: message})
		}
	}
	return commits
}

// work returns an action that proposes a revision.
func (w *world) work(run int64, revision promotion.Revision) promotion.Work {
	work := githosttest.Work(w.host, run, revision)
	work.Started = time.Date(2026, 1, 2, 14, 2, 0, 0, time.UTC)
	return work
}

// do makes one attempt.
func (w *world) do(work promotion.Work) action.Outcome {
	w.t.Helper()
	return w.doIn(w.t.Context(), work)
}

func (w *world) doIn(ctx context.Context, work promotion.Work) action.Outcome {
	w.t.Helper()
	return w.doBy(ctx, w.Handler, work, nil)
}

// doBy makes one attempt in a process, whose claim lasts while held reports true.
func (w *world) doBy(ctx context.Context, process *Handler, work promotion.Work, held func() bool) action.Outcome {
	w.t.Helper()
	parameters, err := json.Marshal(work)
	if err != nil {
		w.t.Fatal(err)
	}
	id := action.NewID(time.Now(), [10]byte{1})
	o := process.Do(ctx, conductor.Attempt{Number: 1, Held: held,
		Action: action.Action{ID: id, Kind: promotion.ActionKind, Parameters: parameters}})
	if text := o.Error + string(o.Output); strings.Contains(text, githosttest.Token) {
		w.t.Errorf("the outcome has the token: %s", text)
	}
	return o
}

// done makes an attempt that succeeds and returns its output.
func (w *world) done(work promotion.Work) promotions.Output {
	w.t.Helper()
	o := w.do(work)
	if o.Kind != action.Done {
		w.t.Fatalf("the outcome is %s %s: %s", o.Kind, o.Code, o.Error)
	}
	var out promotions.Output
	if err := json.Unmarshal(o.Output, &out); err != nil {
		w.t.Fatal(err)
	}
	return out
}

// want fails unless an outcome has a kind and a code.
func (w *world) want(o action.Outcome, kind action.OutcomeKind, code string) {
	w.t.Helper()
	if o.Kind != kind || o.Code != code || (kind != action.Done && kind != action.GivenBack && o.Error == "") {
		w.t.Errorf("the outcome is %s %q: %s", o.Kind, o.Code, o.Error)
	}
}
