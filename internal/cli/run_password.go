package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"golang.org/x/term"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/fault"
)

// passwords gives a choice the passwords that were not given: those of the build that is resumed, and those without a default that a step
// of the plan uses. A person is asked for them; without a terminal the problems say what is missing. Builds of deployments have none to give.
func (a *app) passwords(ctx context.Context, file *build.File, choice *build.Choice, source *buildSource, flags runFlags) error {
	var problems fault.Problems
	for i, in := range file.Inputs {
		if in.Type != build.PasswordInput && slices.Contains(flags.hidden, in.Name) { // it would be stored and shown
			return fault.New(fault.Invalid, "the input %q is not a password", in.Name).WithHint("leave --password %s out: it is given as before", in.Name)
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
			problems.Add(fault.Problem{Position: in.At, Code: "input-missing", Scope: "inputs/" + strconv.Itoa(i), Text: missingPassword(in.Name, again, flags)})
			continue
		}
		value, err := a.askPassword(ctx, fmt.Sprintf("Password %s: ", build.VisibleText([]byte(in.Name))))
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
func missingPassword(name string, again bool, flags runFlags) string {
	flag := "--input"
	if flags.rerunOf != "" {
		flag = "-p"
	}
	if again {
		return fmt.Sprintf("the earlier build was given the password %q, which is not kept; give it again by %s %s=…", name, flag, name)
	}
	return fmt.Sprintf("the password %q is not given, and without a terminal it cannot be asked for; give it by %s %s=…, or %s= for an empty one", name, flag, name, name)
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

// askPassword prints a question and reads a line from the terminal, which does not show it. When ctx ends, its cause is the error.
func (a *app) askPassword(ctx context.Context, question string) (string, error) {
	terminal, _ := terminalOf(a.in)
	before, err := term.GetState(int(terminal.Fd()))
	if err != nil {
		return "", fault.New(fault.Unavailable, "ask for a password: %w", err)
	}
	fmt.Fprint(a.err, question)
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
