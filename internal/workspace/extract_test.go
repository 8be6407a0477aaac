package workspace_test

import (
	"bytes"
	"testing"

	"github.com/waybill-dev/waybill/internal/workspace"
)

// TestASnapshotWithALargeWindowIsRefused before the window takes memory.
func TestASnapshotWithALargeWindowIsRefused(t *testing.T) {
	t.Parallel()
	snapshot := func(window byte) *bytes.Reader {
		block := make([]byte, 1024) // the end of a tar
		size := len(block)<<3 | 1   // the last block, raw
		return bytes.NewReader(append([]byte{0x28, 0xb5, 0x2f, 0xfd, 0, window, byte(size), byte(size >> 8), byte(size >> 16)}, block...))
	}
	const small, large = (23 - 10) << 3, (29 - 10) << 3 // 8 MiB, 512 MiB
	if err := workspace.Extract(t.Context(), snapshot(small), t.TempDir(), ""); err != nil {
		t.Error(err)
	}
	if err := workspace.Extract(t.Context(), snapshot(large), t.TempDir(), ""); err == nil {
		t.Error("a window of 512 MiB was extracted")
	}
	if err := workspace.Check(t.Context(), snapshot(large)); err == nil {
		t.Error("a window of 512 MiB was read")
	}
}
