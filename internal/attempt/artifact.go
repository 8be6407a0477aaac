package attempt

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/file"
	"github.com/waybill-dev/waybill/internal/workspace"
)

// Kinds of artifacts, as the results name them.
const (
	kindFile    = "file"
	kindArchive = "archive"
)

// keepOutputs keeps artifacts and test results. A step that succeeded fails if it has no test results
// and must have some.
func (f *Files) keepOutputs(ctx context.Context, succeeded bool) error {
	if err := f.tests.find(); err != nil {
		return err
	}
	var missing error
	if succeeded {
		missing = f.tests.missing()
	}
	if err := f.keepArtifacts(ctx, succeeded && missing == nil); err != nil {
		return err
	}
	return errors.Join(f.tests.keep(f.Sink), missing)
}

// keepArtifacts hands the files that the step's rules select to the sink. Links lead inside the workspace only: those to files of the
// same archive are kept, others become the files.
func (f *Files) keepArtifacts(ctx context.Context, succeeded bool) error {
	step, repo := f.Run.Step, f.tests.repo
	if len(step.Artifacts) == 0 {
		return nil
	}
	root, err := os.OpenRoot(repo)
	if err != nil {
		return fmt.Errorf("collect artifacts: %w", err)
	}
	defer root.Close()
	files, links, err := workspace.Files(root, repo)
	if err != nil {
		return fmt.Errorf("collect artifacts: %w", err)
	}
	k := keeper{root: root, step: step.Name, links: links, sink: f.Sink}
	for _, kept := range build.Collect(step.Artifacts, succeeded, files) {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		if err := k.rule(ctx, kept); err != nil {
			return fmt.Errorf("collect artifacts: %w", err)
		}
	}
	return nil
}

// placeNeeded puts artifacts of other steps into a workspace.
func placeNeeded(ctx context.Context, needed []build.Needed, repo string) error {
	for _, n := range needed {
		if err := placeOne(ctx, n, repo); err != nil {
			return err
		}
	}
	return nil
}

func placeOne(ctx context.Context, n build.Needed, repo string) error {
	f, _, err := file.Open(n.Path)
	if err != nil {
		return fmt.Errorf("place %s: %w", n.Name, err)
	}
	defer f.Close()
	return workspace.Place(ctx, repo, workspace.Placed{Name: n.Name, Executable: n.Executable, Archive: n.Archive, SHA256: n.SHA256}, f)
}

// keeper keeps the artifacts of one step.
type keeper struct {
	root  *os.Root
	step  string
	links []string // links that lead to no file; an archive keeps those to its folders
	sink  build.Sink
}

func (k *keeper) rule(ctx context.Context, kept build.Kept) error {
	name := kept.Rule.Name
	switch {
	case len(kept.Files) == 0 && kept.Taken:
		return k.note("an earlier rule keeps all files that match %s", kept.Rule.Path)
	case len(kept.Files) == 0:
		return k.note("%s matches no file", kept.Rule.Path)
	case kept.Rule.Archive:
		if name == "" {
			name = k.step + ".tar.gz"
		}
		return k.archive(ctx, name, kept)
	case name != "" && len(kept.Files) > 1:
		if err := k.note("%s matches %d files, so they keep their own names", kept.Rule.Path, len(kept.Files)); err != nil {
			return err
		}
		name = ""
	}
	followed := 0
	for _, path := range kept.Files {
		if _, err := k.root.Readlink(filepath.FromSlash(path)); err == nil {
			followed++
		}
		if err := k.file(path, name); err != nil {
			return err
		}
	}
	if err := k.noteLinks(kept); err != nil {
		return err
	}
	if followed > 0 {
		return k.note("links kept as the files that they lead to: %d of %s; with archive: true they stay links", followed, kept.Rule.Path)
	}
	return nil
}

// noteLinks names the links that a rule selects and that are not kept: they lead to a folder, to nothing, or out of the workspace.
func (k *keeper) noteLinks(kept build.Kept) error {
	var left []string
	for _, link := range k.links {
		if build.MatchGlob(kept.Rule.Glob(), link) {
			left = append(left, link)
		}
	}
	if n := len(left); n > 0 {
		return k.note("links left out of %s, since they lead to no file: %d, such as %s", kept.Rule.Path, n,
			strings.Join(left[:min(n, maxLeftNames)], ", "))
	}
	return nil
}

func (k *keeper) note(format string, args ...any) error {
	return k.sink.Note("artifacts: " + fmt.Sprintf(format, args...))
}

func (k *keeper) file(path, name string) error {
	f, info, err := file.OpenIn(k.root, filepath.FromSlash(path))
	if err != nil {
		return err
	}
	defer f.Close()
	if name == "" {
		name = path
	}
	return k.sink.Artifact(name, kindFile, info.Mode()&0o111 != 0, f)
}

// maxLeftNames bounds the number of omitted links that a message names.
const maxLeftNames = 5

// archive packs the files into one .tar.gz as it is stored.
func (k *keeper) archive(ctx context.Context, name string, kept build.Kept) error {
	names := kept.Files
	for _, link := range k.links {
		if build.MatchGlob(kept.Rule.Glob(), link) {
			names = append(names, link)
		}
	}
	type result struct {
		left []string
		err  error
	}
	reader, writer := io.Pipe()
	packed := make(chan result, 1)
	go func() {
		left, err := packArchive(ctx, workspace.NewArchived(k.root, names), writer)
		_ = writer.CloseWithError(err) // never fails
		packed <- result{left, err}
	}()
	err := k.sink.Artifact(name, kindArchive, false, reader)
	_ = reader.CloseWithError(errors.New("the archive is not wanted any more")) // never fails
	got := <-packed
	if err == nil {
		err = got.err
	}
	if n := len(got.left); err == nil && n > 0 {
		return k.note("links left out of %s, since they lead to nothing in it: %d, such as %s", name, n,
			strings.Join(got.left[:min(n, maxLeftNames)], ", "))
	}
	return err
}

func packArchive(ctx context.Context, files *workspace.Archived, w io.Writer) ([]string, error) {
	compressed := gzip.NewWriter(w)
	archive := tar.NewWriter(compressed)
	left, err := files.Add(ctx, archive, false)
	if err != nil {
		return nil, err
	}
	return left, errors.Join(archive.Close(), compressed.Close())
}
