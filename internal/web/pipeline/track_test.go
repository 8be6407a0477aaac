package pipeline

import (
	"slices"
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/internal/service"
)

func TestALongDefinitionIsCut(t *testing.T) {
	t.Parallel()
	if got := shownSource("x" + strings.Repeat("é", sourceShown)); got != "x"+strings.Repeat("é", sourceShown/2-1)+"…" {
		t.Errorf("it has %d bytes and ends in %q", len(got), got[len(got)-8:])
	}
	if got := shownSource("pipeline: greeter\n"); got != "pipeline: greeter\n" {
		t.Errorf("a short one is %q", got)
	}
}

func TestDepthsDoNotDependOnTheOrderOfStages(t *testing.T) {
	t.Parallel()
	stages := []service.StageView{{Name: "d", After: []string{"c", "a"}}, {Name: "c", After: []string{"b"}},
		{Name: "b", After: []string{"a"}}, {Name: "a"}}
	for range 2 {
		if got := depthsOf(stages); got["a"] != 0 || got["b"] != 1 || got["c"] != 2 || got["d"] != 3 {
			t.Errorf("depths %v", got)
		}
		slices.Reverse(stages)
	}
}
