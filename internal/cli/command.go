package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/waybill-dev/waybill/internal/fault"
)

// showHelp runs a command that only groups others: it prints the help, or an error for a name that is not in the group.
func showHelp(c *cobra.Command, arguments []string) error {
	if len(arguments) == 0 {
		return c.Help()
	}
	var known []string
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			known = append(known, sub.Name())
		}
	}
	return nearestHint(fault.New(fault.Invalid, "command %q not found", c.CommandPath()+" "+arguments[0]), arguments[0], known,
		c.CommandPath()+" %s", c.CommandPath()+" --help")
}

// usageFault returns a flag's error with the code of wrong usage.
func usageFault(c *cobra.Command, err error) error {
	return fault.Wrap(fault.Invalid, err).WithHint("%s --help", c.CommandPath())
}

// arguments checks that there are between least and most arguments. The names are for the message.
func arguments(least, most int, names ...string) cobra.PositionalArgs {
	return func(c *cobra.Command, given []string) error {
		switch {
		case len(given) < least:
			return fault.New(fault.Invalid, "%s wants %s", c.CommandPath(), strings.Join(names[len(given):least], " and ")).WithHint("%s", c.UseLine())
		case len(given) > most:
			return fault.New(fault.Invalid, "%s: unexpected argument %q", c.CommandPath(), given[most]).WithHint("%s", c.UseLine())
		}
		return nil
	}
}

// group returns a command that only groups others.
func group(use, short, long string, commands ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{Use: use, Short: short, Long: long, Args: cobra.ArbitraryArgs, RunE: showHelp}
	c.AddCommand(commands...)
	return c
}

// examples indents the lines of a command's examples as the help wants them.
func examples(lines ...string) string {
	return fmt.Sprintf("  %s", strings.Join(lines, "\n  "))
}

// interrupted reports whether a signal ended the context.
func interrupted(ctx context.Context) bool {
	return ctx.Err() != nil && fault.Is(context.Cause(ctx), fault.Interrupted) || timedOut(ctx)
}

// exclusive refuses a flag that is given together with a flag that it makes meaningless.
func exclusive(c *cobra.Command, flag string, others ...string) error {
	for _, other := range others {
		if c.Flags().Changed(flag) && c.Flags().Changed(other) {
			return fault.New(fault.Invalid, "--%s and --%s exclude each other", flag, other)
		}
	}
	return nil
}
