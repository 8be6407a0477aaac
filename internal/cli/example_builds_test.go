package cli_test

import (
	"path/filepath"
	"testing"

	"github.com/waybill-dev/waybill/internal/childtest"
)

func TestExamplesOfBuildsAreSound(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../examples/builds/*/.wharf-ci.yml")
	if err != nil || len(files) < 4 {
		t.Fatalf("found %v, %v", files, err)
	}
	for _, file := range files {
		if out, err := childtest.Command(t, "waybill", "build", "lint", "--strict", filepath.Dir(file)).CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	}
}
