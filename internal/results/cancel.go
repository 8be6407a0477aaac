package results

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/fault"
)

// cancelFile is a file of the results that exists once another process has asked for the end of the build. It is empty until the worker
// was signaled.
const cancelFile = "cancel"

// Cancel has notify ask the worker to cancel the build. It does so once, since a worker that is asked twice ends
// without an end of its build: fault.Refused reports that this was done before, or is being done.
func (r *Reader) Cancel(notify func() error) error {
	file, err := os.OpenFile(filepath.Join(r.dir, cancelFile), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return fmt.Errorf("cancel a build: %w", err)
	}
	defer file.Close()
	again := fault.New(fault.Refused, "the build in %s is being canceled already", r.dir)
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return again
	}
	if info, err := file.Stat(); err != nil || info.Size() > 0 {
		return again
	}
	if err := notify(); err != nil {
		return err
	}
	if _, err := file.WriteString("asked\n"); err != nil {
		return fmt.Errorf("note that a build is canceled: %w", err)
	}
	return nil
}

// WaitEnd waits for the final marker. It returns nil without an error if the worker ended without one.
func (r *Reader) WaitEnd(ctx context.Context) (*build.Update, error) {
	for {
		alive := r.Alive() // before the marker is searched for, which a worker may write last
		final, err := r.Final()
		if final != nil || err != nil || !alive {
			return final, err
		}
		if err := pause(ctx); err != nil {
			return nil, err
		}
	}
}
