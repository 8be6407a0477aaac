package workspace_test

import (
	"os"
	"sync"
	"testing"

	"github.com/waybill-dev/waybill/internal/workspace"
)

// TestScratchFoldersAreMadeSideBySide: none is removed as one that is left over while it is made.
func TestScratchFoldersAreMadeSideBySide(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 30 {
				dir, err := workspace.Scratch(root)
				if err != nil {
					t.Error(err)
					return
				}
				if _, err := os.Stat(dir); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
}
