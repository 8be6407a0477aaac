package cli

import (
	"testing"

	"github.com/waybill-dev/waybill/internal/pipeline"
)

func TestLikelyTargetIsTheEndOfOneOrTheNearest(t *testing.T) {
	t.Parallel()
	d := &pipeline.Definition{Pipeline: "notes", Stages: []pipeline.Stage{{Name: "prod", Groups: []pipeline.Group{
		{Name: "all", Hosts: []pipeline.Host{{Name: "eu1"}, {Name: "us1"}}}}}}}
	for target, want := range map[string]string{"notes/eu1": "notes/prod/all/eu1", "notes/all/us1": "notes/prod/all/us1", "notes/prd": "notes/prod", "notes/nothing": ""} {
		if got := likelyTarget(d, target); got != want {
			t.Errorf("%s: got %q, want %q", target, got, want)
		}
	}
}
