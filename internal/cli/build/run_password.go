package build

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/cli/cmdline"
	"github.com/waybill-dev/waybill/internal/fault"
)

// passwordFlag declares the flag that gives a build its passwords.
func passwordFlag(c *cobra.Command, into *[]string) {
	c.Flags().StringArrayVarP(into, "password", "p", nil,
		"give an input of type password its value, as NAME=VALUE; NAME alone asks for it on a terminal, else takes the next "+
			"line of the standard input (repeatable)")
}

// longestPassword bounds the passwords that are read from the standard input, in bytes.
const longestPassword = 64 << 10

// readPasswords reads NAME=VALUE pairs. The values of names alone are requested on a terminal, else they are lines of
// the standard input. An error does not repeat the text.
func readPasswords(ctx context.Context, a *cmdline.App, pairs []string) (map[string]string, error) {
	values := map[string]string{}
	lines := bufio.NewReader(io.LimitReader(a.In, longestPassword))
	for _, pair := range pairs {
		name, value, given := strings.Cut(pair, "=")
		switch {
		case name == "":
			return nil, fault.New(fault.Invalid, "--password wants a name").
				WithHint("--password NAME=VALUE, or --password NAME with the value on the standard input")
		case !given && a.CanAsk():
			asked, err := askPassword(ctx, a, name)
			if err != nil {
				return nil, err
			}
			value = asked
		case !given:
			line, err := lines.ReadString('\n')
			if err != nil && !errors.Is(err, io.EOF) || line == "" {
				return nil, fault.New(fault.Invalid, "the standard input has no line for the password %s", name)
			}
			value = strings.TrimRight(line, "\r\n")
		}
		values[name] = value
	}
	return values, nil
}

// askPassword requests a password and reads a line from the terminal, which does not show it. When ctx ends, its
// cause is the error.
func askPassword(ctx context.Context, a *cmdline.App, name string) (string, error) {
	terminal, _ := cmdline.TerminalOf(a.In)
	before, err := term.GetState(int(terminal.Fd()))
	if err != nil {
		return "", fault.New(fault.Unavailable, "ask for a password: %w", err)
	}
	fmt.Fprintf(a.Err, "Password %s: ", build.VisibleText([]byte(name)))
	defer fmt.Fprintln(a.Err)
	type line struct {
		text []byte
		err  error
	}
	lines := make(chan line, 1)
	go func() { // it may outlive the prompt: a read from a terminal cannot be interrupted
		text, err := term.ReadPassword(int(terminal.Fd()))
		lines <- line{text, err}
	}()
	select {
	case <-ctx.Done():
		_ = term.Restore(int(terminal.Fd()), before) // the terminal is as it is
		return "", context.Cause(ctx)
	case l := <-lines:
		if l.err != nil {
			return "", fault.New(fault.Interrupted, "ask for a password: %w", l.err)
		}
		return string(l.text), nil
	}
}
