package argo

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// maxNodes bounds the unpacked size of compressed node status, in bytes.
const maxNodes = 64 << 20

// Nodes returns the status of a workflow's nodes by their ids, unpacked when Argo packed it; none
// if it is stored elsewhere or is damaged.
func Nodes(w *unstructured.Unstructured) map[string]any {
	packed, _, _ := unstructured.NestedString(w.Object, "status", "compressedNodes") // absent: not packed
	if packed == "" {
		nodes, _, _ := unstructured.NestedFieldNoCopy(w.Object, "status", "nodes") // absent: none yet
		all, _ := nodes.(map[string]any)
		return all
	}
	raw, err := base64.StdEncoding.DecodeString(packed)
	if err != nil {
		return nil
	}
	unpacked, err := gzip.NewReader(bytes.NewReader(raw))
	if err != nil {
		return nil
	}
	var nodes map[string]any
	if json.NewDecoder(io.LimitReader(unpacked, maxNodes)).Decode(&nodes) != nil {
		return nil
	}
	return nodes
}

// SetNodes replaces the status of a workflow's nodes, packed as it was packed before.
func SetNodes(w *unstructured.Unstructured, nodes map[string]any) error {
	if packed, _, _ := unstructured.NestedString(w.Object, "status", "compressedNodes"); packed == "" {
		return unstructured.SetNestedMap(w.Object, nodes, "status", "nodes")
	}
	raw, err := json.Marshal(nodes)
	if err != nil {
		return fmt.Errorf("pack the nodes of workflow %s: %w", w.GetName(), err)
	}
	var packed bytes.Buffer
	writer := gzip.NewWriter(&packed)
	if _, err := writer.Write(raw); err != nil {
		return fmt.Errorf("pack the nodes of workflow %s: %w", w.GetName(), err)
	}
	if err := writer.Close(); err != nil {
		return fmt.Errorf("pack the nodes of workflow %s: %w", w.GetName(), err)
	}
	return unstructured.SetNestedField(w.Object, base64.StdEncoding.EncodeToString(packed.Bytes()), "status", "compressedNodes")
}
