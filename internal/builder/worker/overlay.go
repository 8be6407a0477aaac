package worker

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/file"
)

// Bounds of the files in which a step has variables replaced.
const (
	maxTexts     = 2000     // files
	maxText      = 16 << 20 // bytes of one
	maxTextBytes = 64 << 20 // bytes of all
)

// Text is a file of the workspace in which variables are replaced.
type Text struct {
	Name       string // slash-separated path in the workspace
	Content    string
	Executable bool
}

// Texts visits the text files of a workspace that are named, or are in a folder that is named. Files that are not
// there, and those that are not text, are passed over. Without the folder root it visits none.
func Texts(ctx context.Context, root string, names []string, visit func(Text) error) error {
	if len(names) == 0 {
		return nil
	}
	opened, err := os.OpenRoot(root)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("replace variables: %w", err)
	}
	defer opened.Close()
	t := &texts{root: opened, visit: visit, seen: map[string]bool{}}
	for _, name := range names {
		err := fs.WalkDir(opened.FS(), path.Clean(name), func(name string, entry fs.DirEntry, err error) error {
			switch {
			case errors.Is(err, fs.ErrNotExist):
				return nil
			case err != nil:
				return err
			case entry.IsDir() && entry.Name() == ".git":
				return fs.SkipDir
			case entry.IsDir():
				return context.Cause(ctx)
			}
			return errors.Join(context.Cause(ctx), t.read(name))
		})
		if err != nil {
			return fmt.Errorf("replace variables: %w", err)
		}
	}
	return nil
}

// texts visits files, each once.
type texts struct {
	root  *os.Root
	visit func(Text) error
	seen  map[string]bool
	size  int
}

func (t *texts) read(name string) error {
	if t.seen[name] {
		return nil
	}
	t.seen[name] = true
	if info, err := t.root.Stat(filepath.FromSlash(name)); err != nil || !info.Mode().IsRegular() {
		return nil // a link to nowhere or to outside, or a device
	}
	f, info, err := file.OpenIn(t.root, filepath.FromSlash(name))
	if err != nil {
		return err
	}
	defer f.Close()
	content, err := readText(name, f)
	if err != nil || content == "" {
		return err
	}
	if t.size += len(content); t.size > maxTextBytes || len(t.seen) > maxTexts {
		return fmt.Errorf("the files come to more than %d, or to more than %d bytes; name fewer", maxTexts, maxTextBytes)
	}
	return t.visit(Text{Name: name, Content: content, Executable: info.Mode()&0o111 != 0})
}

// readText returns the text of r, if it is text; "" if not.
func readText(name string, r io.Reader) (string, error) {
	content, err := io.ReadAll(io.LimitReader(r, maxText+1))
	switch {
	case err != nil:
		return "", err
	case bytes.IndexByte(content, 0) >= 0:
		return "", nil
	case len(content) > maxText:
		return "", fmt.Errorf("%s has more than %d bytes", name, maxText)
	case !utf8.Valid(content):
		return "", nil
	}
	return string(content), nil
}

// replaceInFiles puts copies of files with their variables replaced among the step's inputs: those of the workspace
// in front, so that artifacts of needed steps still win, and of such artifacts in their place. The caller removes the
// folder that it returns.
func (w *Worker) replaceInFiles(ctx context.Context, run *build.Run, sink build.Sink) (folder string, err error) {
	folder = filepath.Join(w.Scratch, "replaced", strconv.Itoa(run.Step.ID))
	o := &overlay{run: run, folder: folder, sink: sink}
	if err := Texts(ctx, run.Tree, run.Step.Spec.Files, o.add); err != nil {
		return folder, err
	}
	needed := slices.Clone(run.Needed)
	for i, n := range needed {
		if n.Archive || !slices.ContainsFunc(run.Step.Spec.Files, func(name string) bool { return within(path.Clean(name), n.Name) }) {
			continue
		}
		if needed[i], err = o.artifact(n); err != nil {
			return folder, fmt.Errorf("replace variables in %s: %w", n.Name, err)
		}
	}
	run.Needed = append(o.files, needed...)
	return folder, nil
}

// within reports whether a file is a path of the workspace, or below it.
func within(name, file string) bool {
	return name == "." || file == name || strings.HasPrefix(file, name+"/")
}

// overlay writes changed copies of files.
type overlay struct {
	run    *build.Run
	folder string
	sink   build.Sink
	files  []build.Needed
}

// add writes the copy of a text, if it changes.
func (o *overlay) add(t Text) error {
	copied, changed, err := o.write(t)
	if changed {
		o.files = append(o.files, copied)
	}
	return err
}

// artifact returns the changed copy of an artifact, else the artifact.
func (o *overlay) artifact(n build.Needed) (build.Needed, error) {
	f, _, err := file.Open(n.Path)
	if err != nil {
		return n, err
	}
	defer f.Close()
	content, err := readText(n.Name, f)
	if err != nil {
		return n, err
	}
	copied, changed, err := o.write(Text{Name: n.Name, Content: content, Executable: n.Executable})
	if !changed {
		return n, err
	}
	return copied, err
}

func (o *overlay) write(t Text) (copied build.Needed, changed bool, err error) {
	replaced, count, problems := o.run.Step.SubstituteFile(t.Name, t.Content)
	if err := problems.Err(); err != nil || count == 0 {
		return copied, false, err
	}
	if err := os.MkdirAll(o.folder, 0o700); err != nil {
		return copied, false, err
	}
	f, err := os.CreateTemp(o.folder, "text-") // mode 0600: it may have passwords
	if err != nil {
		return copied, false, err
	}
	_, err = f.WriteString(replaced)
	sum := sha256.Sum256([]byte(replaced))
	copied = build.Needed{Name: t.Name, Executable: t.Executable, Path: f.Name(), SHA256: hex.EncodeToString(sum[:])}
	return copied, true, errors.Join(err, f.Close(), o.sink.Note(fmt.Sprintf("variables replaced in %s: %d", t.Name, count)))
}
