package controller_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	apiyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/waybill-dev/waybill/internal/bubbletest"
	"github.com/waybill-dev/waybill/internal/flow/controller"
	"github.com/waybill-dev/waybill/internal/goldentest"
	"github.com/waybill-dev/waybill/internal/kube/kubetest"
)

// TestTranscripts plays the files of testdata/transcripts, whose sections are played in their order:
//
//	apply       creates objects, or changes them by merge patches; their status is set
//	delete      deletes objects, each "Kind namespace/name"
//	knative     has the objects of a kind be "ready", "broken" or "stuck": "Broker stuck"
//	refuse      has an admission webhook refuse requests, such as "create Subscription", until an empty section
//	wait        lets time pass
//	writes      the controller's writes since the last such section, with Events
//	conditions  those of all flows
//
// After the writes every object is reported again, unless something is refused, and at the end a further instance sees all objects.
// Neither writes anything.
func TestTranscripts(t *testing.T) {
	t.Parallel()
	goldentest.Play(t, "testdata/transcripts/*.txtar", func(t *testing.T, text string) string {
		archive := txtar.Parse([]byte(text))
		bubbletest.Test(t, func(t *testing.T) {
			p := newPlay(t)
			for i, file := range archive.Files {
				archive.Files[i].Data = p.section(file)
			}
			p.stop()
			p.start(p.alone)
			p.rest("a further instance")
		})
		return string(txtar.Format(archive))
	})
}

// play is a world whose controller's writes are recorded.
type play struct {
	*world
	*record

	stop    func()
	mu      sync.Mutex
	refused string // verb and resource of refused requests
}

func newPlay(t *testing.T) *play {
	w := newWorld(t)
	w.api.Install(kubetest.Kind{GroupVersionResource: clocks, Kind: "Clock", Status: true})
	w.knative.slow()
	p := &play{world: w, record: &record{Interface: w.api, uids: map[string]string{}}}
	w.api.Before(func(r kubetest.Request) error {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.refused == r.Verb+" "+r.Resource {
			return apierrors.NewBadRequest(`admission webhook "rules.example" denied the request: not here`)
		}
		return nil
	})
	p.stop = p.start(p.alone).stop
	rest()
	return p
}

// alone has the controller make one request at a time, through the record.
func (p *play) alone(c *controller.Config) {
	c.Workers, c.Cluster.Interface = 1, p.record
}

// section plays a section, and returns its text.
func (p *play) section(file txtar.File) []byte {
	p.t.Helper()
	lines := strings.Split(strings.TrimSpace(string(file.Data)), "\n")
	switch file.Name {
	case "apply":
		p.applyAll(file.Data)
	case "delete":
		for _, line := range lines {
			kind, name, _ := strings.Cut(line, " ")
			p.delete(p.resource(kind), name)
			rest()
		}
	case "knative":
		for _, line := range lines {
			kind, state, _ := strings.Cut(line, " ")
			p.knative.set(p.resource(kind), state == "broken", state == "stuck")
		}
	case "refuse":
		p.refuse(lines[0])
	case "wait":
		d, err := time.ParseDuration(lines[0])
		if err != nil {
			p.t.Fatal(err)
		}
		<-time.After(d)
	case "writes":
		rest()
		text := p.taken(p.named())
		if p.refused == "" { // a refused request is tried again, too
			p.api.Repeat()
			p.rest("a second pass")
		}
		return []byte(text)
	case "conditions":
		return []byte(times.ReplaceAllString(p.allConditions(), "<time>"))
	default:
		p.t.Fatalf("the section %q is not known", file.Name)
	}
	return file.Data
}

func (p *play) refuse(line string) {
	verb, kind, some := strings.Cut(line, " ")
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.refused = ""; some {
		p.refused = verb + " " + p.resource(kind).Resource
	}
}

// rest waits until nothing moves, and expects that nothing was written.
func (p *play) rest(when string) {
	p.t.Helper()
	rest()
	if text := p.taken(p.named()); text != "" {
		p.t.Errorf("%s writes:\n%s", when, text)
	}
}

// applyAll applies YAML documents.
func (p *play) applyAll(text []byte) {
	p.t.Helper()
	documents := apiyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return
		}
		var o unstructured.Unstructured
		if err == nil {
			err = yaml.Unmarshal(document, &o.Object)
		}
		if err != nil {
			p.t.Fatal(err)
		}
		in := p.resource(o.GetKind())
		there := p.get(in, o.GetNamespace()+"/"+o.GetName()) != nil
		if now := p.apply(in, string(document)); there && o.Object["status"] != nil {
			p.setStatus(in, now, o.Object["status"])
		}
		rest()
	}
}

// resource returns the resource of a kind.
func (p *play) resource(kind string) schema.GroupVersionResource {
	p.t.Helper()
	if kind == "Clock" {
		return clocks
	}
	for resource, of := range served {
		if of.kind == kind {
			return resource
		}
	}
	p.t.Fatalf("the kind %q is not known", kind)
	return schema.GroupVersionResource{}
}

func (p *play) allConditions() string {
	var text strings.Builder
	for _, f := range p.list(flows) {
		fmt.Fprintf(&text, "%s/%s\n", f.GetNamespace(), f.GetName())
		all, _, _ := unstructured.NestedSlice(f.Object, "status", "conditions")
		for _, one := range all {
			c, _ := one.(map[string]any)
			fmt.Fprintln(&text, strings.TrimSpace(fmt.Sprintf("  %s %s %s %s", c["type"], c["status"], c["reason"], c["message"])))
		}
	}
	return text.String()
}

// named returns a replacer of UIDs, which differ between runs, by the names of their objects.
func (p *play) named() *strings.Replacer {
	for resource := range served {
		for _, o := range p.list(resource) {
			p.know(&o)
		}
	}
	for _, o := range p.list(clocks) {
		p.know(&o)
	}
	return p.names()
}

// record is a client that records the writes through it.
type record struct {
	dynamic.Interface
	before func(kubetest.Request) error // nil: no request is refused

	mu      sync.Mutex
	uids    map[string]string // names of objects by their UIDs
	lines   []string
	watches []watch.Interface
}

// cut ends all watches.
func (r *record) cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, one := range r.watches {
		one.Stop()
	}
	r.watches = nil
}

// know gives the UID of an object a name.
func (r *record) know(o *unstructured.Unstructured) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, known := r.uids[string(o.GetUID())]; known || o.GetKind() == "Event" {
		return
	}
	name := fmt.Sprintf("%s %s/%s", o.GetKind(), o.GetNamespace(), o.GetName())
	again := 1
	for _, other := range r.uids {
		if other == name || strings.HasPrefix(other, name+", ") {
			again++
		}
	}
	if again > 1 {
		name += fmt.Sprintf(", made again (%d)", again)
	}
	r.uids[string(o.GetUID())] = name
}

func (r *record) names() *strings.Replacer {
	r.mu.Lock()
	defer r.mu.Unlock()
	var pairs []string
	for uid, name := range r.uids {
		pairs = append(pairs, uid, "<"+name+">")
	}
	return strings.NewReplacer(pairs...)
}

var times = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`)

// taken returns the writes since the last call.
func (r *record) taken(names *strings.Replacer) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	lines := r.lines
	r.lines = nil
	return times.ReplaceAllString(names.Replace(strings.Join(lines, "")), "<time>")
}

func (r *record) Resource(in schema.GroupVersionResource) dynamic.NamespaceableResourceInterface {
	return recorded{record: r, in: in, objects: r.Interface.Resource(in)}
}

// recorded makes requests for objects of a kind. A request that a controller must not make, such as an apply, has no method.
type recorded struct {
	dynamic.ResourceInterface // nil
	*record
	in      schema.GroupVersionResource
	objects dynamic.ResourceInterface
}

func (r recorded) admit(verb string) error {
	if r.before == nil {
		return nil
	}
	return r.before(kubetest.Request{Verb: verb, Resource: r.in.Resource})
}

func (r recorded) Namespace(namespace string) dynamic.ResourceInterface {
	r.objects = r.Interface.Resource(r.in).Namespace(namespace)
	return r
}

func (r recorded) Get(ctx context.Context, name string, o metav1.GetOptions, _ ...string) (*unstructured.Unstructured, error) {
	if err := r.admit("get"); err != nil {
		return nil, err
	}
	return r.objects.Get(ctx, name, o)
}

func (r recorded) List(ctx context.Context, o metav1.ListOptions) (*unstructured.UnstructuredList, error) {
	if err := r.admit("list"); err != nil {
		return nil, err
	}
	return r.objects.List(ctx, o)
}

func (r recorded) Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	if err := r.admit("watch"); err != nil {
		return nil, err
	}
	w, err := r.objects.Watch(ctx, o)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.watches = append(r.watches, w)
	return w, nil
}

func (r recorded) Create(ctx context.Context, o *unstructured.Unstructured, options metav1.CreateOptions, _ ...string,
) (*unstructured.Unstructured, error) {
	if err := r.admit("create"); err != nil {
		return nil, err
	}
	body := o.DeepCopy().Object
	made, err := r.objects.Create(ctx, o, options)
	if err == nil {
		r.know(made)
	}
	if o.GetKind() == "Event" {
		r.wrote(eventLine(body), nil, err)
		return made, err
	}
	r.wrote(fmt.Sprintf("create %s %s/%s", o.GetKind(), o.GetNamespace(), o.GetName()), body, err)
	return made, err
}

func (r recorded) Patch(ctx context.Context, name string, form types.PatchType, data []byte, o metav1.PatchOptions, parts ...string,
) (*unstructured.Unstructured, error) {
	if err := r.admit("patch"); err != nil {
		return nil, err
	}
	object, version := r.current(ctx, name)
	var body map[string]any
	if err := json.Unmarshal(data, &body); err != nil || form != types.MergePatchType {
		return nil, fmt.Errorf("a patch of the form %s: %w", form, err)
	}
	if metadata, ok := body["metadata"].(map[string]any); ok && metadata["resourceVersion"] != nil {
		metadata["resourceVersion"] = named(metadata["resourceVersion"], version)
	}
	after, err := r.objects.Patch(ctx, name, form, data, o, parts...)
	r.wrote(strings.Join(append([]string{"patch", object}, parts...), " "), body, err)
	return after, err
}

func (r recorded) Delete(ctx context.Context, name string, o metav1.DeleteOptions, _ ...string) error {
	if err := r.admit("delete"); err != nil {
		return err
	}
	object, version := r.current(ctx, name)
	body := map[string]any{}
	if p := o.Preconditions; p != nil && p.UID != nil && p.ResourceVersion != nil {
		body["preconditions"] = map[string]any{"uid": string(*p.UID), "resourceVersion": named(*p.ResourceVersion, version)}
	}
	if o.PropagationPolicy != nil {
		body["propagationPolicy"] = *o.PropagationPolicy
	}
	err := r.objects.Delete(ctx, name, o)
	r.wrote("delete "+object, body, err)
	return err
}

// current names an object, and returns its version.
func (r recorded) current(ctx context.Context, name string) (object, version string) {
	o, err := r.objects.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return r.in.Resource + " " + name, ""
	}
	r.know(o)
	return fmt.Sprintf("%s %s/%s", o.GetKind(), o.GetNamespace(), name), o.GetResourceVersion()
}

// named returns a word for a version.
func named(version any, current string) string {
	if version == current {
		return "<current>"
	}
	return "<older>"
}

// wrote records a request with its body, and waits until the informers have seen the change.
func (r *record) wrote(line string, body map[string]any, err error) {
	<-time.After(time.Microsecond)
	if status, ok := body["status"].(map[string]any); ok && status["conditions"] != nil {
		status["conditions"] = shorten(status["conditions"])
	}
	text, _ := yaml.Marshal(body)
	if err != nil {
		line += "\n  refused: " + err.Error()
	}
	line += "\n"
	if len(body) > 0 {
		for one := range strings.Lines(string(text)) {
			line += "  " + one
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil && slices.Contains(r.lines, line) {
		return // it is tried again after each change
	}
	r.lines = append(r.lines, line)
}

// shorten returns conditions as one line each.
func shorten(conditions any) (lines []string) {
	all, _ := conditions.([]any)
	for _, one := range all {
		c, _ := one.(map[string]any)
		since := "earlier"
		if c["lastTransitionTime"] == time.Now().UTC().Format(time.RFC3339) {
			since = "now"
		}
		line := fmt.Sprintf("%s %s %s, generation %v, since %s", c["type"], c["status"], c["reason"], c["observedGeneration"], since)
		if c["message"] != "" {
			line += fmt.Sprintf(": %s", c["message"])
		}
		if len(c) != len([]string{"type", "status", "reason", "observedGeneration", "lastTransitionTime", "message"}) {
			line = fmt.Sprint(c)
		}
		lines = append(lines, line)
	}
	return lines
}

// eventLine returns an Event as a line, followed by the fields that differ from those of other Events.
func eventLine(body map[string]any) string {
	about, _ := body["involvedObject"].(map[string]any)
	line := fmt.Sprintf("event %s %s of %s %s/%s: %s", body["type"], body["reason"], about["kind"], about["namespace"], about["name"],
		body["message"])
	same := map[string]any{
		"apiVersion": "v1", "kind": "Event", "metadata": map[string]any{"generateName": "event-flow.", "namespace": about["namespace"]},
		"involvedObject": map[string]any{"apiVersion": flows.GroupVersion().String(), "kind": "EventFlow", "namespace": about["namespace"],
			"name": about["name"], "uid": about["uid"], "resourceVersion": about["resourceVersion"]},
		"reason": body["reason"], "message": body["message"], "type": body["type"], "count": int64(1),
		"firstTimestamp": body["firstTimestamp"], "lastTimestamp": body["firstTimestamp"],
		"source": map[string]any{"component": "waybill"}, "reportingComponent": "waybill", "reportingInstance": "test",
	}
	if diff := cmp.Diff(same, body); diff != "" {
		line += "\n" + diff
	}
	return line
}
