package cmdline_test

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/waybill-dev/waybill/internal/cli/cmdline"
	"github.com/waybill-dev/waybill/internal/fault"
)

// TestWhatIsReportedBesideAResult: the end of a build has been shown, and pods that it could not delete have not.
func TestWhatIsReportedBesideAResult(t *testing.T) {
	t.Parallel()
	failed := cmdline.Printed(fault.New(fault.Failed, "build 7 failed"))
	left := fault.New(fault.Unavailable, "delete the pods of the build: 2 pods are left")
	for _, c := range []struct {
		err  error
		want string
	}{
		{failed, ""},
		{fmt.Errorf("follow: %w", failed), ""},
		{errors.Join(errors.Join(failed, nil), left), "waybill: delete the pods of the build: 2 pods are left\n"},
		{left, "waybill: delete the pods of the build: 2 pods are left\n"},
	} {
		var printed bytes.Buffer
		(&cmdline.App{Err: &printed}).Report(c.err)
		if printed.String() != c.want {
			t.Errorf("%v: printed %q, want %q", c.err, &printed, c.want)
		}
	}
	if got := cmdline.ExitStatus(errors.Join(failed, left)); got != cmdline.ExitStatus(failed) {
		t.Errorf("exit status %d, want that of the build", got)
	}
}
