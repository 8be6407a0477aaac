package build

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/waybill-dev/waybill/internal/cli/cmdline"
	"github.com/waybill-dev/waybill/internal/command"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/results"
)

// changeable finds a build of this computer that its user may change: one that was run by hand.
func changeable(a *cmdline.App, name string) (*results.Reader, results.Build, error) {
	r, err := shelfOf(a).open(name)
	if err != nil {
		return nil, results.Build{}, err
	}
	described, err := r.Build()
	switch {
	case err != nil:
		return nil, described, err
	case !r.Own():
		return nil, described, fault.New(fault.Refused, "the results in %s are another user's, or others may change them", a.Shorten(r.Dir()))
	case filepath.Dir(filepath.Clean(r.Dir())) == filepath.Clean(a.HomeOf(a.Dir).Builds()):
		return nil, described, fault.New(fault.Refused, "build %s belongs to a deployment, which decides about it", described.ID).
			WithHint("waybill action show %s", fault.Quote(described.ID))
	}
	return r, described, nil
}

// inUse returns an error for a build whose worker has not ended. name is its user's name for it.
func inUse(r *results.Reader, id, name string) error {
	if !r.Alive() {
		return nil
	}
	if final, err := r.Final(); err != nil || final != nil {
		return errors.Join(err, fault.New(fault.Refused, "build %s has ended, but its worker still serves the results", id).
			WithHint("acknowledge them, or end waybill run --serve with Ctrl-C"))
	}
	return fault.New(fault.Refused, "build %s still runs", id).WithHint("waybill build cancel %s   # first", fault.Quote(name))
}

// deleteHere removes the results of a build of this computer.
func deleteHere(a *cmdline.App, name string) error {
	r, described, err := changeable(a, name)
	if err != nil {
		return err
	}
	if err := inUse(r, described.ID, name); err != nil {
		return err
	}
	if err := r.Remove(); err != nil {
		return err
	}
	return a.Printer().Answer(map[string]string{"buildId": described.ID}, "build "+described.ID+": deleted")
}

// cancelHere cancels a build that runs on this computer, and waits for its end.
func cancelHere(ctx context.Context, a *cmdline.App, name string) error {
	r, described, err := changeable(a, name)
	if err != nil {
		return err
	}
	if err := stillRuns(r, described); err != nil {
		return err
	}
	out := a.Printer()
	err = r.Cancel(func() error { return command.Instance(described.Process).Signal(syscall.SIGTERM) })
	switch {
	case errors.Is(err, os.ErrProcessDone) && r.Alive():
		return fault.New(fault.Unavailable, "build %s runs, but its process %d is not seen from here", described.ID, described.Process.PID).
			WithHint("cancel it in the container where it runs")
	case errors.Is(err, os.ErrProcessDone): // it has just ended
	case fault.Is(err, fault.Refused):
		return fault.New(fault.Refused, "build %s is being canceled already", described.ID).WithHint("waybill build show %s", fault.Quote(name))
	case err != nil:
		return err
	default:
		out.Note("build %s: asked to stop; waiting for its end", described.ID)
	}
	final, err := r.WaitEnd(ctx)
	if err != nil {
		return err
	}
	if final == nil {
		return lostHere(described.ID)
	}
	summary, err := summarize(r)
	if err != nil {
		return err
	}
	text := fmt.Sprintf("build %s: %s", described.ID, final.Status)
	if final.Reason != "" {
		text += ", " + final.Reason
	}
	return out.Answer(summary, text)
}

// stillRuns returns an error for a build that cannot be canceled.
func stillRuns(r *results.Reader, described results.Build) error {
	alive := r.Alive()
	final, err := r.Final()
	switch {
	case err != nil:
		return err
	case final != nil:
		return fault.New(fault.Refused, "build %s has ended: it is %s", described.ID, final.Status).WithHint("it can be run again, or deleted")
	case !alive:
		return lostHere(described.ID)
	case described.Process == (results.Process{}):
		return fault.New(fault.Refused,
			"build %s does not say which process runs it: a provisioner or an older version of Waybill began it", described.ID).
			WithHint("end it with Ctrl-C where it runs")
	}
	return nil
}

// lostHere returns the error for a build whose worker died.
func lostHere(id string) error {
	return fault.New(fault.Refused, "build %s is Lost: its worker ended before the build did", id).WithHint("it can be run again, or deleted")
}
