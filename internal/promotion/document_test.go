package promotion_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/waybill-dev/waybill/internal/promotion"
)

// An input that was written as JSON leads to the same plan when it is read again.
func TestAWrittenInputLeadsToTheSamePlan(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		h := newHistory(t)
		for i := range h.Spec.Environments {
			h.bring(i, pick(t, "baseline", "a", "b", ""), 0)
		}
		for range rapid.IntRange(1, 20).Draw(t, "events") {
			h.happen()
			plan := promotion.Decide(h.Input)
			var read promotion.Input
			if err := json.Unmarshal([]byte(asJSON(t, h.Input)), &read); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(asJSON(t, plan), asJSON(t, promotion.Decide(read))); diff != "" {
				t.Fatalf("another plan from the input that was read: %s\n%s", diff, asJSON(t, h.Input))
			}
			h.record(plan)
		}
	})
}

func asJSON(t *rapid.T, value any) string {
	text, err := json.MarshalIndent(value, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
