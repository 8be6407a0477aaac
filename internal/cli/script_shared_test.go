//go:build services

package cli_test

import (
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/waybill-dev/waybill/internal/pgtest"
)

// TestStoriesOnASharedLog plays stories on PostgreSQL.
func TestStoriesOnASharedLog(t *testing.T) {
	t.Parallel()
	for _, story := range []string{"build-project", "build-resume"} {
		t.Run(story, func(t *testing.T) {
			t.Parallel()
			play(t, "testdata/script/"+story+".txtar", func(env *testscript.Env) error {
				env.Setenv("STORE", pgtest.URL(t))
				return nil
			})
		})
	}
}
