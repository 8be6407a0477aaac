package promoter_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/waybill-dev/waybill/internal/blob"
	"github.com/waybill-dev/waybill/internal/conductor"
	"github.com/waybill-dev/waybill/internal/conductor/handler/environment"
	"github.com/waybill-dev/waybill/internal/conductor/handler/evidence"
	"github.com/waybill-dev/waybill/internal/conductor/handler/pullrequest"
	"github.com/waybill-dev/waybill/internal/git/gittest"
	"github.com/waybill-dev/waybill/internal/git/mirror"
	"github.com/waybill-dev/waybill/internal/githost"
	"github.com/waybill-dev/waybill/internal/githost/githosttest"
	"github.com/waybill-dev/waybill/internal/kube/pool"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/promoter"
	"github.com/waybill-dev/waybill/internal/promotion"
	"github.com/waybill-dev/waybill/internal/promotions"
	"github.com/waybill-dev/waybill/internal/queue"
	"github.com/waybill-dev/waybill/internal/sqlite/sqlitetest"
	"github.com/waybill-dev/waybill/internal/store"
	"github.com/waybill-dev/waybill/internal/webhook"
)

// fleetWorld is a world with a Git host. Prod is promoted by pull requests, which Waybill merges, and the leaf follows the branch main. One
// process promotes; when it is killed, the next one starts.
type fleetWorld struct {
	*world
	git    *gittest.Host
	model  *githosttest.Host
	folder string       // the log, mirrors and evidence, which outlive a process
	log    *slog.Logger // nil: none
	name   string       // the pipeline in the log of promotions
	branch string       // head branch of its pull requests
	// roles returns the roles of a process besides; nil: none.
	roles func(own *ledger.Ledger, instance queue.Instance) (roles []func(context.Context) error)

	mu     sync.Mutex
	line   *line
	looks  func() int64                                                           // number of looks of the process
	fault  func(next http.Handler, out http.ResponseWriter, r *http.Request) bool // answers some calls of the host; nil: none
	merged map[int64]bool                                                         // pull requests whose change is on main
}

func newFleetWorld(t *testing.T) *fleetWorld {
	t.Helper()
	w := newFleet(t, name)
	w.management.Add(pipelines, w.object(`{apiVersion: pipelines.weave.works/v1alpha1, kind: Pipeline,
		metadata: {name: podinfo, namespace: apps, generation: 1}, spec: {
		appRef: {apiVersion: kustomize.toolkit.fluxcd.io/v1, kind: Kustomization, name: podinfo},
		promotion: {strategy: {pull-request: {type: gitea, url: "`+w.git.URL()+`", baseBranch: main, secretRef: {name: fleet}}}},
		environments: [{name: dev, targets: [{namespace: dev}]},
			{name: prod, targets: [{namespace: prod, clusterRef: {kind: GitopsCluster, name: leaf}}],
				autoMerge: {method: merge, requireChecks: false}}]}}`))
	return w
}

// newFleet returns a world without a pipeline. The repository has a marker of the environment prod of the named one.
func newFleet(t *testing.T, name string) *fleetWorld {
	t.Helper()
	w := &fleetWorld{world: newWorld(t), model: githosttest.New(t, githost.Gitea), folder: t.TempDir(), merged: map[int64]bool{},
		git: gittest.New(t, map[string]string{file: marked(name, "6.0.0")}), name: name, branch: branch}
	if err := w.ledger.Close(); err != nil {
		t.Fatal(err)
	}
	w.ledger = ledger.New(sqlitetest.Open(t, filepath.Join(w.folder, "waybill.db")), ledger.Options{})
	w.git.Token = githosttest.Token
	at, err := url.Parse(w.model.Config("").URL)
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.Out.URL.Scheme, r.Out.URL.Host, r.Out.Host = at.Scheme, at.Host, r.In.Host
	}}
	calls := http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		w.model.SetBranch(w.branch, w.commits()...)
		proxy.ServeHTTP(out, r)
		if r.Method != http.MethodGet {
			w.follow()
		}
	})
	w.git.API = calls
	w.git.Intercept(func(out http.ResponseWriter, r *http.Request) bool {
		if r.Header.Get(passed) != "" {
			return false
		}
		r.Header.Set(passed, "yes")
		w.mu.Lock()
		line, fault := w.line, w.fault
		w.mu.Unlock()
		if fault == nil || !fault(w.git.Handler(), out, r) {
			line.serve(w.git.Handler(), out, r)
		}
		return true
	})
	encode := func(text []byte) string { return base64.StdEncoding.EncodeToString(text) }
	w.management.Add(schema.GroupVersionResource{Version: "v1", Resource: "secrets"}, w.object(`
		{apiVersion: v1, kind: Secret, metadata: {name: fleet, namespace: apps}, data: {token: `+encode([]byte(githosttest.Token))+
		`, caFile: `+encode(w.git.CA())+`}}`))
	for _, env := range []string{"dev", "prod"} {
		w.at(env, "6.0.0")
	}
	return w
}

const (
	passed = "X-Waybill-Passed" // marks requests that went through the line
	branch = "promotion-apps-podinfo-prod"
	file   = "prod.yaml"
)

func marked(pipeline, revision string) string {
	return fmt.Sprintf("version: %s # {\"$promotion\": \"%s:prod\"}\n", revision, pipeline)
}

// commits returns the commits of the head branch that main lacks, the oldest first.
func (w *fleetWorld) commits() (commits []githosttest.Commit) {
	tip := w.git.Tip(w.branch)
	if tip == "" {
		return nil
	}
	log := w.git.Git(w.git.Dir, "log", "--reverse", "--format=%H%x00%B%x01", "main.."+tip)
	for one := range strings.SplitSeq(log, "\x01") {
		if sha, message, ok := strings.Cut(strings.TrimSpace(one), "\x00"); ok {
			commits = append(commits, githosttest.Commit{SHA: sha, Message: message})
		}
	}
	return commits
}

// follow brings merged pull requests to main, as the host does, and main to the leaf, as Flux does.
func (w *fleetWorld) follow() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, pull := range w.model.Pulls(w.t) {
		if pull.State != githosttest.Merged || w.merged[pull.Number] {
			continue
		}
		w.merged[pull.Number] = true
		tree := w.git.Git(w.git.Dir, "merge-tree", "--write-tree", "main", pull.SHA)
		commit := w.git.Git(w.git.Dir, "commit-tree", "-m", "Merge", "-p", "main", "-p", pull.SHA, tree)
		w.git.Git(w.git.Dir, "update-ref", "refs/heads/main", commit)
		text := w.git.Read("main", file)
		w.at("prod", text[len("version: "):strings.Index(text, " #")])
	}
}

// process runs one process on a line until it is killed or stopped.
func (w *fleetWorld) process(l *line) (stop func()) {
	w.t.Helper()
	config, err := pool.ParseKubeconfig(w.management.Kubeconfig("management", "root"))
	if err != nil {
		w.t.Fatal(err)
	}
	driver := sqlitetest.Open(w.t, filepath.Join(w.folder, "waybill.db"))
	own := ledger.New(log{driver, l}, ledger.Options{})
	mirrors, err := mirror.Open(mirror.Options{Dir: filepath.Join(w.folder, "mirrors")})
	if err != nil {
		w.t.Fatal(err)
	}
	blobs, err := blob.OpenDir(filepath.Join(w.folder, "blobs"))
	if err != nil {
		w.t.Fatal(err)
	}
	hosts := githost.NewHosts(githost.Options{Pause: time.Millisecond,
		Guard: webhook.Guard{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}})
	management := l.cluster(w.management.Cluster("apps"))
	changes, instance := own.NewWaiter(), queue.Instance{Heartbeat: 300 * time.Millisecond}
	secret := func(ctx context.Context, name string) (map[string][]byte, error) {
		data, _, err := management.In("apps").Secret(ctx, name)
		return data, err
	}
	leaf, err := pool.ParseKubeconfig(w.leaf.Kubeconfig("leaf", "root"))
	if err != nil {
		w.t.Fatal(err)
	}
	c := conductor.New(own.NewWaiter(), conductor.Config{Workers: 4, Log: w.log, Instance: instance, Handlers: map[string]conductor.Handler{
		promotion.HandlerEnvironment: environment.Handler{},
		promotion.HandlerPullRequest: pullrequest.New(pullrequest.Config{Hosts: hosts, Mirrors: mirrors, Archive: evidence.Archive{Blobs: blobs},
			Secret: func(ctx context.Context, _, name string) (map[string][]byte, error) { return secret(ctx, name) }})}})
	p := promoter.New(changes, changes.Promotions, promoter.Config{Management: management,
		Changes: waiters(w.t, changes), Dial: w.dial, Hosts: hosts, Mirrors: mirrors, ProposalsEvery: time.Second,
		Clusters: map[string]*rest.Config{"": config, "eu": leaf}, Pages: "https://waybill.example.org",
		Instance: instance, Secret: secret, Log: w.log})
	w.mu.Lock()
	w.looks = p.Looks
	w.mu.Unlock()
	running := []func(context.Context) error{p.Run, c.Run}
	if w.roles != nil {
		running = append(running, w.roles(own, instance)...)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(w.t.Context()))
	var roles sync.WaitGroup
	for _, run := range running {
		roles.Go(func() {
			if err := run(ctx); err != nil && !l.isDead() {
				w.t.Errorf("role: %v", err)
			}
		})
	}
	return func() { // a dead process may take long to notice that it is dead, so nothing waits for it
		cancel()
		if l.isDead() {
			w.t.Cleanup(roles.Wait)
			return
		}
		roles.Wait()
		hosts.Close()
		if err := own.Close(); err != nil {
			w.t.Error(err)
		}
	}
}

// live runs processes, each until it is killed.
func (w *fleetWorld) live() {
	done := make(chan struct{})
	var keeper sync.WaitGroup
	start := func() (stop func(), killed <-chan struct{}) {
		l := newLine()
		w.mu.Lock()
		w.line = l
		w.mu.Unlock()
		return w.process(l), l.killed
	}
	stop, killed := start()
	keeper.Go(func() {
		for {
			select {
			case <-killed:
				stop()
				stop, killed = start()
			case <-done:
				stop()
				return
			}
		}
	})
	w.t.Cleanup(func() {
		close(done)
		keeper.Wait()
	})
}

// carry has a revision appear in dev and be carried to prod, and returns when its run is finished. The leaf follows the branch again
// and again, as a merge may end after the process that requested it.
func (w *fleetWorld) carry(revision string) {
	w.t.Helper()
	w.at("dev", revision)
	w.await(revision+" is carried", func(v promotions.View) bool {
		w.follow()
		return v.Run != nil && v.Run.Revision == revision && v.Run.End == promotion.Finished && phase(v, "prod") == promotion.PhaseComplete
	})
}

// effects returns all effects that the promotion of a revision has left: pull requests, commits, runs and facts.
func (w *fleetWorld) effects(revision string) []string {
	w.t.Helper()
	var found []string
	add := func(format string, values ...any) {
		found = append(found, strings.ReplaceAll(fmt.Sprintf(format, values...), revision, "R"))
	}
	for _, pull := range w.model.Pulls(w.t) {
		if strings.HasSuffix(pull.Title, " to "+revision) {
			add("pull request %s: %s, %s, comments %v", pull.Head, pull.Title, pull.State, pull.Comments)
		}
	}
	for subject := range strings.Lines(w.git.Git(w.git.Dir, "log", "--no-merges", "--format=%s", "main")) {
		if strings.HasSuffix(strings.TrimSpace(subject), " to "+revision) {
			add("commit: %s", strings.TrimSpace(subject))
		}
	}
	log := w.ledger.NewWaiter()
	runs, err := log.Promotions.Runs(w.t.Context(), promotions.RunQuery{Pipeline: w.name})
	if err != nil {
		w.t.Fatal(err)
	}
	for _, run := range runs {
		if run.Revision != promotion.Revision(revision) {
			continue
		}
		add("run of %s by %v: %v", run.Revision, run.Cause, run.End)
		entries, err := log.Promotions.Entries(w.t.Context(), promotions.Page{Pipeline: w.name, Run: run.Number})
		if err != nil {
			w.t.Fatal(err)
		}
		for _, e := range entries {
			add("%s %s %s", e.Class, e.Env, e.Event)
		}
	}
	slices.Sort(found)
	return found
}

// wantEffects waits until a promotion has left exactly these effects: that a pull request is merged may be seen after the rollout.
func (w *fleetWorld) wantEffects(revision, situation string, want []string) {
	w.t.Helper()
	log := w.ledger.NewWaiter()
	for deadline := time.Now().Add(patience); ; {
		got := w.effects(revision)
		if slices.Equal(got, want) {
			return
		}
		if len(got) > len(want) || time.Now().After(deadline) {
			w.t.Fatalf("%s: the effects are\n%s\nwant\n%s", situation, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		_ = log.Wait(w.t.Context(), store.TopicPromotion, time.Now().Add(time.Second))
	}
}

// TestAProcessThatIsKilledAtAnyCallLosesAndRepeatsNothing carries one revision after the other. At the first one the process is killed
// after its first effect, at the next one after the second, and so on, until a promotion has fewer.
func TestAProcessThatIsKilledAtAnyCallLosesAndRepeatsNothing(t *testing.T) {
	t.Parallel()
	w := newFleetWorld(t)
	w.live()
	w.awaitBaseline()
	want := effectsOfOne()
	for at := 1; ; at++ {
		w.mu.Lock()
		l := w.line
		w.mu.Unlock()
		l.arm(at)
		revision := fmt.Sprintf("6.1.%d", at)
		w.carry(revision)
		isAlive, calls := l.disarm(), l.made()
		if isAlive {
			t.Logf("a promotion has these effects: %s", strings.Join(calls, ", "))
			w.wantEffects(revision, "without a fault", want)
			return
		}
		w.wantEffects(revision, fmt.Sprintf("killed after call %d, %s", at, calls[at-1]), want)
	}
}
