package git

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/waybill-dev/waybill/internal/file"
)

// Tree is the present content of a folder, named.
type Tree struct {
	Label  string // 3f2c9a1, 3f2c9a1+5d81e0 with uncommitted changes, 5d81e0c2b7a4 without a commit
	Commit Commit // zero without one
	Files  []string
	Notes  []string // about what the files lack
}

// Lengths of the two kinds of digest in a label, in hex digits.
const (
	changeDigits = 6  // behind a commit
	aloneDigits  = 12 // without one
)

// Tree lists the folder's files and labels their state: the same content has the same label on every machine and at any time. The
// label is a commit alone only if the files are exactly those of the commit, with the commits of its submodules.
func (f *Folder) Tree(ctx context.Context) (Tree, error) {
	files, left, err := f.Files(ctx)
	if err != nil {
		return Tree{}, err
	}
	tree := Tree{Files: files, Notes: left}
	tree.Commit, err = f.Last(ctx)
	if errors.Is(err, ErrNoCommit) {
		digest, err := f.digest(files)
		tree.Label = digest[:min(aloneDigits, len(digest))]
		return tree, err
	}
	if err != nil {
		return Tree{}, err
	}
	changed, notes, err := f.compare(ctx, files)
	if err != nil {
		return Tree{}, err
	}
	shallow, err := f.shallowNote(ctx, tree.Commit)
	if err != nil {
		return Tree{}, err
	}
	tree.Label, tree.Notes = tree.Commit.Short, append(append(tree.Notes, notes...), shallow...)
	if changed {
		digest, err := f.digest(files)
		tree.Label += "+" + digest[:min(changeDigits, len(digest))]
		return tree, err
	}
	return tree, nil
}

// Changed reports whether the folder's files differ from those of HEAD, with notes about their gaps, as Tree does.
func (f *Folder) Changed(ctx context.Context) (changed bool, notes []string, err error) {
	files, _, err := f.Files(ctx)
	if err != nil {
		return false, nil, err
	}
	return f.compare(ctx, files)
}

// shallowNote returns a note if the commit is where the history of a shallow clone ends: then it need not be the one that touched the
// folder last, and another clone names the same content differently.
func (f *Folder) shallowNote(ctx context.Context, last Commit) ([]string, error) {
	if !last.first {
		return nil, nil
	}
	out, err := f.git(ctx, "rev-parse", "--is-shallow-repository", "--show-prefix")
	if err != nil {
		return nil, f.refused(err)
	}
	shallow, prefix, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	if shallow != "true" || prefix == "" {
		return nil, nil
	}
	return []string{"the history of this clone ends at " + last.Short +
		", which may not be the commit that touched the folder last: git fetch --unshallow"}, nil
}

// digest returns the SHA-256 over the names, kinds and contents of files, in hex digits.
func (f *Folder) digest(files []string) (string, error) {
	all := sha256.New()
	for _, name := range files {
		kind, content, err := f.content(name)
		if err != nil {
			return "", fmt.Errorf("read %s for its label: %w", name, err)
		}
		fmt.Fprintf(all, "%d:%s %s %x\n", len(name), name, kind, content)
	}
	return hex.EncodeToString(all.Sum(nil)), nil
}

// Kinds of files in a digest.
const (
	kindFile       = "file"
	kindExecutable = "executable"
	kindLink       = "link"
)

// kindOf returns the kind of a file or link. As for git, its owner's permission decides whether it is executable.
func kindOf(mode fs.FileMode) string {
	switch {
	case mode&fs.ModeSymlink != 0:
		return kindLink
	case mode&0o100 != 0:
		return kindExecutable
	}
	return kindFile
}

// content returns a file's kind and the digest of its content.
func (f *Folder) content(name string) (kind string, digest []byte, err error) {
	h := sha256.New()
	kind, err = readInto(filepath.Join(f.dir, filepath.FromSlash(name)), func(int64) io.Writer { return h })
	return kind, h.Sum(nil), err
}

// readInto copies a file, or the target of a link, to what begin returns for its size in bytes.
func readInto(path string, begin func(size int64) io.Writer) (kind string, err error) {
	if target, err := os.Readlink(path); err == nil {
		_, err := io.WriteString(begin(int64(len(target))), target)
		return kindLink, err
	}
	in, info, err := file.OpenUnlinked(path)
	if err != nil {
		return "", err
	}
	defer in.Close()
	_, err = io.Copy(begin(info.Size()), in)
	return kindOf(info.Mode()), err
}
