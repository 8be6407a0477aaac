package git

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Tree is what a folder holds right now, named.
type Tree struct {
	Label  string // 3f2c9a1, 3f2c9a1+5d81e0 with uncommitted changes, 5d81e0c2b7a4 without a commit
	Commit Commit // zero without one
	Files  []string
}

// Lengths of the two kinds of digest in a label, in hex digits.
const (
	changeDigits = 6  // behind a commit
	aloneDigits  = 12 // without one
)

// Tree lists the folder's files and labels their state: the same content has the same label on
// every machine and at any time.
func (f *Folder) Tree(ctx context.Context) (Tree, error) {
	files, err := f.Files(ctx)
	if err != nil {
		return Tree{}, err
	}
	commit, err := f.Last(ctx)
	if errors.Is(err, ErrNoCommit) {
		digest, err := f.digest(files)
		return Tree{Label: digest[:min(aloneDigits, len(digest))], Files: files}, err
	}
	if err != nil {
		return Tree{}, err
	}
	changed, err := f.Changed(ctx)
	if err != nil || !changed {
		return Tree{Label: commit.Short, Commit: commit, Files: files}, err
	}
	digest, err := f.digest(files)
	return Tree{Label: commit.Short + "+" + digest[:min(changeDigits, len(digest))], Commit: commit, Files: files}, err
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

// content returns a file's kind (file, executable, link) and the digest of its content.
func (f *Folder) content(name string) (kind string, digest []byte, err error) {
	path := filepath.Join(f.dir, filepath.FromSlash(name))
	info, err := os.Lstat(path)
	if err != nil {
		return "", nil, err
	}
	h := sha256.New()
	switch {
	case info.Mode()&os.ModeSymlink != 0:
		target, err := os.Readlink(path)
		h.Write([]byte(target))
		return "link", h.Sum(nil), err
	case !info.Mode().IsRegular():
		return "special", nil, nil
	}
	file, err := os.Open(path)
	if err != nil {
		return "", nil, err
	}
	defer file.Close()
	kind = "file"
	if info.Mode()&0o111 != 0 {
		kind = "executable"
	}
	_, err = io.Copy(h, file)
	return kind, h.Sum(nil), err
}
