package cli_test

import (
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/waybill-dev/waybill/internal/bubbletest"
	"github.com/waybill-dev/waybill/internal/servertest"
)

// TestArchivedDeploymentsAreRead plays a story on a home whose first deployment is archived.
func TestArchivedDeploymentsAreRead(t *testing.T) {
	t.Parallel()
	old := t.TempDir()
	bubbletest.Test(t, func(t *testing.T) {
		servertest.StartAging(t, old).Grow(t, "r1", "r2", "r3", "r4", "r5", "r6")
	})
	play(t, "testdata/archive/archive.txtar", func(env *testscript.Env) error {
		env.Setenv("OLD", old)
		return nil
	})
}
