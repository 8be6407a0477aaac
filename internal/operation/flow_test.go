package operation

import (
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/service/flowview"
)

func TestFlowsAreSelectedByTheStatusesThatTheyHave(t *testing.T) {
	t.Parallel()
	field, _ := reflect.TypeFor[FlowsInput]().FieldByName("Status")
	if diff := cmp.Diff(flowview.Statuses(), strings.Split(field.Tag.Get("enum"), ",")); diff != "" {
		t.Error(diff)
	}
}
