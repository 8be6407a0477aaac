package promoter_test

import (
	"context"
	"encoding/base64"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/conductor"
	"github.com/waybill-dev/waybill/internal/conductor/handler/gate"
	"github.com/waybill-dev/waybill/internal/conductor/handler/notification"
	"github.com/waybill-dev/waybill/internal/kube"
	"github.com/waybill-dev/waybill/internal/kube/kubetest"
	"github.com/waybill-dev/waybill/internal/kube/pool"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/loop"
	"github.com/waybill-dev/waybill/internal/promoter"
	"github.com/waybill-dev/waybill/internal/promotion"
	"github.com/waybill-dev/waybill/internal/promotions"
	"github.com/waybill-dev/waybill/internal/sqlite/sqlitetest"
	"github.com/waybill-dev/waybill/internal/store"
)

const name = "apps:podinfo"

var (
	pipelines      = schema.GroupVersionResource{Group: "pipelines.weave.works", Version: "v1alpha1", Resource: "pipelines"}
	clusters       = schema.GroupVersionResource{Group: "gitops.weave.works", Version: "v1alpha1", Resource: "gitopsclusters"}
	kustomizations = schema.GroupVersionResource{Group: "kustomize.toolkit.fluxcd.io", Version: "v1", Resource: "kustomizations"}
	events         = schema.GroupVersionResource{Version: "v1", Resource: "events"}
)

// world is a management cluster, a leaf and a log.
type world struct {
	t          *testing.T
	management *kubetest.Server
	leaf       *kubetest.Server
	ledger     *ledger.Ledger
	more       func(*promoter.Config) // changes the promoter's configuration; nil: nothing does
	handlers   map[string]conductor.Handler
}

func newWorld(t *testing.T) *world {
	apps := kubetest.Kind{GroupVersionResource: kustomizations, Kind: "Kustomization", Unconditional: true}
	jobs := kubetest.Kind{GroupVersionResource: kube.Jobs(), Kind: "Job", Status: true, Unconditional: true}
	w := &world{t: t, ledger: ledger.New(sqlitetest.Open(t, t.TempDir()+"/waybill.db"), ledger.Options{}),
		management: kubetest.NewServer(t, kubetest.Open(apps, jobs,
			kubetest.Kind{GroupVersionResource: pipelines, Kind: "Pipeline", Status: true},
			kubetest.Kind{GroupVersionResource: clusters, Kind: "GitopsCluster", Status: true, Unconditional: true})),
		leaf: kubetest.NewServer(t, kubetest.Open(apps))}
	t.Cleanup(func() {
		if err := w.ledger.Close(); err != nil {
			t.Error(err)
		}
	})
	w.management.Add(schema.GroupVersionResource{Version: "v1", Resource: "secrets"}, w.object(`
		{apiVersion: v1, kind: Secret, metadata: {name: leaf, namespace: apps}, data: {kubeconfig: `+
		base64.StdEncoding.EncodeToString(w.leaf.Kubeconfig("leaf", "root"))+`}}`))
	w.management.Add(clusters, w.object(`{apiVersion: gitops.weave.works/v1alpha1, kind: GitopsCluster, metadata: {name: leaf, namespace: apps},
		spec: {secretRef: {name: leaf}}}`))
	return w
}

// newSettledWorld returns a world in which both environments are ready at 6.5.4.
func newSettledWorld(t *testing.T) *world {
	w := newWorld(t)
	w.at("dev", "6.5.4")
	w.at("prod", "6.5.4")
	return w
}

// object reads an object of YAML.
func (w *world) object(text string) *unstructured.Unstructured {
	w.t.Helper()
	o := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(strings.ReplaceAll(text, "\t", " ")), &o.Object); err != nil {
		w.t.Fatal(err)
	}
	return o
}

// pipeline adds the pipeline: dev on the management cluster, prod on the leaf.
func (w *world) pipeline(more string) {
	w.t.Helper()
	w.management.Add(pipelines, w.object(`{apiVersion: pipelines.weave.works/v1alpha1, kind: Pipeline,
		metadata: {name: podinfo, namespace: apps, generation: 1}, spec: {
		appRef: {apiVersion: kustomize.toolkit.fluxcd.io/v1, kind: Kustomization, name: podinfo},
		promotion: {strategy: {notification: {}}},
		environments: [{name: dev, targets: [{namespace: dev}]},
			{name: prod, targets: [{namespace: prod, clusterRef: {kind: GitopsCluster, name: leaf}}]`+more+`}]}}`))
}

// at has an application be ready at a revision, on the management cluster in dev, else on the leaf.
func (w *world) at(namespace, revision string) {
	w.t.Helper()
	app := w.object(`{apiVersion: kustomize.toolkit.fluxcd.io/v1, kind: Kustomization, metadata: {name: podinfo, namespace: ` + namespace + `, generation: 1},
		status: {observedGeneration: 1, lastAppliedRevision: "` + revision + `", lastAttemptedRevision: "` + revision + `",
		conditions: [{type: Ready, status: "True", reason: ReconciliationSucceeded}]}}`)
	server := w.leaf
	if namespace == "dev" {
		server = w.management
	}
	apps := server.Resource(kustomizations).Namespace(namespace)
	if _, err := apps.Get(w.t.Context(), "podinfo", metav1.GetOptions{}); err != nil {
		server.Add(kustomizations, app)
	} else if _, err := apps.Update(w.t.Context(), app, metav1.UpdateOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

// dial connects to the server with a host's name.
func (w *world) dial(ctx context.Context, _, address string) (net.Conn, error) {
	if strings.HasPrefix(address, "leaf") {
		return w.leaf.Dial(ctx)
	}
	return w.management.Dial(ctx)
}

// start runs a promoter and a conductor until stop is called, or the test ends.
func (w *world) start() (stop func()) {
	w.t.Helper()
	config, err := pool.ParseKubeconfig(w.management.Kubeconfig("management", "root"))
	if err != nil {
		w.t.Fatal(err)
	}
	management := w.management.Cluster("apps")
	log := w.ledger.NewWaiter()
	cfg := promoter.Config{Management: management, Changes: waiters(w.t, log), Clusters: map[string]*rest.Config{"": config}, Dial: w.dial}
	if w.more != nil {
		w.more(&cfg)
	}
	p := promoter.New(log, log.Promotions, cfg)
	handlers := map[string]conductor.Handler{
		promotion.HandlerNotification: notification.Handler{Management: management},
		promotion.HandlerJob:          gate.Job{Management: management},
		promotion.HandlerExpression:   gate.Expression{},
	}
	maps.Copy(handlers, w.handlers)
	c := conductor.New(w.ledger.NewWaiter(), conductor.Config{Workers: 4, Handlers: handlers})
	ctx, cancel := context.WithCancel(context.WithoutCancel(w.t.Context()))
	var roles sync.WaitGroup
	for _, run := range []func(context.Context) error{p.Run, c.Run} {
		roles.Go(func() {
			if err := run(ctx); err != nil {
				w.t.Errorf("role: %v", err)
			}
		})
	}
	stop = sync.OnceFunc(func() {
		cancel()
		roles.Wait()
	})
	w.t.Cleanup(stop)
	return stop
}

// waiters returns a maker of waiters, none of which serves two loops: each would miss signals that the other has taken.
func waiters(t *testing.T, log *ledger.Ledger) func() loop.Waiter {
	return func() loop.Waiter { return &soleWaiter{Waiter: log.NewWaiter(), t: t} }
}

// soleWaiter fails the test when a second loop waits for changes by it.
type soleWaiter struct {
	loop.Waiter
	t    *testing.T
	busy atomic.Bool
}

func (w *soleWaiter) Wait(ctx context.Context, topic store.Topic, deadline time.Time) error {
	if w.busy.Swap(true) {
		w.t.Error("two loops share a waiter")
	}
	defer w.busy.Store(false)
	return w.Waiter.Wait(ctx, topic, deadline)
}

// patience bounds each wait of a test. It is long, as a machine that runs tests may pause for minutes.
const patience = 5 * time.Minute

// await waits until the view of the pipeline is as wanted.
func (w *world) await(what string, wanted func(promotions.View) bool) promotions.View {
	w.t.Helper()
	log := w.ledger.NewWaiter()
	deadline := time.Now().Add(patience)
	for {
		view, err := log.Promotions.View(w.t.Context(), name)
		if err == nil && wanted(view) {
			return view
		}
		if time.Now().After(deadline) {
			w.t.Fatalf("%s: not in time; the view is %+v, %v", what, view, err)
		}
		_ = log.Wait(w.t.Context(), store.TopicPromotion, time.Now().Add(time.Second))
	}
}

// awaitBaseline waits until prod is complete with its first revision.
func (w *world) awaitBaseline() {
	w.t.Helper()
	w.await("the baseline", func(v promotions.View) bool { return phase(v, "prod") == promotion.PhaseComplete })
}

// phase returns the phase of an environment in a view.
func phase(v promotions.View, env string) promotion.Phase {
	for _, e := range v.Environments {
		if e.Name == env {
			return e.Phase
		}
	}
	return ""
}

// promoted lists the versions that were announced for prod.
func (w *world) promoted() (versions []string) {
	w.t.Helper()
	list, err := w.management.Resource(events).Namespace("apps").List(w.t.Context(), metav1.ListOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	for _, one := range list.Items {
		if reason, _, _ := unstructured.NestedString(one.Object, "reason"); reason == "Promote" {
			versions = append(versions, one.GetAnnotations()["version"])
		}
	}
	slices.Sort(versions)
	return versions
}

func TestARevisionIsCarriedToTheNextCluster(t *testing.T) {
	t.Parallel()
	w := newSettledWorld(t)
	w.pipeline("")
	w.start()
	w.await("the baseline", func(v promotions.View) bool {
		return v.Latest == "6.5.4" && phase(v, "prod") == promotion.PhaseComplete
	})
	w.at("dev", "6.6.0")
	w.await("prod is promoted", func(v promotions.View) bool {
		return v.Current == "6.6.0" && phase(v, "prod") == promotion.PhaseRollingOut
	})
	w.at("prod", "6.6.0")
	view := w.await("the run is finished", func(v promotions.View) bool {
		return v.Run != nil && v.Run.Revision == "6.6.0" && v.Run.End == promotion.Finished
	})
	if got := w.promoted(); !slices.Equal(got, []string{"6.6.0"}) {
		t.Errorf("announced %v, want 6.6.0 once", got)
	}
	object, err := w.management.Resource(pipelines).Namespace("apps").Get(t.Context(), "podinfo", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if latest, _, _ := unstructured.NestedString(object.Object, "status", "latestRevision"); latest != "6.6.0" {
		t.Errorf("status.latestRevision is %q, want 6.6.0 as in the view %+v", latest, view)
	}
}

// A process that ends at any time leaves nothing that the next one does twice or not at all.
func TestAPromotionOutlivesItsProcess(t *testing.T) {
	t.Parallel()
	w := newSettledWorld(t)
	w.pipeline("")
	stop := w.start()
	restart := func() {
		stop()
		stop = w.start()
	}
	w.awaitBaseline()
	restart()
	w.at("dev", "6.6.0")
	w.await("the run", func(v promotions.View) bool { return v.Current == "6.6.0" })
	restart()
	w.await("prod is promoted", func(v promotions.View) bool { return phase(v, "prod") == promotion.PhaseRollingOut })
	restart()
	w.at("prod", "6.6.0")
	w.await("the run is finished", func(v promotions.View) bool {
		return v.Run != nil && v.Run.Revision == "6.6.0" && v.Run.End == promotion.Finished
	})
	if got := w.promoted(); !slices.Equal(got, []string{"6.6.0"}) {
		t.Errorf("announced %v, want 6.6.0 once", got)
	}
}

// TestAClusterWithoutAnswersStopsPromotionUntilItReturns: the leaf is stopped, or frozen: connections stay open, and nothing
// answers.
func TestAClusterWithoutAnswersStopsPromotionUntilItReturns(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]struct{ begin, end func(*kubetest.Server) }{
		"stopped": {(*kubetest.Server).Stop, (*kubetest.Server).Start},
		"frozen":  {(*kubetest.Server).Freeze, (*kubetest.Server).Thaw},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newSettledWorld(t)
			w.pipeline("")
			fault.begin(w.leaf)
			w.start()
			w.at("dev", "6.6.0")
			w.await("prod is unknown", func(v promotions.View) bool {
				return v.Current == "6.6.0" && phase(v, "prod") == promotion.PhaseUnknown
			})
			if got := w.promoted(); len(got) > 0 {
				t.Errorf("announced %v to a cluster that is not known", got)
			}
			fault.end(w.leaf)
			w.await("prod is promoted", func(v promotions.View) bool { return phase(v, "prod") == promotion.PhaseRollingOut })
		})
	}
}

// busySink is a receiver that is never ready: attempts are made until the action is canceled.
type busySink struct{}

func (busySink) Do(context.Context, conductor.Attempt) action.Outcome {
	return action.Outcome{Kind: action.RetryAfter, At: time.Now().Add(50 * time.Millisecond)}
}

// A promotion that had begun before a fault is not continued, and begins again once the fault is corrected.
func TestAFaultStopsAPromotionThatHasBegun(t *testing.T) {
	t.Parallel()
	w := newSettledWorld(t)
	w.handlers = map[string]conductor.Handler{promotion.HandlerNotification: busySink{}}
	w.pipeline("")
	stop := w.start()
	w.awaitBaseline()
	w.at("dev", "6.6.0")
	attempted := func(status promotion.AttemptStatus) {
		t.Helper()
		w.await("the attempt is "+string(status), func(promotions.View) bool {
			s, err := w.ledger.Promotions.Load(t.Context(), name, "")
			return err == nil && slices.ContainsFunc(slices.Collect(maps.Values(s.Attempts)), func(a promotion.Attempt) bool {
				return a.Status == status
			})
		})
	}
	attempted(promotion.AttemptLive)
	setFault := func(names ...any) {
		w.change(func(spec map[string]any) { spec["environments"].([]any)[1].(map[string]any)["dependsOn"] = names })
	}
	setFault("stagin")
	attempted(promotion.AttemptCanceled)
	setFault()
	attempted(promotion.AttemptLive)
	stop()
	w.handlers = nil
	w.start()
	w.await("prod is promoted", func(promotions.View) bool { return slices.Equal(w.promoted(), []string{"6.6.0"}) })
}

func TestAPipelineWithAFaultReportsItAndPromotesNothing(t *testing.T) {
	t.Parallel()
	for more, field := range map[string]string{
		", dependsOn: [stagin]":                                "spec.environments[1].dependsOn[0]: ",
		`, gates: [{name: healthy, cel: "{{revision}} == 1"}]`: "spec.environments[1].gates[0].cel: at character 1: ",
	} {
		t.Run(field, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.at("dev", "6.6.0")
			w.at("prod", "6.5.4")
			w.pipeline(more)
			w.start()
			w.await("the fault", func(v promotions.View) bool {
				return slices.ContainsFunc(v.Conditions, func(c promotions.ConditionView) bool {
					return c.Type == "Ready" && c.Reason == "InvalidSpec" && strings.Contains(c.Message, field)
				})
			})
			if got := w.promoted(); len(got) > 0 {
				t.Errorf("announced %v by a pipeline with a fault", got)
			}
		})
	}
}
