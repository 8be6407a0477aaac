package cmdline

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/fault"
)

// ShowHelp runs a command that only groups others: it prints the help, or an error for a name that is not in the group.
func ShowHelp(c *cobra.Command, arguments []string) error {
	if len(arguments) == 0 {
		return c.Help()
	}
	var known []string
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			known = append(known, sub.Name())
		}
	}
	return fault.New(fault.Invalid, "command %q not found", c.CommandPath()+" "+arguments[0]).
		WithHint("%s", NearestHint(arguments[0], known, c.CommandPath()+" %s", c.CommandPath()+" --help"))
}

// UsageFault returns a flag's error with the code of wrong usage.
func UsageFault(c *cobra.Command, err error) error {
	return fault.Wrap(fault.Invalid, err).WithHint("%s --help", c.CommandPath())
}

// Arguments checks that there are between least and most arguments. The names are for the message.
func Arguments(least, most int, names ...string) cobra.PositionalArgs {
	return func(c *cobra.Command, given []string) error {
		switch {
		case len(given) < least:
			return fault.New(fault.Invalid, "%s wants %s", c.CommandPath(), strings.Join(names[len(given):least], " and ")).
				WithHint("%s", c.UseLine())
		case len(given) > most:
			return fault.New(fault.Invalid, "%s: unexpected argument %q", c.CommandPath(), given[most]).WithHint("%s", c.UseLine())
		}
		return nil
	}
}

// Group returns a command that only groups others.
func Group(use, short, long string, commands ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{Use: use, Short: short, Long: long, Args: cobra.ArbitraryArgs, RunE: ShowHelp}
	c.AddCommand(commands...)
	return c
}

// Examples indents the lines of a command's examples as the help wants them.
func Examples(lines ...string) string {
	return fmt.Sprintf("  %s", strings.Join(lines, "\n  "))
}

// Interrupted reports whether a signal ended the context.
func Interrupted(ctx context.Context) bool {
	return ctx.Err() != nil && fault.Is(context.Cause(ctx), fault.Interrupted) || TimedOut(ctx)
}

// Exclusive refuses a flag that is given together with a flag that it makes meaningless.
func Exclusive(c *cobra.Command, flag string, others ...string) error {
	for _, other := range others {
		if c.Flags().Changed(flag) && c.Flags().Changed(other) {
			return fault.New(fault.Invalid, "--%s and --%s exclude each other", flag, other)
		}
	}
	return nil
}
