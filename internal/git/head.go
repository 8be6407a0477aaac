package git

import (
	"context"
	"errors"
	"os/exec"
	"strings"
)

// Head describes a repository's checkout. A fact that the repository does not have is "".
type Head struct {
	Branch string // "" when HEAD is detached
	Tag    string // the tag at HEAD that was made last; one without a date of its own only if there is no other
	Origin string // the URL of the remote origin, as it is configured
}

// Head returns the branch, the tag and the origin of the repository that the folder belongs to. It is zero without one.
func (f *Folder) Head(ctx context.Context) (Head, error) {
	if in, err := f.inRepository(ctx); err != nil || !in {
		return Head{}, err
	}
	var failed error
	line := func(arguments ...string) string {
		out, err := f.git(ctx, arguments...)
		if exit := (*exec.ExitError)(nil); err != nil && !(errors.As(err, &exit) && exit.ExitCode() == 1) { // 1: there is none
			failed = errors.Join(failed, err)
		}
		text, _, _ := strings.Cut(string(out), "\n")
		return text
	}
	h := Head{
		Branch: strings.TrimPrefix(line("symbolic-ref", "--quiet", "HEAD"), headsPrefix),
		Origin: line("config", "--get", "remote.origin.url"),
	}
	if line("rev-parse", "--quiet", "--verify", "HEAD") != "" {
		h.Tag = line("for-each-ref", "--points-at=HEAD", "--sort=-refname", "--sort=-taggerdate", "--count=1",
			"--format=%(refname:strip=2)", "refs/tags")
	}
	if ctx.Err() != nil {
		return Head{}, context.Cause(ctx)
	}
	if failed != nil {
		return Head{}, f.refused(failed)
	}
	return h, nil
}
