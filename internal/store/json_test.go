package store

import "testing"

func TestMeasureJSON(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][2]int{
		`1`:                             {1, 0},
		`[1, [2, {"a": 3}]]`:            {6, 3},
		`{"a": [[]], "b": [[]]}`:        {7, 3},
		`["[{,\"[{,", "\\", "a\\\"[["]`: {4, 1},
	} {
		if values, levels := MeasureJSON([]byte(text)); values != want[0] || levels != want[1] {
			t.Errorf("%s: %d values, %d levels; want %d and %d", text, values, levels, want[0], want[1])
		}
	}
}
