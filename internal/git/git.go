// Package git runs the git command in a folder: the commit that last touched it, the files that belong to it, and
// which commit came first.
//
// It runs git rather than reading the repository itself, so that worktrees,
// sparse checkouts and ignore rules mean what they mean to the person.
package git

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Folder is a folder of a work tree, or any other folder. Safe for concurrent use.
type Folder struct {
	dir     string
	exclude []string // absolute paths that do not belong to it
	harmless
	found found
}

// Open returns the folder dir without the files at or below the excluded absolute paths.
func Open(dir string, exclude ...string) *Folder { return &Folder{dir: dir, exclude: exclude} }

// Commit is a commit as people name it.
type Commit struct {
	Hash, Short string
	Subject     string
	At          time.Time // committed

	AuthorDate, CommitterDate string // RFC 3339, each at the offset of its writer

	first bool // as far as the repository knows, it has no parent
}

// ErrNoCommit reports that no commit touched the folder: no repository, or nothing committed yet.
var ErrNoCommit = errors.New("no commit touched this folder")

// Last returns the last commit that touched the folder, or ErrNoCommit. A repository that git refuses is another error.
func (f *Folder) Last(ctx context.Context) (Commit, error) {
	if in, err := f.inRepository(ctx); err != nil {
		return Commit{}, err
	} else if !in {
		return Commit{}, ErrNoCommit
	}
	out, err := f.git(ctx, "log", "-1", "--abbrev=7", "--format=%H%x00%h%x00%cI%x00%aI%x00%P%x00%s", "--", ".")
	switch {
	case ctx.Err() != nil:
		return Commit{}, context.Cause(ctx)
	case err != nil && strings.Contains(err.Error(), "does not have any commits yet"): // LC_ALL is C
		return Commit{}, ErrNoCommit
	case err != nil:
		return Commit{}, f.refused(err)
	case len(out) == 0:
		return Commit{}, ErrNoCommit
	}
	const parts = 6
	fields := strings.SplitN(strings.TrimSpace(string(out)), "\x00", parts)
	if len(fields) < parts {
		return Commit{}, fmt.Errorf("read the last commit of %s: git log prints %q", f.dir, out)
	}
	at, err := time.Parse(time.RFC3339, fields[2])
	if err != nil {
		return Commit{}, fmt.Errorf("read the time of commit %s: %w", fields[1], err)
	}
	return Commit{
		Hash: fields[0], Short: fields[1], At: at.UTC(), CommitterDate: fields[2], AuthorDate: fields[3], Subject: fields[5],
		first: fields[4] == "",
	}, nil
}

// Precedes reports whether the older commit is a proper ancestor of the newer. It is false if this
// repository lacks one of the two.
func (f *Folder) Precedes(ctx context.Context, older, newer string) bool {
	if older == newer || !isHash(older) || !isHash(newer) {
		return false
	}
	_, err := f.git(ctx, "merge-base", "--is-ancestor", older, newer)
	return err == nil
}

// isHash reports whether text is the hash of a commit, which is never an option of git: revisions
// are registered by others, with whatever they call their commit.
func isHash(text string) bool {
	return text != "" && strings.Trim(text, "0123456789abcdef") == ""
}

// git runs the command in the folder and returns its standard output. It executes no program that the repository's
// own configuration names: looking at a folder must not run its content.
func (f *Folder) git(ctx context.Context, arguments ...string) ([]byte, error) {
	return f.gitInput(ctx, "", arguments...)
}

// gitInput works like git, with a standard input.
func (f *Folder) gitInput(ctx context.Context, input string, arguments ...string) ([]byte, error) {
	own, err := f.harmless.settings(ctx, f.dir)
	if err != nil {
		return nil, err
	}
	return command{dir: f.dir, settings: own, input: input}.run(ctx, arguments...)
}
