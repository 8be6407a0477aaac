package git

import (
	"context"
	"crypto/sha1" //nolint:gosec // git names content by it
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/waybill-dev/waybill/internal/file"
)

// Modes of a tree's entries.
const (
	modeFile       = "100644"
	modeOldFile    = "100664"
	modeExecutable = "100755"
	modeLink       = "120000"
	modeCommit     = "160000"
)

// committed describes a file of a commit.
type committed struct {
	mode, hash string
	in         *Folder // the repository that has it
	name       string  // name relative to that folder
}

// comparison compares the files of a commit with those of a folder.
type comparison struct {
	files  map[string]committed // by slash path from the folder
	lacks  bool                 // content is not there: a submodule or its commit, or what only a filter has
	absent []string             // notes about that
}

// compare reports whether files of the folder are others than those of HEAD, by their names, kinds and contents. The
// index counts for nothing: it may be ahead of HEAD, and may report that a file is not to be looked at.
func (f *Folder) compare(ctx context.Context, files []string) (changed bool, notes []string, err error) {
	c := comparison{files: map[string]committed{}}
	if err := c.add(ctx, place{folder: f}, "HEAD"); err != nil {
		return false, nil, fmt.Errorf("read the files of HEAD: %w", err)
	}
	changed = c.lacks || len(files) != len(c.files)
	converted := map[*Folder][]committed{}
	for _, name := range files {
		if changed {
			break
		}
		want, ok := c.files[name]
		if !ok {
			changed = true
			break
		}
		same, kind, err := f.hasContent(name, want)
		switch {
		case err != nil:
			return false, nil, fmt.Errorf("compare %s with HEAD: %w", name, err)
		case !kind:
			changed = true
		case !same:
			converted[want.in] = append(converted[want.in], want)
		}
		if err := context.Cause(ctx); err != nil {
			return false, nil, err
		}
	}
	for in, differing := range converted {
		if changed {
			break
		}
		if changed, err = in.differAlsoConverted(ctx, differing); err != nil {
			return false, nil, fmt.Errorf("compare files with HEAD: %w", err)
		}
	}
	return changed, c.absent, nil
}

// add reads the files of a tree, and those of the commits of its submodules.
func (c *comparison) add(ctx context.Context, at place, tree string) error {
	out, err := at.folder.git(ctx, "ls-tree", "-r", "-z", tree)
	if err != nil {
		return err
	}
	outside := at.folder.outside()
	for line := range strings.SplitSeq(string(out), "\x00") {
		about, name, ok := strings.Cut(line, "\t")
		fields := strings.Fields(about) // mode, type and hash
		const words = 3
		if !ok || len(fields) != words || outside(name) {
			continue
		}
		one := committed{mode: fields[0], hash: fields[2], in: at.folder, name: name}
		if one.mode == modeCommit {
			err = c.addSubmodule(ctx, place{at.folder.within(name), at.prefix + name + "/"}, one.hash)
			if err != nil {
				return err
			}
			continue
		}
		c.files[at.prefix+name] = one
	}
	return c.addStandIns(ctx, at)
}

// standIn describes a content that git stores for another.
type standIn struct{ begin, is, get string }

// standIns lists contents that git stores for others. A filter restores these on checkout where it is set up.
var standIns = []standIn{ //nolint:gochecknoglobals // a constant table
	{"version https://git-lfs.github.com/spec/v1\n", "a pointer of Git LFS", "git lfs pull"},
	{"\x00GITCRYPT\x00", "encrypted by git-crypt", "git-crypt unlock"},
}

// addStandIns notes files of a repository that are still in git's stored form. Git takes them for unchanged.
// Filters have any name, such as git-crypt-ops for a second key, so every file with a filter is looked into.
func (c *comparison) addStandIns(ctx context.Context, at place) error {
	outside := at.folder.outside()
	// without top it finds nothing in a subfolder
	out, err := at.folder.git(ctx, "ls-files", "-z", "--cached", "--", ":(top)", ":(top,exclude,attr:!filter)")
	if err != nil {
		return err
	}
	stored := make([][]string, len(standIns))
	for _, name := range splitNames(out) {
		if !filepath.IsLocal(name) || outside(name) {
			continue
		}
		path := filepath.Join(at.folder.dir, filepath.FromSlash(name))
		if i := slices.IndexFunc(standIns, func(s standIn) bool { return begins(path, s.begin) }); i >= 0 {
			stored[i] = append(stored[i], name)
		}
	}
	for i, names := range stored {
		if len(names) == 0 {
			continue
		}
		c.lacks = true
		more := ""
		if n := len(names) - 1; n > 0 {
			more = fmt.Sprintf(" (and %d more)", n)
		}
		c.absent = append(c.absent, fmt.Sprintf("%s%s is %s and not its content: %s", at.prefix+names[0], more, standIns[i].is, standIns[i].get))
	}
	return nil
}

// begins reports whether a regular file begins with a text.
func begins(path, text string) bool {
	f, _, err := file.OpenUnlinked(path)
	if err != nil {
		return false
	}
	defer f.Close()
	begin := make([]byte, len(text))
	_, err = io.ReadFull(f, begin)
	return err == nil && string(begin) == text
}

func (c *comparison) addSubmodule(ctx context.Context, at place, commit string) error {
	top, err := at.folder.isTop(ctx)
	if err != nil {
		return err
	}
	if !top {
		c.lacks = true
		c.absent = append(c.absent, fmt.Sprintf(
			"the submodule %s is not checked out, so its files are missing: git submodule update --init", strings.TrimSuffix(at.prefix, "/")))
		return nil
	}
	if _, err := at.folder.git(ctx, "cat-file", "-e", commit+"^{tree}"); err != nil {
		c.lacks = true
		return context.Cause(ctx)
	}
	return c.add(ctx, at, commit)
}

// hasContent compares a file with a committed one, and reports too whether it is of the same kind.
func (f *Folder) hasContent(name string, want committed) (same, kind bool, err error) {
	var sum hash.Hash
	got, err := readInto(filepath.Join(f.dir, filepath.FromSlash(name)), func(size int64) io.Writer {
		sum = sha1.New() //nolint:gosec // as git does
		if len(want.hash) == hash256 {
			sum = sha256.New()
		}
		fmt.Fprintf(sum, "blob %d\x00", size)
		return sum
	})
	if err != nil {
		return false, false, err
	}
	switch want.mode {
	case modeLink:
		kind = got == kindLink
	case modeExecutable:
		kind = got == kindExecutable
	case modeFile, modeOldFile:
		kind = got == kindFile
	}
	return hex.EncodeToString(sum.Sum(nil)) == want.hash, kind, nil
}

// mostArguments bounds the bytes of paths that git gets at a time.
const mostArguments = 64 << 10

// differAlsoConverted reports whether one of the files is another than committed also as git would commit it. That
// counts only for files of which the attributes of the repository report that a checkout has another content, which
// is the same for everyone. Line ends that one user's configuration changes are different content.
func (f *Folder) differAlsoConverted(ctx context.Context, files []committed) (bool, error) {
	converts, err := f.convertedFiles(ctx, files)
	if err != nil {
		return false, err
	}
	for len(files) > 0 {
		size, n := 0, 0
		for ; n < len(files) && (n == 0 || size < mostArguments); n++ {
			if files[n].mode == modeLink || !converts[files[n].name] {
				return true, nil
			}
			size += len(files[n].name)
		}
		if differ, err := f.differHashed(ctx, files[:n]); differ || err != nil {
			return differ, err
		}
		files = files[n:]
	}
	return false, nil
}

// convertedFiles returns the names of the files that the attributes of the repository convert.
func (f *Folder) convertedFiles(ctx context.Context, files []committed) (map[string]bool, error) {
	var names strings.Builder
	for _, file := range files {
		names.WriteString(file.name + "\x00")
	}
	out, err := f.gitInput(ctx, names.String(), "check-attr", "-z", "--stdin", "filter", "eol", "working-tree-encoding", "ident")
	if err != nil {
		return nil, err
	}
	converts := map[string]bool{}
	fields := strings.Split(string(out), "\x00") // path, attribute and value
	for i := 0; i+2 < len(fields); i += 3 {
		converts[fields[i]] = converts[fields[i]] || fields[i+2] != "unspecified" && fields[i+2] != "unset"
	}
	return converts, nil
}

// differHashed reports whether git would commit one of the files as another than the committed one. Their names are arguments of one git.
func (f *Folder) differHashed(ctx context.Context, files []committed) (bool, error) {
	arguments := []string{"hash-object", "--"}
	for _, file := range files {
		arguments = append(arguments, file.name)
	}
	out, err := f.git(ctx, arguments...)
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && ctx.Err() == nil {
		return true, nil // a filter takes the content for wrong
	} else if err != nil {
		return false, err
	}
	hashes := strings.Fields(string(out))
	for i, file := range files {
		if i >= len(hashes) || hashes[i] != file.hash {
			return true, nil
		}
	}
	return false, nil
}
