package flow_test

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	"github.com/waybill-dev/waybill/internal/flow"
)

// fromYAML reads an object.
func fromYAML(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	object := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &object.Object); err != nil {
		t.Fatal(err)
	}
	return object
}

func decode(t *testing.T, text string) *flow.Object {
	t.Helper()
	return flow.Decode(fromYAML(t, text))
}

func TestDecodeKeepsTheNeededPart(t *testing.T) {
	t.Parallel()
	object := decode(t, `
apiVersion: eventing.knative.dev/v1
kind: Broker
metadata: {name: default, namespace: shop, uid: u1, generation: 2, resourceVersion: "7", creationTimestamp: "2026-01-02T03:04:05Z",
  labels: {a: b}, finalizers: [f], annotations: {c: d, kubectl.kubernetes.io/last-applied-configuration: "{}"},
  managedFields: [{manager: kubectl}]}
spec: {config: {name: x}, sink: {uri: http://a}, clusterIP: 1.2.3.4}
status:
  observedGeneration: 2
  sinkUri: http://sink
  auth: {serviceAccountName: sa}
  policies: [{name: one}, {other: x}, 7, {name: two}]
  from: [a, 3, "b*"]
  address: {url: http://first, CACerts: pem, audience: aud}
  addresses: [{name: https, url: https://second}, {name: none}, nonsense]
  conditions: [{type: Ready, status: "True", reason: r, message: m}]
`)
	want := &flow.Object{
		ObjectMeta: metav1.ObjectMeta{
			Name: "default", Namespace: "shop", UID: "u1", Generation: 2, ResourceVersion: "7",
			CreationTimestamp: metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)), Labels: map[string]string{"a": "b"},
			Annotations: map[string]string{"c": "d"}, Finalizers: []string{"f"},
		},
		Ready: flow.Readiness{Status: "True", Current: true, Reason: "r", Message: "m"},
		Addresses: []flow.Address{
			{URL: "http://first", CACerts: "pem", Audience: "aud"}, {Name: "https", URL: "https://second"},
		},
		Spec:           map[string]any{"sink": map[string]any{"uri": "http://a"}},
		SinkURI:        "http://sink",
		ServiceAccount: "sa",
		Policies:       []string{"one", "two"},
		From:           []string{"a", "b*"},
	}
	want.Kind.Group, want.Kind.Version, want.Kind.Kind = "eventing.knative.dev", "v1", "Broker"
	if diff := cmp.Diff(want, object); diff != "" {
		t.Error(diff)
	}
}

func TestDecodeKeepsTheSpecThatFlowsRead(t *testing.T) {
	t.Parallel()
	spec := "spec: {sink: 1, clusterIP: 2, other: 3}\n"
	all, sink := map[string]any{"sink": 1., "clusterIP": 2., "other": 3.}, map[string]any{"sink": 1.}
	for kind, want := range map[string]map[string]any{
		"{apiVersion: messaging.knative.dev/v1, kind: Subscription}":             all,
		"{apiVersion: security.istio.io/v1beta1, kind: PeerAuthentication}":      all,
		"{apiVersion: gateway.networking.k8s.io/v1alpha2, kind: ReferenceGrant}": all,
		"{apiVersion: eventing.knative.dev/v1alpha1, kind: EventPolicy}":         all,
		"{apiVersion: other.dev/v1, kind: Subscription}":                         sink,
		"{apiVersion: sources.knative.dev/v1, kind: PingSource}":                 sink,
		"{apiVersion: serving.knative.dev/v1, kind: Service}":                    sink,
		"{apiVersion: v1, kind: Service}":                                        {"sink": 1., "clusterIP": 2.},
		"{apiVersion: v1, kind: Service, unrelated: 1}":                          {"sink": 1., "clusterIP": 2.},
	} {
		fields := strings.NewReplacer("{", "", "}", "", ", ", "\n").Replace(kind)
		if diff := cmp.Diff(want, decode(t, fields+"\n"+spec).Spec); diff != "" {
			t.Errorf("%s: %s", kind, diff)
		}
	}
}

func TestTextsOfOthersAreCutAndHaveNoCredentials(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"plain": "plain",
		`Post "http://x/y?access_token=s3cret&a=b": refused`: `Post "http://x/y": refused`,
		"see https://user:s3cret@host/p, then":               "see https://host/p, then",
		"two http://a?s3cret http://b?s3cret=1 end":          "two http://a http://b end",
		"path /api/v1/events/x?access_token=s3cret failed":   "path /api/v1/events/x failed",
		"HTTP://A/b?s3cret":                                  "HTTP://A/b",
		"is it there? yes":                                   "is it there? yes",
		"":                                                   "",
		"<http://a/?q=s3cret>":                               "<http://a/>",
		strings.Repeat("x", 1024):                            strings.Repeat("x", 1024),
		strings.Repeat("é", 100000):                          strings.Repeat("é", 510) + "…",
	} {
		object := flow.Decode(&unstructured.Unstructured{Object: map[string]any{"status": map[string]any{"conditions": []any{
			map[string]any{"type": "Ready", "status": "True", "reason": text, "message": text}}}}})
		if object.Ready.Message != want || object.Ready.Reason != want {
			t.Errorf("%.80q is repeated as %.80q, want %.80q", text, object.Ready.Message, want)
		}
	}
}

// anything draws a value of JSON, with the names that Decode reads.
func anything(depth int) *rapid.Generator[any] {
	return rapid.Custom(func(t *rapid.T) any {
		kinds := 6
		if depth > 0 {
			kinds = 8
		}
		switch rapid.IntRange(0, kinds-1).Draw(t, "kind") {
		case 0:
			return nil
		case 1:
			return rapid.Bool().Draw(t, "flag")
		case 2:
			return rapid.Int64().Draw(t, "number")
		case 3:
			return rapid.Float64().Draw(t, "float")
		case 4:
			return rapid.SampledFrom([]string{"Ready", "True", "False", "v1", "Service", "apps/v1", "Deployment", "a/b/c", "2026-01-02T03:04:05Z",
				"http://a?b=c"}).Draw(t, "word")
		case 5:
			return rapid.String().Draw(t, "text")
		case 6:
			return rapid.SliceOfN(anything(depth-1), 0, 3).Draw(t, "list")
		}
		names := rapid.SampledFrom([]string{"metadata", "spec", "status", "conditions", "type", "observedGeneration", "address", "addresses",
			"policies", "from", "auth", "kind", "apiVersion", "deletionTimestamp", "annotations", "labels", "generation", "replicas", "finalizers",
			"creationTimestamp", "sink", "reason", "url", "updateStrategy", "containerStatuses", "currentOperation", "lastTransitionTime"})
		return rapid.MapOfN(names, anything(depth-1), 0, 6).Draw(t, "object")
	})
}

func TestDecodeTakesAnyObject(t *testing.T) {
	t.Parallel()
	kinds := []any{"Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "Pod", "Job", "Service", "PersistentVolumeClaim",
		"CustomResourceDefinition", "Broker", 7, nil}
	groups := []any{"v1", "apps/v1", "batch/v1", "apiextensions.k8s.io/v1", "eventing.knative.dev/v1", "/", "a/b/c", nil}
	rapid.Check(t, func(t *rapid.T) {
		object := &unstructured.Unstructured{Object: map[string]any{
			"kind": rapid.SampledFrom(kinds).Draw(t, "kind"), "apiVersion": rapid.SampledFrom(groups).Draw(t, "version"),
			"metadata": anything(2).Draw(t, "metadata"), "spec": anything(3).Draw(t, "spec"), "status": anything(4).Draw(t, "status"),
		}}
		decoded := flow.Decode(object)
		r := decoded.Ready
		if r.Status != "True" && r.Status != "False" && r.Status != "Unknown" {
			t.Fatalf("status %q", r.Status)
		}
		if len(r.Message) > 1024 || len(r.Reason) > 1024 || !utf8.ValidString(r.Message) {
			t.Fatalf("message of %d bytes", len(r.Message))
		}
		if r.Stale && (r.Current || r.Status != "Unknown") {
			t.Fatalf("a stale object is %+v", r)
		}
	})
	for _, object := range []*unstructured.Unstructured{nil, {}, {Object: map[string]any{}}} {
		if got := flow.Decode(object).Ready.Status; got != "Unknown" {
			t.Errorf("an empty object is %s", got)
		}
	}
}
