package build

import (
	"slices"
	"testing"
)

// TestBuildsDoNotGetWhatOpensTheLog: a step can read the environment of its ancestors.
func TestBuildsDoNotGetWhatOpensTheLog(t *testing.T) {
	t.Setenv("PGPASSWORD", "secret")
	t.Setenv("WAYBILL_TOKEN", "wb_secret")
	t.Setenv("PAGER", "less")
	env := (&task{}).environment(t.Context())
	if slices.Contains(env, "PGPASSWORD=secret") || slices.Contains(env, "WAYBILL_TOKEN=wb_secret") || !slices.Contains(env, "PAGER=less") {
		t.Errorf("the build's environment is %q", env)
	}
}
