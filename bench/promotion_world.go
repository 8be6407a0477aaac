package main

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/waybill-dev/waybill/internal/kube/kubetest"
)

// serveFleetName is the command of this program that serves the API of a fleet's clusters.
const serveFleetName = "serve-fleet"

// The fleet of the benches of promotion: each environment of a pipeline has two targets, on different leaves.
const (
	fleetEnvironments = 3
	fleetTargets      = 2
	fleetNamespaces   = 50
	fleetObject       = 4000 // bytes of an application
	firstRevision     = "6.0.0"
)

// fleetSize is the size of a fleet.
type fleetSize struct{ Pipelines, Leaves, Real int }

func (f fleetSize) applications() int { return f.Pipelines * fleetEnvironments * fleetTargets }

var pipelineKind = kubetest.Kind{GroupVersionResource: schema.GroupVersionResource{
	Group: "pipelines.weave.works", Version: "v1alpha1", Resource: "pipelines"}, Kind: "Pipeline", Status: true, Unconditional: true}

// leafOf returns the leaf of a target.
func (f fleetSize) leafOf(pipeline, environment, target int) int {
	return (pipeline*fleetTargets + environment*7 + target) % f.Leaves
}

// kindOf returns the kind of a pipeline's applications.
func kindOf(pipeline int) kubetest.Kind { return poolKinds[pipeline%2] }

// environmentNames are in the order of the environments.
var environmentNames = [fleetEnvironments]string{"dev", "staging", "prod"}

// namespaceOf returns the namespace of a pipeline's applications in an environment.
func namespaceOf(pipeline, environment int) string {
	return fmt.Sprintf("team-%d-%s", pipeline%fleetNamespaces, environmentNames[environment])
}

// fleetOrder is an order to the process that serves the fleet. It answers each with a fleetAnswer.
type fleetOrder struct {
	Do       string // revise, promote, metadata, recheck, stop, reported or count
	Pipeline int
	Leaf     int
	Revision string
	Rate     float64 // a second; 0: no more
}

// fleetAnswer is the answer to an order.
type fleetAnswer struct {
	Config   []byte         // a kubeconfig, before any order
	At       time.Time      // time of the change
	Reported int            // pipelines whose status has a revision at all targets
	Requests map[string]int // to the management cluster, by verb and resource
	CPU      time.Duration  // time of the process
	Changes  int            // metadata updates and re-checks so far
	Error    string
}

// clusters is the process that serves the clusters.
type clusters struct {
	management []byte // kubeconfig

	command *exec.Cmd
	orders  *json.Encoder
	answers *json.Decoder
}

// startFleet starts the clusters in another process.
func startFleet(ctx context.Context, size fleetSize) (*clusters, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(size)
	if err != nil {
		return nil, err
	}
	f := &clusters{command: exec.CommandContext(ctx, self, serveFleetName, string(text))}
	f.command.SysProcAttr, f.command.Stderr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}, os.Stderr
	in, err := f.command.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := f.command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := f.command.Start(); err != nil {
		return nil, err
	}
	f.orders, f.answers = json.NewEncoder(in), json.NewDecoder(bufio.NewReader(out))
	var hello fleetAnswer
	if err := f.answers.Decode(&hello); err != nil {
		f.stop()
		return nil, fmt.Errorf("start the clusters: %w", err)
	}
	f.management = hello.Config
	return f, nil
}

// stop ends the process.
func (f *clusters) stop() {
	_ = f.command.Process.Kill()
	_ = f.command.Wait()
}

// do gives an order.
func (f *clusters) do(order fleetOrder) (answer fleetAnswer, err error) {
	if err := f.orders.Encode(order); err != nil {
		return answer, err
	}
	if err := f.answers.Decode(&answer); err != nil {
		return answer, err
	}
	if answer.Error != "" {
		return answer, fmt.Errorf("%s: %s", order.Do, answer.Error)
	}
	return answer, nil
}

// fleetServer is the fleet in the process that serves it.
type fleetServer struct {
	fleetSize
	management *kubetest.Server
	leaves     []*kubetest.Server
	changes    atomic.Int64
	streams    map[string]func() // by order; each ends one

	mutex    sync.Mutex
	requests map[string]int
}

// serveFleet serves a management cluster and leaves, and obeys orders until its input ends.
func serveFleet(args []string) error {
	if len(args) != 1 {
		return errors.New("want a size")
	}
	s := &fleetServer{requests: map[string]int{}, streams: map[string]func(){}}
	if err := json.Unmarshal([]byte(args[0]), &s.fleetSize); err != nil {
		return err
	}
	s.open()
	answers := json.NewEncoder(os.Stdout)
	if err := answers.Encode(fleetAnswer{Config: s.management.Kubeconfig(s.management.Address(), "token")}); err != nil {
		return err
	}
	for orders := json.NewDecoder(os.Stdin); ; {
		var order fleetOrder
		if err := orders.Decode(&order); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		if err := answers.Encode(s.obey(order)); err != nil {
			return err
		}
	}
}

// open makes the clusters with their objects.
func (s *fleetServer) open() {
	s.management = kubetest.ListenServer(kubetest.Open(pipelineKind, poolKinds[0], poolKinds[1], kubetest.Kind{
		GroupVersionResource: poolKinds[2].GroupVersionResource, Kind: "GitopsCluster", Status: true, Unconditional: true}))
	s.management.Before(func(r kubetest.Request) error {
		s.mutex.Lock()
		defer s.mutex.Unlock()
		s.requests[strings.TrimSuffix(r.Verb+" "+r.Resource+"/"+r.Subresource, "/")]++
		return nil
	})
	secrets := schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
	for i := range s.Leaves {
		leaf := kubetest.ListenServer(kubetest.Open(poolKinds[:2]...))
		s.leaves = append(s.leaves, leaf)
		name := fmt.Sprint("leaf-", i)
		s.management.Add(secrets, poolObject(kubetest.Kind{GroupVersionResource: secrets, Kind: "Secret"}, "apps", name, map[string]any{
			"data": map[string]any{"kubeconfig": base64.StdEncoding.EncodeToString(leaf.Kubeconfig(leaf.Address(), "token"))}}))
		s.management.Add(poolKinds[2].GroupVersionResource, poolObject(poolKinds[2], "apps", name, map[string]any{
			"spec":   map[string]any{"secretRef": map[string]any{"name": name}},
			"status": map[string]any{"conditions": []any{map[string]any{"type": "Ready", "status": "True", "reason": "Connected"}}},
		}))
	}
	for p := range s.Pipelines {
		for e := range fleetEnvironments {
			s.add(s.revised(p, e, firstRevision))
		}
		s.management.Add(pipelineKind.GroupVersionResource, s.pipeline(p))
	}
}

// pipeline returns a pipeline's object.
func (s *fleetServer) pipeline(p int) *unstructured.Unstructured {
	var environments []any
	for e := range fleetEnvironments {
		var targets []any
		for t := range fleetTargets {
			targets = append(targets, map[string]any{"namespace": namespaceOf(p, e), "clusterRef": map[string]any{
				"kind": "GitopsCluster", "name": fmt.Sprint("leaf-", s.leafOf(p, e, t))}})
		}
		environments = append(environments, map[string]any{"name": environmentNames[e], "targets": targets})
	}
	object := poolObject(pipelineKind, "apps", fmt.Sprint("app-", p), map[string]any{"spec": map[string]any{
		"appRef":       map[string]any{"apiVersion": kindOf(p).GroupVersion().String(), "kind": kindOf(p).Kind, "name": fmt.Sprint("app-", p)},
		"promotion":    map[string]any{"strategy": map[string]any{"notification": map[string]any{}}},
		"environments": environments,
	}})
	object.SetGeneration(1)
	return object
}

// revised is an application as it will be.
type revised struct {
	leaf   int
	kind   kubetest.Kind
	object *unstructured.Unstructured
}

// revised returns the applications of an environment as they are ready at a revision.
func (s *fleetServer) revised(p, e int, revision string) (all []revised) {
	for t := range fleetTargets {
		object := application(kindOf(p), p, fleetObject)
		object.SetNamespace(namespaceOf(p, e))
		object.SetUID(uidOf(p, e, t))
		status := object.Object["status"].(map[string]any)
		status["lastAttemptedRevision"] = revision
		status["lastAppliedRevision"] = revision
		if kindOf(p).Kind == "HelmRelease" {
			status["history"].([]any)[0].(map[string]any)["chartVersion"] = revision
		}
		all = append(all, revised{s.leafOf(p, e, t), kindOf(p), object})
	}
	return all
}

// add stores applications.
func (s *fleetServer) add(all []revised) {
	for _, one := range all {
		s.leaves[one.leaf].Add(one.kind.GroupVersionResource, one.object)
	}
}

// obey carries out an order.
func (s *fleetServer) obey(o fleetOrder) (a fleetAnswer) {
	a.At = time.Now()
	switch o.Do {
	case "revise":
		var all []revised
		for p := range s.Pipelines {
			for e := range fleetEnvironments {
				all = append(all, s.revised(p, e, o.Revision)...)
			}
		}
		a.At = time.Now()
		s.add(all)
	case "promote":
		all := s.revised(o.Pipeline, 0, o.Revision)
		a.At = time.Now()
		s.add(all)
	case "metadata", "recheck":
		if end := s.streams[o.Do]; end != nil {
			end()
			delete(s.streams, o.Do)
		}
		if o.Rate > 0 {
			s.streams[o.Do] = s.stream(o)
		}
	case "stop":
		s.leaves[o.Leaf].Close()
	case "reported":
		a.Reported = s.reported(o.Revision)
	case "count":
		s.mutex.Lock()
		a.Requests = maps.Clone(s.requests)
		s.mutex.Unlock()
	default:
		a.Error = "unknown order"
	}
	a.Changes, a.CPU = int(s.changes.Load()), ownCPU()
	return a
}

// reported counts the pipelines whose status has a revision at all targets.
func (s *fleetServer) reported(revision string) (n int) {
	list, err := s.management.Resource(pipelineKind.GroupVersionResource).List(context.Background(), metav1.ListOptions{})
	if err != nil {
		return 0
	}
	for _, one := range list.Items {
		text, err := json.Marshal(one.Object["status"])
		if err == nil && strings.Count(string(text), `"revision":"`+revision+`"`) >= fleetEnvironments*fleetTargets {
			n++
		}
	}
	return n
}

// stream changes applications at a rate until it is ended.
func (s *fleetServer) stream(o fleetOrder) (end func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		ticks := time.NewTicker(time.Duration(float64(time.Second) / o.Rate))
		defer ticks.Stop()
		for i := 0; ; i++ {
			select {
			case <-done:
				return
			case <-ticks.C:
			}
			go s.touch(o.Do, i)
			s.changes.Add(1)
		}
	}()
	return func() { close(done); <-ended }
}

// touch changes the i-th application: its annotations, or its condition Ready, which is unknown for one turn, as
// controllers of Flux have it while they look at an object again.
func (s *fleetServer) touch(what string, i int) {
	ctx := context.Background()
	p, e, t := i/fleetTargets/fleetEnvironments%s.Pipelines, i/fleetTargets%fleetEnvironments, i%fleetTargets
	objects := s.leaves[s.leafOf(p, e, t)].Resource(kindOf(p).GroupVersionResource).Namespace(namespaceOf(p, e))
	object, err := objects.Get(ctx, fmt.Sprint("app-", p), metav1.GetOptions{})
	if err != nil {
		return
	}
	if what == "metadata" {
		object.SetAnnotations(map[string]string{"touched": fmt.Sprint(i)})
		_, _ = objects.Update(ctx, object, metav1.UpdateOptions{})
		return
	}
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	condition := conditions[0].(map[string]any)
	was := condition["status"]
	for _, status := range []any{"Unknown", was} {
		condition["status"] = status
		_ = unstructured.SetNestedSlice(object.Object, conditions, "status", "conditions")
		if object, err = objects.Update(ctx, object, metav1.UpdateOptions{}); err != nil {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// uidOf returns the UID of an application.
func uidOf(p, e, t int) types.UID { return types.UID(fmt.Sprintf("%08d-%d-%d", p, e, t)) }
