package caboosetest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"path"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/argo"
	"github.com/waybill-dev/waybill/internal/blob"
	"github.com/waybill-dev/waybill/internal/caboose"
	"github.com/waybill-dev/waybill/internal/kube/kubetest"
	"github.com/waybill-dev/waybill/internal/queue"
)

// faults sits between a caboose and its world. The archive and the deletion of each workflow fail that often. It
// notes its calls, by action.
type faults struct {
	blob.Store
	caboose.Ledger
	settings Settings

	mu         sync.Mutex
	puts       map[string]int // failed puts, by name
	deletes    map[string]int // every deletion
	recorded   map[string]int // failed puts when the end was recorded
	unarchived []string       // what was deleted and should not have been
}

func newFaults(blobs blob.Store, l caboose.Ledger, s Settings) *faults {
	return &faults{Store: blobs, Ledger: l, settings: s, puts: map[string]int{}, deletes: map[string]int{}, recorded: map[string]int{}}
}

func (f *faults) Put(ctx context.Context, key string, r io.Reader) (string, string, int64, error) {
	id := path.Base(path.Dir(key))
	f.mu.Lock()
	fails := f.puts[id] < f.settings.ArchiveFails
	if fails {
		f.puts[id]++
	}
	f.mu.Unlock()
	if fails {
		return "", "", 0, fmt.Errorf("%s cannot be stored now", key)
	}
	return f.Store.Put(ctx, key, r)
}

func (f *faults) Observe(ctx context.Context, o ...queue.Observation) (queue.Observed, error) {
	seen, err := f.Ledger.Observe(ctx, o...)
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, id := range seen.Ended {
		f.recorded[id.String()] = f.puts[id.String()]
	}
	return seen, err
}

// deletion counts one, and fails a workflow's first ones.
func (f *faults) deletion(name string) error {
	id, err := action.ParseID(name)
	archived := false
	if err == nil {
		archived, err = f.Has(context.Background(), blob.ActionKey(id, argo.ArchivedWorkflow))
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if !archived || err != nil {
		f.unarchived = append(f.unarchived, fmt.Sprintf("%s is deleted and not archived: %v", name, err))
	}
	if f.deletes[name]++; f.deletes[name] <= f.settings.DeleteFails {
		return apierrors.NewInternalError(fmt.Errorf("%s cannot be deleted now", name))
	}
	return nil
}

// open returns an API with the completed workflows of the jobs. The caller closes it.
func (f *faults) open(jobs map[action.ID]bool, features int) *kubetest.API {
	var workflows []*unstructured.Unstructured
	for id, big := range jobs {
		size := 10
		if big {
			size += blob.Inline
		}
		workflows = append(workflows, mirrored(id, features, size))
	}
	api := OpenAPI(workflows...)
	api.Before(func(r kubetest.Request) error {
		if r.Verb != "delete" {
			return nil
		}
		return f.deletion(r.Name)
	})
	return api
}

// OpenAPI returns an API with workflows. The caller closes it.
func OpenAPI(workflows ...*unstructured.Unstructured) *kubetest.API {
	api := kubetest.Open(kubetest.Kind{GroupVersionResource: argo.Workflows(), Kind: "Workflow"})
	for _, one := range workflows {
		api.Add(argo.Workflows(), one)
	}
	return api
}

// mirrored returns a job's workflow that has ended with so many features, each of about size bytes.
func mirrored(id action.ID, features, size int) *unstructured.Unstructured {
	list := make([]map[string]any, features)
	for i := range list {
		list[i] = map[string]any{"id": i, "text": strings.Repeat("x", size)}
	}
	text, _ := json.Marshal(list) // texts and numbers always marshal
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow",
		"metadata": map[string]any{"name": id.String(), "namespace": "flows", "uid": "uid-" + id.String()},
		"status": map[string]any{"phase": "Succeeded", "startedAt": "2026-11-20T10:00:00Z", "finishedAt": "2026-11-20T10:01:00Z",
			"outputs": map[string]any{"parameters": []any{map[string]any{"name": "features", "value": string(text)}}}},
	}}
}
