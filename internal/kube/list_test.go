package kube_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"github.com/waybill-dev/waybill/internal/kube"
)

// paged lists objects in pages as an API server does. The token of a page is the number of its first object.
type paged struct {
	dynamic.ResourceInterface
	have int
	away int // the page that begins here cannot be read; 0: every page can
}

func (p paged) List(_ context.Context, o metav1.ListOptions) (*unstructured.UnstructuredList, error) {
	first := 0
	if o.Continue != "" {
		if _, err := fmt.Sscan(o.Continue, &first); err != nil {
			return nil, err
		}
	}
	if p.away > 0 && first == p.away {
		return nil, errors.New("away")
	}
	end := min(p.have, first+int(o.Limit))
	list := &unstructured.UnstructuredList{Items: make([]unstructured.Unstructured, end-first)}
	if end < p.have {
		list.SetContinue(fmt.Sprint(end))
	}
	return list, nil
}

// count returns the number of objects that are yielded before the error.
func count(t *testing.T, p paged) (n int, err error) {
	for _, err := range kube.List(t.Context(), p, metav1.ListOptions{}) {
		if err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

func TestListsAreReadToTheirEnd(t *testing.T) {
	t.Parallel()
	for _, have := range []int{0, 1, 500, 501, 1700, kube.MostObjects} {
		if n, err := count(t, paged{have: have}); n != have || err != nil {
			t.Errorf("got %d of %d, %v", n, have, err)
		}
	}
	if n, err := count(t, paged{have: kube.MostObjects + 1}); !errors.Is(err, kube.ErrMany) {
		t.Errorf("got %d objects and %v", n, err)
	}
	if n, err := count(t, paged{have: 1700, away: 500}); n != 500 || err == nil || err.Error() != "away" {
		t.Errorf("got %d objects and %v beside an API server that leaves", n, err)
	}
}

func TestAListMayBeLeftAndReadAgain(t *testing.T) {
	t.Parallel()
	all := kube.List(t.Context(), paged{have: 700}, metav1.ListOptions{})
	for range 2 {
		n := 0
		for range all {
			if n++; n == 600 {
				break
			}
		}
		if n != 600 {
			t.Errorf("got %d objects", n)
		}
	}
}
