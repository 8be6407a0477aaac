package argo

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/catalog"
	"github.com/waybill-dev/waybill/internal/conductor"
)

func TestErrorsOfTheClusterAreJudged(t *testing.T) {
	t.Parallel()
	workflows := schema.GroupResource{Group: "argoproj.io", Resource: "workflows"}
	quota := apierrors.NewForbidden(workflows, "x", errors.New("exceeded quota: flows"))
	for name, c := range map[string]struct {
		err    error
		absent missing
		want   action.OutcomeKind
	}{
		"it is there already":      {apierrors.NewAlreadyExists(workflows, "x"), missingPlace, action.Done},
		"over quota":               {quota, missingPlace, action.Throttle},
		"not allowed":              {apierrors.NewForbidden(workflows, "x", errors.New("no")), missingPlace, action.Throttle},
		"unknown":                  {apierrors.NewUnauthorized("who"), missingPlace, action.Throttle},
		"too many":                 {apierrors.NewTooManyRequests("slow down", 7), missingPlace, action.Throttle},
		"broken":                   {apierrors.NewInternalError(errors.New("etcd")), missingPlace, action.Throttle},
		"unavailable":              {apierrors.NewServiceUnavailable("later"), missingPlace, action.Throttle},
		"no template":              {apierrors.NewNotFound(workflows, "x"), missingTemplate, action.Fatal},
		"no namespace":             {apierrors.NewNotFound(workflows, "x"), missingPlace, action.Retry},
		"nothing to stop":          {apierrors.NewNotFound(workflows, "x"), nothingToStop, action.Done},
		"wrong":                    {apierrors.NewInvalid(schema.GroupKind{Kind: "Workflow"}, "x", nil), missingPlace, action.BadInput},
		"changed meanwhile":        {apierrors.NewConflict(workflows, "x", errors.New("moved")), missingPlace, action.Retry},
		"no answer":                {errors.New("dial tcp 127.0.0.1:1: connection refused"), missingPlace, action.Throttle},
		"took too long":            {context.DeadlineExceeded, missingPlace, action.Throttle},
		"this process goes away":   {context.Canceled, missingPlace, action.Retry},
		"an answer in other words": {fmt.Errorf("create: %w", quota), missingPlace, action.Throttle},
	} {
		got := outcome(c.err, "flows/x", c.absent)
		if got.Kind != c.want || got.Ref != "flows/x" || (got.Error == "") != (c.want == action.Done) {
			t.Errorf("%s: got %+v, want %s", name, got, c.want)
		}
	}
	if wait := time.Until(outcome(apierrors.NewTooManyRequests("slow down", 7), "", missingPlace).At); wait < 6*time.Second || wait > 7*time.Second {
		t.Errorf("asked to wait 7s, waits %s", wait)
	}
}

func TestParametersAreChecked(t *testing.T) {
	t.Parallel()
	h := New(Config{})
	for _, good := range []string{`{"template": "workflowtemplate/mirror"}`,
		`{"template": "clusterworkflowtemplate/mirror", "parameters": {"zone": "a", "count": 3}, "serviceAccount": "m", "labels": {"a": "b"}}`} {
		if problems := h.Check([]byte(good)); len(problems) > 0 {
			t.Errorf("%s: %v", good, problems)
		}
	}
	for _, bad := range []string{``, `{}`, `{"template": "mirror"}`, `{"template": "workflowtemplate/"}`, `{"template": "workflowtemplate/a/b"}`,
		`{"template": "workflowtemplate/a", "zone": {}}`} {
		if len(h.Check([]byte(bad))) == 0 {
			t.Errorf("%s: nothing is found wrong", bad)
		}
		o := h.Do(t.Context(), conductor.Attempt{Action: action.Action{Parameters: []byte(bad)}})
		if o.Kind != action.BadInput || o.Error == "" {
			t.Errorf("%s: %+v", bad, o)
		}
	}
}

func TestAJobGetsWhatItsProcessSaysAndItsInputs(t *testing.T) {
	t.Parallel()
	h := New(Config{Processes: map[string]*catalog.ArgoOptions{"mirror": {Template: "workflowtemplate/mirror", ServiceAccount: "m"}}})
	job := action.Action{Kind: catalog.KindJob, Name: "mirror", Parameters: []byte(`{"payload": {"b": 1, "a": 2}, "mode": "fast"}`)}
	p, err := h.parameters(conductor.Attempt{Action: job})
	want := []any{map[string]any{"name": "mode", "value": "fast"}, map[string]any{"name": "payload", "value": `{"b": 1, "a": 2}`}}
	if diff := cmp.Diff(want, p.arguments()); err != nil || diff != "" || p.Template != "workflowtemplate/mirror" || p.ServiceAccount != "m" {
		t.Errorf("%+v, %v (-want +got):\n%s", p, err, diff)
	}
	job.Name = "gone"
	if o := h.Do(t.Context(), conductor.Attempt{Action: job}); o.Kind != action.BadInput || !strings.Contains(o.Error, `no process "gone"`) {
		t.Errorf("a job without its process: %+v", o)
	}
}
