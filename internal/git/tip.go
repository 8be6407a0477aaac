package git

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"
)

const headsPrefix = "refs/heads/"

// AtTip returns the clone with the commit that its branch is at now; without a branch it takes the repository's own one. ok is false
// if the repository has no such branch.
func (c Clone) AtTip(ctx context.Context) (at Clone, ok bool, err error) {
	if err := c.CheckPlace(); err != nil {
		return c, false, err
	}
	c.Commit = ""
	settings, err := c.settings()
	if err != nil {
		return c, false, err
	}
	dir, err := os.MkdirTemp("", "waybill-git-") // a folder whose configuration counts for nothing
	if err != nil {
		return c, false, fmt.Errorf("make a folder for git: %w", err)
	}
	defer os.RemoveAll(dir)
	wanted := "HEAD"
	if c.Branch != "" {
		wanted = headsPrefix + c.Branch
	}
	refs, err := command{dir: dir, settings: settings, environ: c.environ()}.run(ctx, "ls-remote", "--quiet", "--symref", "--", c.URL, wanted)
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return c, false, fmt.Errorf("ask %s for its branches: %w", c.URL, err)
	}
	for line := range bytes.Lines(refs) {
		value, ref, _ := strings.Cut(strings.TrimSpace(string(line)), "\t")
		target, symbolic := strings.CutPrefix(value, "ref: "+headsPrefix)
		switch {
		case ref != wanted:
		case symbolic && isBranch(target):
			c.Branch = target
		case symbolic: // no one can name it
		case isHash(value) && len(value) >= hashLength:
			c.Commit = value
		}
	}
	return c, c.Commit != "", nil
}
