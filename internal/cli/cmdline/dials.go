package cmdline

import (
	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/ssh"
)

// AddDials declares the flag --ssh-dials of a command that works on hosts.
func AddDials(a *App, c *cobra.Command) {
	c.Flags().IntVar(&a.Flags.SSHDials, "ssh-dials", ssh.DefaultDials, "connections to ssh hosts that are being made at a time")
}
