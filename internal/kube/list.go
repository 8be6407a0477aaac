package kube

import (
	"context"
	"errors"
	"iter"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
)

// MostObjects bounds the objects that List yields.
const MostObjects = 100_000

// pageSize is the number of objects that one request lists.
const pageSize = 500

// ErrMany is the error of List for more than MostObjects.
var ErrMany = errors.New("there are too many objects")

// List yields the objects that options select. They are read in pages. An error is the last item.
func List(ctx context.Context, objects dynamic.ResourceInterface, options metav1.ListOptions) iter.Seq2[*unstructured.Unstructured, error] {
	return func(yield func(*unstructured.Unstructured, error) bool) {
		options := options // the sequence may be read again
		options.Limit = pageSize
		for read := 0; ; {
			page, err := objects.List(ctx, options)
			if err == nil && read+len(page.Items) > MostObjects {
				err = ErrMany
			}
			if err != nil {
				yield(nil, err)
				return
			}
			for i := range page.Items {
				if !yield(&page.Items[i], nil) {
					return
				}
			}
			read += len(page.Items)
			if options.Continue = page.GetContinue(); options.Continue == "" {
				return
			}
		}
	}
}
