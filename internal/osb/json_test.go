package osb

import (
	"math"
	"testing"
)

func TestObjectsOfOtherReadersHaveTheSameForm(t *testing.T) {
	t.Parallel()
	type fields map[string]any
	for want, object := range map[Canonical]map[string]any{
		`{}`:                            nil,
		`{"a":{"n":5,"o":0.5},"b":"&"}`: {"b": "&", "a": fields{"o": 0.5, "n": int64(5)}},
	} {
		if got, err := CanonicalOf(object); err != nil || got != want {
			t.Errorf("got %s, %v, want %s", got, err, want)
		}
	}
	if got, err := CanonicalOf(map[string]any{"a": math.Inf(1)}); err == nil {
		t.Errorf("a number that JSON lacks has the form %s", got)
	}
}
