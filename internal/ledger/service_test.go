package ledger

import "testing"

// TestLargeRequestsShareNoTransaction: the bytes of a group are bounded, too.
func TestLargeRequestsShareNoTransaction(t *testing.T) {
	t.Parallel()
	for size, shares := range map[int]int{0: mostOperations, 1000: mostOperations, 1 << 18: 3, 1 << 20: 0} {
		o := &operateCall{key: ServiceKey{Instance: "demo-1", Size: size}}
		got := mostOperations / o.weight()
		if got != shares {
			t.Errorf("%d requests of %d bytes share a transaction, want %d", got, size, shares)
		}
	}
}
