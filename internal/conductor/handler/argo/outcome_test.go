package argo

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/conductor"
	"github.com/waybill-dev/waybill/internal/config"
)

// TestAttemptsThatAreCutOffAreJudged: without an answer of a cluster.
func TestAttemptsThatAreCutOffAreJudged(t *testing.T) {
	t.Parallel()
	workflows := schema.GroupResource{Group: "argoproj.io", Resource: "workflows"}
	for name, c := range map[string]struct {
		err  error
		want action.OutcomeKind
	}{
		"took too long":          {context.DeadlineExceeded, action.Throttle},
		"this process goes away": {context.Canceled, action.Retry},
		"changed meanwhile":      {apierrors.NewConflict(workflows, "x", errors.New("moved")), action.Retry},
	} {
		if got := outcome(fmt.Errorf("create: %w", c.err), "flows/x", missingPlace); got.Kind != c.want ||
			got.Ref != "flows/x" || got.Error == "" {
			t.Errorf("%s: got %+v, want %s", name, got, c.want)
		}
	}
}

func TestParametersAreChecked(t *testing.T) {
	t.Parallel()
	h := New(Config{})
	for _, good := range []string{`{"template": "workflowtemplate/mirror"}`,
		`{"template": "clusterworkflowtemplate/mirror", "parameters": {"zone": "a", "count": 3}, "serviceAccount": "m", "labels": {"a": "b"}}`} {
		if _, err := h.parameters(toCreate(good)); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	for _, bad := range []string{``, `{}`, `{"template": "mirror"}`, `{"template": "workflowtemplate/"}`,
		`{"template": "workflowtemplate/a/b"}`,
		`{"template": "workflowtemplate/a", "zone": {}}`} {
		o := h.Do(t.Context(), conductor.Attempt{Action: action.Action{Parameters: []byte(bad)}})
		if o.Kind != action.BadInput || o.Error == "" {
			t.Errorf("%s: %+v", bad, o)
		}
	}
}

func TestAJobGetsWhatItsProcessSaysAndItsInputs(t *testing.T) {
	t.Parallel()
	h := New(Config{Processes: map[string]*config.ArgoOptions{"mirror": {Template: "workflowtemplate/mirror", ServiceAccount: "m"}}})
	job := action.Action{Kind: config.KindJob, Name: "mirror", Parameters: []byte(`{"payload": {"b": 1, "a": 2}, "mode": "fast"}`)}
	p, err := h.parameters(conductor.Attempt{Action: job})
	want := []any{map[string]any{"name": "mode", "value": "fast"}, map[string]any{"name": "payload", "value": `{"b": 1, "a": 2}`}}
	if diff := cmp.Diff(want, p.arguments()); err != nil || diff != "" || p.Template != "workflowtemplate/mirror" || p.ServiceAccount != "m" {
		t.Errorf("%+v, %v (-want +got):\n%s", p, err, diff)
	}
	job.Name = "gone"
	if o := h.Do(t.Context(), conductor.Attempt{Action: job}); o.Kind != action.BadInput ||
		!strings.Contains(o.Error, `process "gone" was removed`) {
		t.Errorf("a job without its process: %+v", o)
	}
}
