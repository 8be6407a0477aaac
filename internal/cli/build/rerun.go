package build

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/builder/local"
	"github.com/waybill-dev/waybill/internal/cli/cmdline"
	"github.com/waybill-dev/waybill/internal/fault"
)

// rerunHere runs a build of this computer again, in its folder.
func rerunHere(ctx context.Context, a *cmdline.App, name string, passwords map[string]string, resume bool) error {
	r, described, err := changeable(a, name)
	if err != nil {
		return err
	}
	if err := inUse(r, described.ID, name); err != nil {
		return err
	}
	given := described.Given
	if given.Folder == "" {
		return fault.New(fault.Refused,
			"build %s cannot be run again: it has no record of a folder, as builds of snapshots, and of older versions of Waybill", described.ID).
			WithHint("waybill run   # in the folder, else with --workspace")
	}
	var flags local.Options
	c := &cobra.Command{}
	addRunFlags(a, c, &flags)
	if err := c.ParseFlags(given.Flags); err != nil {
		return fault.New(fault.Corrupt, "read the flags of build %s: %w", described.ID, err)
	}
	flags.Inherit(described)
	flags.RerunOf = described.ID
	flags.Hide(passwords)
	if resume {
		flags.Resume = r.Dir()
	}
	return runWith(ctx, a, c.Flags(), []string{given.Folder}, flags)
}
