package pool

import (
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/waybill-dev/waybill/internal/promotion"
)

func TestPackedStatesAreWhole(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.Make[promotion.AppState]().Draw(t, "state")
		want.Value, want.MarkerApplied, want.MarkerAttempted = "", "", "" // kept elsewhere
		if diff := cmp.Diff(want, pack(want).unpack()); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
		if !reflect.DeepEqual(pack(want), pack(want)) {
			t.Error("equal states are packed differently")
		}
	})
}
