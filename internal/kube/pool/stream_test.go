package pool

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/apimachinery/pkg/watch"
)

// recordedObjects returns the recorded objects, each with fields that no decision needs.
func recordedObjects(t *testing.T) (all []*unstructured.Unstructured) {
	t.Helper()
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal("no recorded objects", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if text, err = yaml.ToJSON(text); err != nil {
			t.Fatal(err)
		}
		o := &unstructured.Unstructured{}
		if err := o.UnmarshalJSON(text); err != nil {
			t.Fatal(err)
		}
		o.SetAnnotations(map[string]string{"quoted": "a \"b\" {c} \\ \u00e9"})
		o.SetLabels(map[string]string{"team": "apps"})
		if err := unstructured.SetNestedField(o.Object, []any{map[string]any{"id": "a{b", "v": "v1"}}, "status", "inventory", "entries"); err != nil {
			t.Fatal(err)
		}
		all = append(all, o)
	}
	return all
}

func TestEventsHaveTheFieldsThatDecisionsNeed(t *testing.T) {
	t.Parallel()
	objects := recordedObjects(t)
	var stream bytes.Buffer
	for _, o := range objects {
		if err := json.NewEncoder(&stream).Encode(map[string]any{"type": watch.Modified, "object": o.Object}); err != nil {
			t.Fatal(err)
		}
	}
	for name, body := range map[string]io.Reader{
		"at once": bytes.NewReader(stream.Bytes()), "byte by byte": iotest.OneByteReader(bytes.NewReader(stream.Bytes())),
		"without ends of lines": strings.NewReader(strings.ReplaceAll(stream.String(), "\n", "")),
	} {
		for _, whole := range []bool{false, true} {
			e := &events{body: io.NopCloser(body), whole: whole}
			if seeker, ok := body.(io.Seeker); whole && !ok {
				continue
			} else if ok {
				_, _ = seeker.Seek(0, io.SeekStart) // a reader of bytes never fails
			}
			for _, want := range objects {
				kind, got, err := e.Decode()
				if err != nil {
					t.Fatal(name, err)
				}
				one := got.(*unstructured.Unstructured)
				if diff := cmp.Diff(AppState(want), AppState(one)); kind != watch.Modified || diff != "" {
					t.Errorf("%s, %s, whole %t: %s (-want +got):\n%s", name, kind, whole, want.GetKind(), diff)
				}
				if diff := cmp.Diff(want.GetAnnotations(), one.GetAnnotations()); diff != "" || one.GetLabels()["team"] != "apps" {
					t.Errorf("%s: annotations of %s: %s", name, want.GetKind(), diff)
				}
				if diff := cmp.Diff(want.Object, one.Object); whole && diff != "" {
					t.Errorf("%s: the whole %s (-want +got):\n%s", name, want.GetKind(), diff)
				}
				if _, kept := one.Object["status"].(map[string]any)["inventory"]; kept != whole {
					t.Errorf("%s, whole %t: the inventory is kept: %t", name, whole, kept)
				}
			}
			if _, _, err := e.Decode(); err == nil {
				t.Errorf("%s: an event after the last one", name)
			}
		}
	}
}

func TestValuesOfAnEventAreThoseOfTheAPIMachinery(t *testing.T) {
	t.Parallel()
	const text = `{"kind":"A", "apiVersion":"v1", "n":[0, -2, 1.5, 1e3, 9223372036854775807, 9223372036854775808, -0.0],
		"l":[true, false, null, [], {}, "\u00e9\n\"\ud83d\ude00"], "twice":{"a":1}, "twice":{"b":2}, "":null, "\u0061":"escaped"}`
	want := &unstructured.Unstructured{}
	if err := want.UnmarshalJSON([]byte(text)); err != nil {
		t.Fatal(err)
	}
	e := &events{body: io.NopCloser(strings.NewReader(`{"type":"MODIFIED","object":` + text + `}`)), whole: true}
	_, got, err := e.Decode()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestEventsOfAnotherFormEndAWatch(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		`7`, `{}`, `{"type":"MODIFIED"}`, `{"type":"MODIFIED","object":null}`, `{"type":"MODIFIED","object":[]}`,
		`{"type":"MODIFIED","object":{"metadata":{"name":"a"}}}`, `{"type":"MODIFIED","object":{"kind":"A","status":{"conditions":[1,]}}}`,
		`{"type":"MODIFIED","object":{"kind":"A","spec":{"suspend":+1}}}`, `{"type":"OTHER","object":{"kind":"A"}}`,
		`{"type":"MODIFIED","object":{"kind":"A","status":{"observedGeneration":1e999}}}`,
		`{"type":"ERROR","object":{"kind":"Status","code":"many"}}`, `{"type":"MODIFIED","object":{"kind":"A"`,
	} {
		e := &events{body: io.NopCloser(strings.NewReader(text + "\n"))}
		if kind, object, err := e.Decode(); err == nil {
			t.Errorf("%s: got %s %v", text, kind, object)
		}
	}
}

func TestAnErrorOfAWatchKeepsItsReason(t *testing.T) {
	t.Parallel()
	const text = `{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"too old",` +
		`"reason":"Expired","details":{"retryAfterSeconds":3},"code":410}}` + "\n"
	e := &events{body: io.NopCloser(strings.NewReader(text))}
	kind, object, err := e.Decode()
	if err != nil || kind != watch.Error {
		t.Fatal(kind, err)
	}
	got := apierrors.FromObject(object)
	if delay, ok := apierrors.SuggestsClientDelay(got); !apierrors.IsResourceExpired(got) || !ok || delay != 3 {
		t.Errorf("error %v, delay %d", got, delay)
	}
}
