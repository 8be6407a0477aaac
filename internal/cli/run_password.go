package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/fault"
)

// passwordFlag declares the flag that gives a build its passwords.
func passwordFlag(c *cobra.Command, into *[]string) {
	c.Flags().StringArrayVarP(into, "password", "p", nil, "give an input of type password its value, as NAME=VALUE; NAME alone asks for it on a terminal, else takes the next line of the standard input (repeatable)")
}

// longestPassword bounds the passwords that are read from the standard input, in bytes.
const longestPassword = 64 << 10

// readPasswords reads NAME=VALUE pairs. The values of names alone are asked for on a terminal, else they are lines of the standard input. An
// error does not repeat the text.
func (a *app) readPasswords(ctx context.Context, pairs []string) (map[string]string, error) {
	values := map[string]string{}
	lines := bufio.NewReader(io.LimitReader(a.in, longestPassword))
	for _, pair := range pairs {
		name, value, given := strings.Cut(pair, "=")
		switch {
		case name == "":
			return nil, fault.New(fault.Invalid, "--password wants a name").WithHint("--password NAME=VALUE, or --password NAME with the value on the standard input")
		case !given && a.canAsk():
			asked, err := a.askPassword(ctx, name)
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

// hide sets the values of inputs that are passwords.
func (f *runFlags) hide(passwords map[string]string) {
	for _, name := range slices.Sorted(maps.Keys(passwords)) {
		f.inputs = append(f.inputs, name+"="+passwords[name])
		f.hidden = append(f.hidden, name)
	}
}

// notPassword returns the error for an input of another type that was given as a password: its value would be stored and shown.
func notPassword(name string, flags runFlags) error {
	err := fault.New(fault.Invalid, "the input %q is not a password", name)
	if flags.rerunOf != "" {
		return err.WithHint("leave --password %s out: it is given as before", name)
	}
	return err.WithHint("--input %s=…", name)
}

// passwords gives a choice the passwords that were not given: those of the build that is resumed, and those without a default that a step
// of the plan uses. A person is asked for them; without a terminal the problems say what is missing. Builds of deployments have none to
// give, and a dry run needs none.
func (a *app) passwords(ctx context.Context, file *build.File, choice *build.Choice, source *buildSource, flags runFlags) error {
	if flags.dryRun.on() {
		return nil
	}
	var problems fault.Problems
	for i, in := range file.Inputs {
		if in.Type != build.PasswordInput && slices.Contains(flags.hidden, in.Name) {
			return notPassword(in.Name, flags)
		}
		_, given := choice.Inputs[in.Name]
		again := slices.Contains(flags.passwords, in.Name)
		if in.Type != build.PasswordInput || given || !again && (in.Given || source.unpacked || !usesInput(ctx, file, *choice, source, in.Name)) {
			continue
		}
		if source.received {
			problems.Add(in.MissingProblem())
			continue
		}
		if !a.canAsk() {
			problems.Add(fault.Problem{Position: in.At, Code: "input-missing", Scope: "inputs/" + strconv.Itoa(i), Text: missingPassword(in.Name, again)})
			continue
		}
		value, err := a.askPassword(ctx, in.Name)
		if err != nil {
			return err
		}
		if choice.Inputs == nil {
			choice.Inputs = map[string]string{}
		}
		choice.Inputs[in.Name] = value
	}
	return problems.Err()
}

// missingPassword says how a password is given that cannot be asked for. again: the earlier build had it.
func missingPassword(name string, again bool) string {
	why := fmt.Sprintf("the password %q is not given, and without a terminal it cannot be asked for; give it", name)
	if again {
		why = fmt.Sprintf("the earlier build was given the password %q, which is not kept; give it again", name)
	}
	return fmt.Sprintf("%s by -p %s as a line of the standard input, or by -p %s=…, which may be empty", why, name, name)
}

// usesInput reports whether the steps that a choice selects are other ones with a value for an input than without. It plans twice, since a
// value can reach a step through other variables and through files.
func usesInput(ctx context.Context, file *build.File, choice build.Choice, source *buildSource, name string) bool {
	var digests [2][]string
	for i, value := range []string{"", "any password"} {
		choice.Inputs = maps.Clone(choice.Inputs)
		if choice.Inputs == nil {
			choice.Inputs = map[string]string{}
		}
		choice.Inputs[name] = value
		plan, problems := build.MakePlan(file, choice)
		if problems.Err() != nil || replaceInFiles(ctx, plan, source) != nil {
			return false // the build is refused for it, whatever the password is
		}
		for _, step := range plan.Steps {
			digests[i] = append(append(digests[i], step.Name+" "+step.Digest), plan.Environ(step.ID)...)
		}
	}
	return !slices.Equal(digests[0], digests[1])
}

// askPassword asks for a password and reads a line from the terminal, which does not show it. When ctx ends, its cause is the error.
func (a *app) askPassword(ctx context.Context, name string) (string, error) {
	terminal, _ := terminalOf(a.in)
	before, err := term.GetState(int(terminal.Fd()))
	if err != nil {
		return "", fault.New(fault.Unavailable, "ask for a password: %w", err)
	}
	fmt.Fprintf(a.err, "Password %s: ", build.VisibleText([]byte(name)))
	defer fmt.Fprintln(a.err)
	type line struct {
		text []byte
		err  error
	}
	lines := make(chan line, 1)
	go func() { // it may outlive the question: a read from a terminal cannot be interrupted
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
