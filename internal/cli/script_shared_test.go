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
	play(t, "testdata/script/build-project.txtar", func(env *testscript.Env) error {
		env.Setenv("STORE", pgtest.URL(t))
		return nil
	})
}
