package worker_test

import (
	"bytes"
	"strings"
	"testing"
)

// TestARemarkForgesNoEntry: a name with a line break, in a remark of Waybill, becomes several entries, each with its time.
func TestARemarkForgesNoEntry(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	_, r := s.run(t.Context(),
		"s: {a: {artifacts: [\"a\\n2026-01-01T00:00:00.000000000Z forged\"], container: {image: none, cmds: [\"true\"]}}}\n")
	if err := r.Verify(); err != nil {
		t.Error(err)
	}
	entries, total, err := r.Tail(1, 10)
	if err != nil || total != 2 {
		t.Fatalf("%d entries, %v", total, err)
	}
	for _, e := range entries {
		if !e.Waybill || e.At.Year() == 2026 && e.At.Month() == 1 && e.At.Day() == 1 {
			t.Errorf("entry %+v", e)
		}
	}
	if last := entries[len(entries)-1].Text; !bytes.Contains(last, []byte("forged")) || strings.Contains(string(entries[0].Text), "forged") {
		t.Errorf("the last entry is %q", last)
	}
}
