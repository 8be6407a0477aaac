package git

import (
	"context"
	"strings"
)

// Head is what a repository says about its checkout. What it does not say is "".
type Head struct {
	Branch string // "" when HEAD is detached
	Tag    string // the tag at HEAD that was made last; one without a date of its own only if there is no other
	Origin string // the URL of the remote origin, as it is configured
}

// Head returns the branch, the tag and the origin of the repository that the folder belongs to.
func (f *Folder) Head(ctx context.Context) (Head, error) {
	line := func(arguments ...string) string {
		out, _ := f.git(ctx, arguments...) // an error means that there is none
		text, _, _ := strings.Cut(string(out), "\n")
		return text
	}
	h := Head{
		Branch: strings.TrimPrefix(line("symbolic-ref", "--quiet", "HEAD"), "refs/heads/"),
		Tag: line("for-each-ref", "--points-at=HEAD", "--sort=-refname", "--sort=-taggerdate", "--count=1",
			"--format=%(refname:strip=2)", "refs/tags"),
		Origin: line("config", "--get", "remote.origin.url"),
	}
	if ctx.Err() != nil {
		return Head{}, context.Cause(ctx)
	}
	return h, nil
}
