package mirror

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/waybill-dev/waybill/internal/pipeline"
)

const heads = "refs/heads/"

// isHash reports whether a text is the whole hash of a commit.
func isHash(text string) bool {
	return (len(text) == 40 || len(text) == 64) && strings.Trim(text, "0123456789abcdef") == ""
}

// checkBranches returns an error for names that git would not take.
func checkBranches(names ...string) error {
	for _, name := range names {
		if !pipeline.IsBranch(name) {
			return fatal("BadBranch", "the branch %.250q: want a name that git accepts", name)
		}
	}
	return nil
}

// list returns the commits of branches on the host, without those that it does not have.
func (o *session) list(ctx context.Context, branches ...string) (map[string]string, error) {
	arguments := []string{"ls-remote", "--quiet", "--", o.url}
	for _, branch := range branches {
		arguments = append(arguments, heads+branch)
	}
	out, err := o.git(ctx, arguments...)
	if err != nil {
		return nil, err
	}
	found := map[string]string{}
	for line := range strings.Lines(out) {
		hash, ref, _ := strings.Cut(strings.TrimSpace(line), "\t")
		branch, ok := strings.CutPrefix(ref, heads)
		if ok && isHash(hash) && slices.Contains(branches, branch) {
			found[branch] = hash
		}
	}
	return found, nil
}

// fetch brings branches to the mirror and returns their commits, without those that the host does not have.
func (o *session) fetch(ctx context.Context, branches ...string) (map[string]string, error) {
	remote, err := o.list(ctx, branches...)
	if err != nil {
		return nil, err
	}
	local, err := o.local(ctx)
	if err != nil {
		return nil, err
	}
	arguments := []string{"fetch", "--quiet", "--depth=1", "--force", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules",
		"--no-auto-maintenance", "--no-show-forced-updates", "--update-shallow", "--", o.url}
	known := len(arguments)
	for _, branch := range branches {
		switch hash := remote[branch]; {
		case hash == "" && local[branch] != "":
			if _, err := o.git(ctx, "update-ref", "-d", heads+branch); err != nil {
				return nil, err
			}
		case hash != local[branch]:
			arguments = append(arguments, "+"+heads+branch+":"+heads+branch)
		}
	}
	if len(arguments) == known {
		return remote, nil
	}
	_, err = o.git(ctx, arguments...)
	if err = cmp.Or(o.checkSize(), err); err != nil {
		return nil, err
	}
	if local, err = o.local(ctx); err != nil { // a branch may have moved since
		return nil, err
	}
	for branch := range remote {
		remote[branch] = local[branch]
	}
	return remote, nil
}

// local returns the branches that the mirror has whole.
func (o *session) local(ctx context.Context) (map[string]string, error) {
	out, err := o.git(ctx, "for-each-ref", "--format=%(objectname) %(refname)", heads)
	if err != nil {
		return nil, err
	}
	found := map[string]string{}
	for line := range strings.Lines(out) {
		hash, ref, _ := strings.Cut(strings.TrimSpace(line), " ")
		found[strings.TrimPrefix(ref, heads)] = hash
	}
	return found, nil
}
