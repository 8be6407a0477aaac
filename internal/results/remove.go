package results

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/waybill-dev/waybill/internal/fault"
)

// Remove removes the results of a build whose worker is gone; fault.Refused while one writes. What else is in the folder stays, and the
// folder with it: --results-dir may name one that has other files. build.json goes last, so that what a crash leaves can be removed
// again.
func (r *Reader) Remove() error {
	if r.Alive() {
		return fault.New(fault.Refused, "a worker still writes the results in %s", r.dir)
	}
	names := []string{stepsFolder, snapshotFile, WorkerFile, TakenFile, reserveName, lockName, cancelFile, buildFile}
	for _, name := range names {
		path := filepath.Join(r.dir, name)
		if err := errors.Join(os.RemoveAll(path), os.RemoveAll(path+".tmp")); err != nil {
			return fmt.Errorf("remove results: %w", err)
		}
	}
	err := os.Remove(r.dir)
	if errors.Is(err, syscall.ENOTEMPTY) || errors.Is(err, syscall.EEXIST) || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("remove results: %w", err)
	}
	return nil
}
