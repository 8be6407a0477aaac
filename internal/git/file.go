package git

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// fetchedRef is the ref of the commit that File has fetched.
const fetchedRef = "refs/waybill/file"

// File returns the content of one file of the clone, as it is at the commit, else at the tip of the branch, else of the repository's own
// branch. Links inside of the repository are followed. It fetches one commit without history, and of its files none but
// this, where the server allows it. ok is false if the file is missing or has more than most bytes. The path has
// slashes.
func (c Clone) File(ctx context.Context, path string, most int64) (content []byte, ok bool, err error) {
	check := c.CheckPlace
	if c.Commit != "" {
		check = c.Check
	}
	if err := check(); err != nil {
		return nil, false, err
	}
	settings, err := c.settings()
	if err != nil {
		return nil, false, err
	}
	dir, err := os.MkdirTemp("", "waybill-git-")
	if err != nil {
		return nil, false, fmt.Errorf("make a folder for git: %w", err)
	}
	defer os.RemoveAll(dir)
	git := func(input string, arguments ...string) ([]byte, error) {
		out, err := command{dir, settings, append(c.environ(), "GIT_NO_LAZY_FETCH=0"), input}.run(ctx, arguments...)
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return out, err
	}
	if content, ok, err = c.file(git, path, most); err != nil {
		err = fmt.Errorf("read %s of %s: %w", path, c.URL, err)
	}
	return content, ok, err
}

func (c Clone) file(git func(input string, arguments ...string) ([]byte, error), path string,
	most int64) (content []byte, ok bool, err error) {
	if hasControl(path) {
		return nil, false, errors.New("want a path without control characters")
	}
	for _, arguments := range [][]string{{"init", "--quiet"}, {"remote", "add", "origin", "--", c.URL}} {
		if _, err := git("", arguments...); err != nil {
			return nil, false, err
		}
	}
	if err := c.fetchShallow(git); err != nil {
		return nil, false, err
	}
	found, err := git(fetchedRef+":"+path+"\n", "cat-file", "--batch-check", "--follow-symlinks")
	if err != nil {
		return nil, false, err
	}
	object := strings.Fields(string(found)) // hash, type and size; of a file that is missing other words
	const words = 3
	if len(object) != words || object[1] != "blob" {
		return nil, false, nil
	}
	if size, err := strconv.ParseInt(object[2], 10, 64); err != nil || size > most {
		return nil, false, err
	}
	content, err = git("", "cat-file", "blob", object[0])
	return content, err == nil, err
}

// fetchShallow fetches one commit, without its files if the server can leave them out.
func (c Clone) fetchShallow(git func(input string, arguments ...string) ([]byte, error)) error {
	fetch := []string{"fetch", "--quiet", "--no-tags", "--no-recurse-submodules", "--no-write-fetch-head", "--filter=blob:none"}
	wanted := "HEAD"
	switch {
	case c.Commit != "":
		wanted = c.Commit
	case c.Branch != "":
		wanted = headsPrefix + c.Branch
	}
	_, refused := git("", append(fetch, "--depth=1", "origin", "+"+wanted+":"+fetchedRef)...)
	if refused == nil || c.Commit == "" {
		return refused
	}
	// A server that gives out only named commits gets a request for all branches.
	if _, err := git("", append(fetch, "origin", "+refs/heads/*:"+remoteBranch+"*")...); err != nil {
		return err
	}
	if _, err := git("", "update-ref", fetchedRef, c.Commit); err != nil {
		return fmt.Errorf("no branch has it, and by its hash alone: %w", refused)
	}
	return nil
}
