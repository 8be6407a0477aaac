package build

import (
	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/cli/cmdline"
	"github.com/waybill-dev/waybill/internal/fault"
)

// rerunOf returns the run that repeats a build of this computer in its folder.
func rerunOf(a *cmdline.App, name string, passwords map[string]string, resume bool) (*localRun, error) {
	r, described, err := changeable(a, name)
	if err != nil {
		return nil, err
	}
	if err := inUse(r, described.ID, name); err != nil {
		return nil, err
	}
	given := described.Given
	if given.Folder == "" {
		return nil, fault.New(fault.Refused,
			"build %s cannot be run again: it has no record of a folder, as builds of snapshots, and of older versions of Waybill", described.ID).
			WithHint("waybill run   # in the folder, else with --workspace")
	}
	c := &cobra.Command{}
	run := &localRun{app: a, set: c.Flags(), folder: given.Folder}
	addRunFlags(a, c, &run.flags)
	if err := c.ParseFlags(given.Flags); err != nil {
		return nil, fault.New(fault.Corrupt, "read the flags of build %s: %w", described.ID, err)
	}
	run.flags.Inherit(described)
	run.flags.RerunOf = described.ID
	run.flags.Hide(passwords)
	if resume {
		run.flags.Resume = r.Dir()
	}
	return run, nil
}
