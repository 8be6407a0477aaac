package buildview_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/service/buildview"
)

func TestBuildStepIsNamedInShort(t *testing.T) {
	t.Parallel()
	p := &build.Plan{}
	for i, path := range []string{"test/unit (go=1.25, db=pg)", "test/unit (go=1.25, db=lite)",
		"test/unit (go=1.26, db=pg)", "test/vet", "test/vetted", "pack/vet", "pack/only", "pack/12"} {
		stage, name, _ := strings.Cut(path, "/")
		p.Steps = append(p.Steps, build.PlanStep{ID: i + 1, Stage: stage, Name: name})
	}
	for name, want := range map[string]string{
		"0": "0", "3": "3", "test/vet": "4", "pack/vet": "6", "only": "7", "on": "7", "pack/o": "7", "vett": "5", "12": "8",
		"test/unit (go=1.26, db=pg)": "3",
		"unit (1.25, lite)":          "2", "test/unit (1.25, pg)": "1", "unit (1.26": "3", "unit (go=1.26": "3",
		"vet":       `2 steps fit "vet": 4 test/vet, 6 pack/vet`,
		"test/unit": `3 steps fit "test/unit": 1 test/unit (go=1.25, db=pg), 2 test/unit (go=1.25, db=lite), 3 test/unit (go=1.26, db=pg)`,
		"none":      `the build has no step "none"; it has 1 test/unit (go=1.25, db=pg), 2 `,
		"":          `the build has no step ""; it has 1 `,
	} {
		step, err := buildview.FindStep(p, name)
		if got := fmt.Sprint(err); err != nil && !strings.Contains(got, want) || err == nil && fmt.Sprint(step.ID) != want {
			t.Errorf("%q: %v, %v; want %s", name, step, err, want)
		}
	}
	for i := range 100 {
		p.Steps = append(p.Steps, build.PlanStep{ID: i + 9, Stage: "many", Name: fmt.Sprint("s", i)})
	}
	if _, err := buildview.FindStep(p, "many/"); err == nil ||
		!strings.HasSuffix(strings.Split(err.Error(), "\n")[0], "28 many/s19, and 80 more") {
		t.Errorf("of very many steps %v", err)
	}
}
