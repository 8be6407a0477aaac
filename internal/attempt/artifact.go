package attempt

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/workspace"
)

// Kinds of artifacts, as the results name them.
const (
	kindFile    = "file"
	kindArchive = "archive"
)

// keepOutputs keeps artifacts and test results. A step that succeeded fails if it has no test results
// and must have some.
func keepOutputs(ctx context.Context, step build.PlanStep, tests *watchedTests, succeeded bool, sink build.Sink) error {
	if err := tests.find(); err != nil {
		return err
	}
	var missing error
	if succeeded {
		missing = tests.missing()
	}
	if err := keepArtifacts(ctx, step, tests.repo, succeeded && missing == nil, sink); err != nil {
		return err
	}
	return errors.Join(tests.keep(sink), missing)
}

// keepArtifacts hands the files that the step's rules select to the sink. Links are followed inside
// the workspace only.
func keepArtifacts(ctx context.Context, step build.PlanStep, repo string, succeeded bool, sink build.Sink) error {
	if len(step.Artifacts) == 0 {
		return nil
	}
	root, err := os.OpenRoot(repo)
	if err != nil {
		return fmt.Errorf("collect artifacts: %w", err)
	}
	defer root.Close()
	files, err := regularFiles(root, repo)
	if err != nil {
		return fmt.Errorf("collect artifacts: %w", err)
	}
	for _, kept := range build.Collect(step.Artifacts, succeeded, files) {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		if err := keepRule(root, step, kept, sink); err != nil {
			return fmt.Errorf("collect artifacts: %w", err)
		}
	}
	return nil
}

// regularFiles lists the files of a workspace, slash-separated, links to files inside it included.
func regularFiles(root *os.Root, repo string) ([]string, error) {
	var files []string
	err := filepath.WalkDir(repo, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(repo, path)
		if err != nil || d.IsDir() {
			return err
		}
		if info, err := root.Stat(relative); err == nil && info.Mode().IsRegular() {
			files = append(files, filepath.ToSlash(relative))
		}
		return nil
	})
	return files, err
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
	f, err := os.Open(n.Path)
	if err != nil {
		return fmt.Errorf("place %s: %w", n.Name, err)
	}
	defer f.Close()
	return workspace.Place(ctx, repo, workspace.Placed{Name: n.Name, Executable: n.Executable, Archive: n.Archive, SHA256: n.SHA256}, f)
}

func keepRule(root *os.Root, step build.PlanStep, kept build.Kept, sink build.Sink) error {
	name := kept.Rule.Name
	switch {
	case len(kept.Files) == 0 && kept.Taken:
		return sink.Note(fmt.Sprintf("artifacts: an earlier rule keeps all files that match %s", kept.Rule.Path))
	case len(kept.Files) == 0:
		return sink.Note(fmt.Sprintf("artifacts: %s matches no file", kept.Rule.Path))
	case kept.Rule.Archive:
		if name == "" {
			name = step.Name + ".tar.gz"
		}
		return keepArchive(root, name, kept.Files, sink)
	case name != "" && len(kept.Files) > 1:
		if err := sink.Note(fmt.Sprintf("artifacts: %s matches %d files, so they keep their own names", kept.Rule.Path, len(kept.Files))); err != nil {
			return err
		}
		name = ""
	}
	for _, file := range kept.Files {
		if err := keepFile(root, file, name, sink); err != nil {
			return err
		}
	}
	return nil
}

func keepFile(root *os.Root, file, name string, sink build.Sink) error {
	f, err := root.Open(filepath.FromSlash(file))
	if err != nil {
		return err
	}
	defer f.Close()
	if name == "" {
		name = file
	}
	info, err := f.Stat()
	if err != nil {
		return err
	}
	return sink.Artifact(name, kindFile, info.Mode()&0o111 != 0, f)
}

// keepArchive packs the files into one .tar.gz as it is stored.
func keepArchive(root *os.Root, name string, files []string, sink build.Sink) error {
	reader, writer := io.Pipe()
	packed := make(chan error, 1)
	go func() {
		err := packArchive(root, files, writer)
		_ = writer.CloseWithError(err) // never fails
		packed <- err
	}()
	err := sink.Artifact(name, kindArchive, false, reader)
	_ = reader.CloseWithError(errors.New("the archive is not wanted any more")) // never fails
	if packErr := <-packed; err == nil {
		return packErr
	}
	return err
}

func packArchive(root *os.Root, files []string, w io.Writer) error {
	compressed := gzip.NewWriter(w)
	archive := tar.NewWriter(compressed)
	for _, file := range files {
		if err := workspace.AddFile(archive, root, file); err != nil {
			return fmt.Errorf("pack %s: %w", file, err)
		}
	}
	return errors.Join(archive.Close(), compressed.Close())
}
