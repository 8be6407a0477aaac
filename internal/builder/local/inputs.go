package local

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/fault"
)

// ReadInputs reads name=value pairs; of one name the last wins. An error does not repeat the text,
// which may be a password.
func ReadInputs(pairs []string) (map[string]string, error) {
	values := map[string]string{}
	for _, pair := range pairs {
		name, value, ok := strings.Cut(pair, "=")
		if !ok || name == "" {
			return nil, fault.New(fault.Invalid, "--input wants a name and a value").WithHint("--input name=value")
		}
		values[name] = value
	}
	return values, nil
}

// Hide sets the values of inputs that are passwords.
func (f *Options) Hide(passwords map[string]string) {
	for _, name := range slices.Sorted(maps.Keys(passwords)) {
		f.Inputs = append(f.Inputs, name+"="+passwords[name])
		f.hidden = append(f.hidden, name)
	}
}

// notPassword returns the error for an input of another type that was given as a password: its value would be stored and shown.
func notPassword(name string, flags Options) error {
	err := fault.New(fault.Invalid, "the input %q is not a password", name)
	if flags.RerunOf != "" {
		return err.WithHint("leave --password %s out: it is given as before", name)
	}
	return err.WithHint("--input %s=…", name)
}

// passwords gives a choice the passwords that were not given: those of the build that is resumed, and those without a
// default that a step of the plan uses. A person is prompted for them; without a terminal the problems name the
// missing part. Builds of deployments have none to give, and a dry run needs none.
func (b *Builder) passwords(ctx context.Context, file *build.File, choice *build.Choice, source *buildSource, flags Options) error {
	if flags.DryRun.On() {
		return nil
	}
	var problems fault.Problems
	for i, in := range file.Inputs {
		if in.Type != build.PasswordInput && slices.Contains(flags.hidden, in.Name) {
			return notPassword(in.Name, flags)
		}
		_, given := choice.Inputs[in.Name]
		again := slices.Contains(flags.passwords, in.Name)
		if in.Type != build.PasswordInput || given ||
			!again && (in.Given || source.unpacked || !source.usesInput(ctx, file, *choice, in.Name)) {
			continue
		}
		if source.received {
			problems.Add(in.MissingProblem())
			continue
		}
		if !b.CanAsk() {
			problems.Add(fault.Problem{Position: in.At, Code: "input-missing", Scope: "inputs/" + strconv.Itoa(i),
				Text: missingPassword(in.Name, again)})
			continue
		}
		value, err := b.Password(ctx, in.Name)
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

// missingPassword reports how a password is given that cannot be requested. again: the earlier build had it.
func missingPassword(name string, again bool) string {
	why := fmt.Sprintf("the password %q is not given, and without a terminal it cannot be asked for; give it", name)
	if again {
		why = fmt.Sprintf("the earlier build was given the password %q, which is not kept; give it again", name)
	}
	return fmt.Sprintf("%s by -p %s as a line of the standard input, or by -p %s=…, which may be empty", why, name, name)
}

// usesInput reports whether the steps that a choice selects are other ones with a value for an input than without. It plans twice, since a
// value can reach a step through other variables and through files.
func (s *buildSource) usesInput(ctx context.Context, file *build.File, choice build.Choice, name string) bool {
	var digests [2][]string
	for i, value := range []string{"", "any password"} {
		choice.Inputs = maps.Clone(choice.Inputs)
		if choice.Inputs == nil {
			choice.Inputs = map[string]string{}
		}
		choice.Inputs[name] = value
		plan, problems := build.MakePlan(file, choice)
		if problems.Err() != nil || s.replaceInFiles(ctx, plan) != nil {
			return false // the build is refused for it, whatever the password is
		}
		for _, step := range plan.Steps {
			digests[i] = append(append(digests[i], step.Name+" "+step.Digest), plan.Environ(step.ID)...)
		}
	}
	return !slices.Equal(digests[0], digests[1])
}
