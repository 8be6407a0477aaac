package action_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
)

func TestIDIsItsTime(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 20, 10, 0, 0, 123456789, time.UTC)
	id := action.NewID(at, [10]byte{0xff, 0xff, 0xff})
	if got := id.Time(); !got.Equal(at.Truncate(time.Millisecond)) {
		t.Errorf("got %s", got)
	}
	if version, variant := id[6]>>4, id[8]>>6; version != 7 || variant != 2 {
		t.Errorf("version %d, variant %d; want 7 and 2 (RFC 9562)", version, variant)
	}
}

func TestDerivedIDIsTheSameForTheSameParts(t *testing.T) {
	t.Parallel()
	at := time.UnixMilli(1)
	first, again := action.DerivedID(at, "a", "b"), action.DerivedID(at, "a", "b")
	if first != again {
		t.Error("the same parts give two ids")
	}
	if action.DerivedID(at, "ab", "") == action.DerivedID(at, "a", "b") {
		t.Error("other parts give the same id")
	}
}

func TestIDReadsAsText(t *testing.T) {
	t.Parallel()
	id := action.DerivedID(time.UnixMilli(1), "x")
	raw, err := json.Marshal(id)
	if err != nil {
		t.Fatal(err)
	}
	var back action.ID
	if err := json.Unmarshal(raw, &back); err != nil || back != id {
		t.Errorf("got %s, %v; want %s", back, err, id)
	}
	for _, bad := range []string{"", "x", "01a1f866-0d10-7c55-9d3e-5b0c7c1a2fzz", "01a1f866-0d10-7c55-9d3e5b0c7c1a2f77---"} {
		if _, err := action.ParseID(bad); err == nil {
			t.Errorf("%q was read as an id", bad)
		}
	}
}

func TestStepKeyIsAJSONArray(t *testing.T) {
	t.Parallel()
	got := action.StepRef{Target: `a/"b"`, Event: "host-deployed"}.UniqueKey("d")
	if want := `["d","a/\"b\"","host-deployed"]`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestStatusReadsInAnyCase(t *testing.T) {
	t.Parallel()
	for s := action.Pending; s <= action.RetriesExhausted; s++ {
		if got, err := action.ParseStatus(s.String()); err != nil || got != s {
			t.Errorf("%s reads as %s, %v", s, got, err)
		}
		if s.Live() == s.Ended() {
			t.Errorf("%s is live: %v, ended: %v", s, s.Live(), s.Ended())
		}
	}
	if got, err := action.ParseStatus("timed_out"); err != nil || got != action.TimedOut {
		t.Errorf("got %s, %v", got, err)
	}
	if _, err := action.ParseStatus("done"); err == nil {
		t.Error("done is not a status")
	}
}
