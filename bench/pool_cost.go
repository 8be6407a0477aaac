package main

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/waybill-dev/waybill/internal/kube/kubetest"
	"github.com/waybill-dev/waybill/internal/kube/pool"
	"github.com/waybill-dev/waybill/internal/loop"
)

// serveClustersName is the command of this program that serves the API of clusters for pool-cost.
const serveClustersName = "serve-clusters"

// Sizes of pool-cost.
const (
	poolLeaves     = 20
	poolApps       = 100 // applications of a kind in each leaf
	poolNamespaces = 10
	poolAliases    = 5 // GitopsClusters of each leaf
	poolJoins      = 1000
	objectSize     = 10_000
)

// The kinds of pool-cost. The last one leads to the leaves.
var poolKinds = []kubetest.Kind{
	poolKind("kustomize.toolkit.fluxcd.io/v1", "kustomizations", "Kustomization"),
	poolKind("helm.toolkit.fluxcd.io/v2", "helmreleases", "HelmRelease"),
	poolKind("gitops.weave.works/v1alpha1", "gitopsclusters", "GitopsCluster"),
}

func poolKind(version, resource, kind string) kubetest.Kind {
	in, _ := schema.ParseGroupVersion(version) // the constants above
	return kubetest.Kind{GroupVersionResource: in.WithResource(resource), Kind: kind}
}

func poolCostFlags(_ *flag.FlagSet, o *Options) { o.Rounds = 3 }

// poolCost measures the cost of a leaf cluster in the pool, and that of informers for the same objects. The API servers
// run in another process.
func poolCost(ctx context.Context, o Options) ([]Result, error) {
	configs, stop, err := startClusters(ctx)
	if err != nil {
		return nil, err
	}
	defer stop()
	heap := Result{Subject: "pool, heap of a leaf", Unit: "KiB"}
	goroutines := Result{Subject: "pool, goroutines of a leaf"}
	theirHeap := Result{Subject: "informers, heap of a leaf", Unit: "KiB"}
	theirGoroutines := Result{Subject: "informers, goroutines of a leaf"}
	left := Result{Subject: fmt.Sprintf("pool, heap left after %d joins and leaves", poolJoins), Unit: "KiB"}
	leftGoroutines := Result{Subject: fmt.Sprintf("pool, goroutines left after %d joins and leaves", poolJoins)}
	for range o.Rounds {
		ours, after, err := poolRound(ctx, configs[0])
		if err != nil {
			return nil, err
		}
		heap.Rounds, goroutines.Rounds = append(heap.Rounds, ours), append(goroutines.Rounds, ours)
		left.Rounds, leftGoroutines.Rounds = append(left.Rounds, after), append(leftGoroutines.Rounds, after)
	}
	for range o.Rounds { // not in turn: their connections stay open for a while
		theirs, err := informerRound(ctx, configs[1:])
		if err != nil {
			return nil, err
		}
		theirHeap.Rounds, theirGoroutines.Rounds = append(theirHeap.Rounds, theirs), append(theirGoroutines.Rounds, theirs)
	}
	for _, r := range []*Result{&heap, &theirHeap, &left} {
		r.summarizeBy(func(r Round) float64 { return r.HeapMB * 1e6 / 1024 })
	}
	for _, r := range []*Result{&goroutines, &theirGoroutines, &leftGoroutines} {
		r.summarizeBy(func(r Round) float64 { return r.Goroutines })
	}
	for _, r := range []*Result{&heap, &goroutines, &theirHeap, &theirGoroutines, &left, &leftGoroutines} {
		r.Bench = "pool-cost"
	}
	heap.against(theirHeap, 0)
	goroutines.against(theirGoroutines, 0)
	heap.judge("at most 300 KiB", heap.Median <= 300)
	goroutines.judge("at most 25", goroutines.Median <= 25)
	left.judge("at most 100 KiB", left.Median <= 100)
	leftGoroutines.judge("0", leftGoroutines.Median <= 0)
	return []Result{heap, goroutines, theirHeap, theirGoroutines, left, leftGoroutines}, nil
}

// footprint is the memory and the goroutines of this process, once they are steady.
type footprint struct {
	heap       uint64
	goroutines int
}

func measureFootprint(ctx context.Context) footprint {
	now := footprint{heapAfterCollection(), runtime.NumGoroutine()}
	for range 20 {
		if !loop.Pause(ctx, 100*time.Millisecond) {
			break
		}
		before := now
		now = footprint{min(now.heap, heapAfterCollection()), runtime.NumGoroutine()}
		if before == now {
			break
		}
	}
	return now
}

// since returns the growth for each of n things.
func (f footprint) since(before footprint, n float64) Round {
	return Round{
		Ops:        int(n),
		HeapMB:     float64(int64(f.heap)-int64(before.heap)) / 1e6 / n,
		Goroutines: float64(f.goroutines-before.goroutines) / n,
	}
}

// poolRound has a pool follow the applications of all leaves, and then lets clusters join and leave.
func poolRound(ctx context.Context, management *rest.Config) (cost, left Round, err error) {
	p := pool.New(pool.Config{Clusters: map[string]*rest.Config{"": management}})
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	defer func() {
		cancel()
		err = errors.Join(err, <-ended)
	}()
	// A cluster that stays keeps the management cluster connected, and makes caches full that all share.
	if err := followLeaf(ctx, p, "stays", "apps/leaf-0-0"); err != nil {
		return cost, left, err
	}
	before := measureFootprint(ctx)
	for i := 1; i < poolLeaves; i++ {
		name := fmt.Sprintf("apps/leaf-%d-0", i)
		if err := followLeaf(ctx, p, name, name); err != nil {
			return cost, left, err
		}
	}
	cost = measureFootprint(ctx).since(before, poolLeaves-1)
	for i := 1; i < poolLeaves; i++ {
		p.Forget(fmt.Sprintf("apps/leaf-%d-0", i))
	}
	// The first round makes the runtime's own lists as long as they get.
	if _, err := joinAndLeave(ctx, p); err != nil {
		return cost, left, err
	}
	loop.Pause(ctx, timersEnd)
	before = measureFootprint(ctx)
	for joins := 0; joins < poolJoins; {
		joined, err := joinAndLeave(ctx, p)
		if err != nil {
			return cost, left, err
		}
		joins += joined
	}
	loop.Pause(ctx, timersEnd)
	return cost, measureFootprint(ctx).since(before, 1), ctx.Err()
}

// timersEnd is the time after which net/http forgets a connection that was closed: its timer for pings is not stopped.
const timersEnd = 35 * time.Second

// joinAndLeave has clusters join, waits until all are connected, and has them leave.
func joinAndLeave(ctx context.Context, p *pool.Pool) (joined int, err error) {
	for i := 1; i < poolLeaves; i++ {
		for alias := range poolAliases {
			name := fmt.Sprintf("apps/leaf-%d-%d", i, alias)
			p.Use(name, leafWants(name)[:1])
			joined++
		}
	}
	if err := awaitClusters(ctx, p, joined+2); err != nil {
		return joined, err
	}
	for i := 1; i < poolLeaves; i++ {
		for alias := range poolAliases {
			p.Forget(fmt.Sprintf("apps/leaf-%d-%d", i, alias))
		}
	}
	return joined, awaitClusters(ctx, p, 2)
}

// leafWants returns the applications of a leaf.
func leafWants(cluster string) []pool.Want {
	var wants []pool.Want
	for _, kind := range poolKinds[:2] {
		for i := range poolApps {
			wants = append(wants, pool.Want{
				Cluster:   cluster,
				GVK:       kind.GroupVersion().WithKind(kind.Kind),
				Namespace: fmt.Sprint("team-", i%poolNamespaces),
				Name:      fmt.Sprint("app-", i),
			})
		}
	}
	return wants
}

// followLeaf has a user follow the applications of a leaf, and waits until all are seen.
func followLeaf(ctx context.Context, p *pool.Pool, user, cluster string) error {
	wants := leafWants(cluster)
	p.Use(user, wants)
	return awaitPool(ctx, func() error {
		for _, w := range wants {
			if s := p.State(w); s.Unseen != "" {
				return fmt.Errorf("%s %s/%s: %s: %s", w.Cluster, w.Namespace, w.Name, s.Unseen, s.Message)
			}
		}
		return nil
	})
}

// awaitClusters waits until n clusters are in use and connected.
func awaitClusters(ctx context.Context, p *pool.Pool, n int) error {
	return awaitPool(ctx, func() error {
		all := p.Clusters()
		for _, s := range all {
			if s.Unseen != "" {
				return fmt.Errorf("%s: %s: %s", s.Name, s.Unseen, s.Message)
			}
		}
		if len(all) != n {
			return fmt.Errorf("%d clusters are in use, want %d", len(all), n)
		}
		return nil
	})
}

// awaitPool waits until a check passes, for at most a minute.
func awaitPool(ctx context.Context, check func() error) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		err := check()
		if err == nil {
			return nil
		}
		if !loop.Pause(ctx, 20*time.Millisecond) {
			return err
		}
	}
}

// informerRound follows the same objects with an informer for each kind, as programs usually do.
func informerRound(ctx context.Context, leaves []*rest.Config) (Round, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var before footprint
	for i, config := range leaves {
		for _, kind := range poolKinds[:2] {
			client, err := dynamic.NewForConfig(config)
			if err != nil {
				return Round{}, err
			}
			factory := dynamicinformer.NewDynamicSharedInformerFactory(client, 0)
			informer := factory.ForResource(kind.GroupVersionResource).Informer()
			if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{}); err != nil {
				return Round{}, err
			}
			factory.Start(ctx.Done())
			defer factory.Shutdown()
			defer cancel()
			if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
				return Round{}, errors.New("an informer did not sync")
			}
		}
		if i == 0 {
			before = measureFootprint(ctx)
		}
	}
	return measureFootprint(ctx).since(before, float64(len(leaves)-1)), nil
}

// startClusters starts the API servers in another process, and returns the configurations of the management cluster and
// the leaves.
func startClusters(ctx context.Context) (configs []*rest.Config, stop func(), err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, nil, err
	}
	c := exec.CommandContext(ctx, self, serveClustersName)
	c.SysProcAttr, c.Stderr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}, os.Stderr
	out, err := c.StdoutPipe()
	if err != nil {
		return nil, nil, err
	}
	if err := c.Start(); err != nil {
		return nil, nil, err
	}
	stop = func() {
		_ = c.Process.Kill()
		_ = c.Wait()
	}
	lines := bufio.NewScanner(out)
	for len(configs) <= poolLeaves && lines.Scan() {
		var text []byte
		if err = json.Unmarshal(lines.Bytes(), &text); err != nil {
			break
		}
		config, problem := pool.ParseKubeconfig(text)
		if err = problem; err != nil {
			break
		}
		configs = append(configs, config)
	}
	if err = errors.Join(err, lines.Err()); err == nil && len(configs) <= poolLeaves {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		stop()
		return nil, nil, err
	}
	return configs, stop, nil
}

// serveClusters serves a management cluster and leaves, and prints a kubeconfig of each on a line.
func serveClusters([]string) error {
	management := kubetest.ListenServer(kubetest.Open(poolKinds...))
	print := func(s *kubetest.Server) ([]byte, error) {
		text := s.Kubeconfig(s.Address(), "token")
		line, err := json.Marshal(text)
		if err == nil {
			fmt.Println(string(line))
		}
		return text, err
	}
	if _, err := print(management); err != nil {
		return err
	}
	secrets := kubetest.Kind{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "secrets"}, Kind: "Secret"}
	for i := range poolLeaves {
		leaf := kubetest.ListenServer(kubetest.Open(poolKinds...))
		for j := range poolApps {
			leaf.Add(poolKinds[0].GroupVersionResource, application(poolKinds[0], j, objectSize))
			leaf.Add(poolKinds[1].GroupVersionResource, application(poolKinds[1], j, objectSize))
		}
		text, err := print(leaf)
		if err != nil {
			return err
		}
		for alias := range poolAliases {
			name := fmt.Sprintf("leaf-%d-%d", i, alias)
			management.Add(secrets.GroupVersionResource, poolObject(secrets, "apps", name, map[string]any{
				"data": map[string]any{"kubeconfig": base64.StdEncoding.EncodeToString(text)},
			}))
			management.Add(poolKinds[2].GroupVersionResource, poolObject(poolKinds[2], "apps", name, map[string]any{
				"spec": map[string]any{"secretRef": map[string]any{"name": name}},
			}))
		}
	}
	select {} // the parent kills it
}

func poolObject(kind kubetest.Kind, namespace, name string, fields map[string]any) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: fields}
	o.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind))
	o.SetNamespace(namespace)
	o.SetName(name)
	return o
}

// application returns an application of about so many bytes, most of which is its inventory.
func application(kind kubetest.Kind, i, bytes int) *unstructured.Unstructured {
	digest := func(seed int) string { return fmt.Sprintf("%040x", seed) }
	status := map[string]any{
		"observedGeneration":    int64(1),
		"lastAttemptedRevision": "main@sha1:" + digest(i),
		"conditions": []any{map[string]any{"type": "Ready", "status": "True", "reason": "ReconciliationSucceeded",
			"observedGeneration": int64(1), "message": "Applied revision: main@sha1:" + digest(i)}},
	}
	if kind.Kind == "HelmRelease" {
		status["history"] = []any{map[string]any{"status": "deployed", "chartVersion": "6.6." + strconv.Itoa(i),
			"appVersion": "6.6." + strconv.Itoa(i), "digest": "sha256:" + digest(i)}}
	} else {
		status["lastAppliedRevision"] = "main@sha1:" + digest(i)
	}
	var entries []any
	for size := 1000; size < bytes; {
		id := fmt.Sprintf("team-%d_app-%d-%d_apps_Deployment", i%poolNamespaces, i, len(entries))
		entries = append(entries, map[string]any{"id": id, "v": "v1"})
		size += len(id) + len(`{"id":"","v":"v1"},`)
	}
	status["inventory"] = map[string]any{"entries": entries}
	o := poolObject(kind, fmt.Sprint("team-", i%poolNamespaces), fmt.Sprint("app-", i), map[string]any{
		"spec":   map[string]any{"interval": "10m", "path": "./" + strings.Repeat("deploy/", 4), "prune": true},
		"status": status,
	})
	o.SetGeneration(1)
	return o
}
