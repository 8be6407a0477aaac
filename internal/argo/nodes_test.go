package argo_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/waybill-dev/waybill/internal/argo"
)

func TestNodesAreReadAsTheyWereWritten(t *testing.T) {
	t.Parallel()
	nodes := map[string]any{"w-1": map[string]any{"displayName": "approve", "phase": "Running"}}
	for name, status := range map[string]map[string]any{"plain": {}, "packed": {"compressedNodes": "something"}} {
		w := &unstructured.Unstructured{Object: map[string]any{"status": status}}
		if err := argo.SetNodes(w, nodes); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(nodes, argo.Nodes(w)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if _, plain := status["nodes"]; plain != (name == "plain") {
			t.Errorf("%s: status %v", name, status)
		}
	}
}

func TestDamagedNodesAreNone(t *testing.T) {
	t.Parallel()
	for _, packed := range []string{"not base64", "bm90IGd6aXA="} {
		w := &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{"compressedNodes": packed}}}
		if nodes := argo.Nodes(w); nodes != nil {
			t.Errorf("%q: %v", packed, nodes)
		}
	}
}
