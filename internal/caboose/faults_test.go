package caboose_test

import (
	"path/filepath"
	"testing"

	"github.com/waybill-dev/waybill/internal/caboose/caboosetest"
	"github.com/waybill-dev/waybill/internal/sqlite"
)

// TestFaultsMakeNoCallbackTwice: seven archives and seven deletions of each workflow fail. Ends are
// recorded once, at the fifth failure, also where callbacks need an output that is not stored yet;
// no callback comes twice, or before its parameters; nothing unarchived is deleted, and everything
// is deleted in the end.
func TestFaultsMakeNoCallbackTwice(t *testing.T) {
	t.Parallel()
	driver, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "waybill.db"))
	if err != nil {
		t.Fatal(err)
	}
	day, err := caboosetest.Run(t.Context(), driver, t.TempDir(), caboosetest.Settings{Jobs: 6, Features: 3, ArchiveFails: 7, DeleteFails: 7})
	if err != nil {
		t.Fatal(err)
	}
	for _, fault := range day.Faults {
		t.Error(fault)
	}
	if day.Ends != 6 || day.Callbacks != 18 || day.Duplicates+day.Early != 0 {
		t.Errorf("%+v", day)
	}
}
