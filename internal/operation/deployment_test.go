package operation_test

import (
	"context"
	"errors"
	"testing"

	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/operation"
	"github.com/waybill-dev/waybill/internal/service"
)

// log is a log with deployments of two pipelines, newest first, as operations read it.
func log(each int, folds error) operation.Calls {
	calls := operation.Calls{}
	operation.Serve(calls, operation.ListPipelines, func(context.Context, *operation.Nothing) ([]service.PipelineView, error) {
		return []service.PipelineView{{Name: "a"}, {Name: "b"}}, folds
	})
	operation.Serve(calls, operation.ListDeployments, func(_ context.Context, in *operation.DeploymentsInput) ([]journal.Deployment, error) {
		var found []journal.Deployment
		for n := int64(each); n > 0; n-- {
			for at, name := range []string{"a", "b"} {
				if (in.Pipeline == "" || in.Pipeline == name) && (in.Before == 0 || n < in.Before) && len(found) < in.Limit {
					d := journal.Deployment{Pipeline: name, Number: n}
					d.ID[14], d.ID[15], d.ID[13] = byte(n), byte(2-at), byte(n>>8)
					found = append(found, d)
				}
			}
		}
		return found, nil
	})
	return calls
}

// Pages of all pipelines are read pipeline by pipeline, in the order of one list.
func TestAllDeploymentsAreReadPageByPage(t *testing.T) {
	for _, limit := range []int{0, 1, 2500, 4000} {
		all, err := operation.AllDeployments(t.Context(), log(1500, nil), operation.DeploymentsInput{Limit: limit})
		want := 3000
		if limit > 0 {
			want = min(limit, want)
		}
		if err != nil || len(all) != want {
			t.Fatalf("limit %d: %d deployments, want %d, error %v", limit, len(all), want, err)
		}
		for i, d := range all {
			if name := []string{"a", "b"}[i%2]; d.Pipeline != name || d.Number != int64(1500-i/2) {
				t.Fatalf("limit %d: deployment %d is %s#%d", limit, i, d.Pipeline, d.Number)
			}
		}
	}
}

// A pipeline whose log cannot be read does not hide the deployments, which fit on a page.
func TestAFewDeploymentsAreListedWithoutTheirPipelines(t *testing.T) {
	all, err := operation.AllDeployments(t.Context(), log(30, errors.New("the log of a is damaged")), operation.DeploymentsInput{})
	if err != nil || len(all) != 60 {
		t.Errorf("%d deployments, error %v", len(all), err)
	}
}
