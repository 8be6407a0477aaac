package show

import (
	"testing"

	"github.com/waybill-dev/waybill/internal/service"
)

// The first line of status does not claim that nothing is to be done when a line below it requests something.
func TestStatusHeadline(t *testing.T) {
	t.Parallel()
	problem, warning := service.Trouble{}, service.Trouble{Warning: true}
	for _, test := range []struct {
		keepsUp  bool
		troubles []service.Trouble
		want     string
	}{
		{true, nil, "keeping up: nothing to do"},
		{true, []service.Trouble{warning, warning}, "keeping up: no live action, 2 warnings"},
		{false, []service.Trouble{problem}, "not keeping up: no live action, 1 problem"},
		{false, []service.Trouble{problem, problem, warning}, "not keeping up: no live action, 2 problems, 1 warning"},
	} {
		if got := headline(service.StatusView{KeepsUp: test.keepsUp, Troubles: test.troubles}); got != test.want {
			t.Errorf("%+v: got %q, want %q", test.troubles, got, test.want)
		}
	}
}
