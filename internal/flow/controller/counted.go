package controller

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/waybill-dev/waybill/internal/obs"
)

// counted counts the write requests for objects of a kind. The controller makes no others than these.
type counted struct {
	dynamic.ResourceInterface
	kind    string
	metrics *obs.Flow
}

func (c *Controller) counted(kind string, objects dynamic.ResourceInterface) dynamic.ResourceInterface {
	return counted{objects, kind, c.cfg.Metrics}
}

func (c counted) Create(ctx context.Context, o *unstructured.Unstructured, options metav1.CreateOptions,
	parts ...string) (*unstructured.Unstructured, error) {
	c.metrics.Wrote("create", c.kind)
	return c.ResourceInterface.Create(ctx, o, options, parts...)
}

func (c counted) Patch(ctx context.Context, name string, kind types.PatchType, data []byte, options metav1.PatchOptions,
	parts ...string) (*unstructured.Unstructured, error) {
	c.metrics.Wrote("patch", c.kind)
	return c.ResourceInterface.Patch(ctx, name, kind, data, options, parts...)
}

func (c counted) Delete(ctx context.Context, name string, options metav1.DeleteOptions, parts ...string) error {
	c.metrics.Wrote("delete", c.kind)
	return c.ResourceInterface.Delete(ctx, name, options, parts...)
}
