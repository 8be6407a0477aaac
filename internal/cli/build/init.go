package build

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/waybill-dev/waybill/internal/cli/cmdline"

	slashpath "path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/file"
)

func buildInitCommand(a *cmdline.App) *cobra.Command {
	return &cobra.Command{
		Use:   "init [DIR]",
		Short: "Write a .wharf-ci.yml to start from",
		Long: `Writes a commented .wharf-ci.yml into this folder (or DIR), with a step for each tool whose
files are there, such as go.mod or package.json, for each Dockerfile, and for each manifest
deploy/*.yml. The tests that are there decide how they are run: pytest or unittest, npm test,
make test. A file that exists is left as it is. The JSON Schema by which editors complete and
check the file is written beside it.`,
		Example: cmdline.Examples("waybill build init"),
		Args:    cmdline.Arguments(0, 1, "DIR"),
		RunE: func(_ *cobra.Command, given []string) error {
			dir := a.Dir
			if len(given) > 0 {
				dir = a.Path(given[0])
			}
			return writeBuildFile(a, dir)
		},
	}
}

// mostLookedAt bounds the files and folders that are inspected for a starting file.
const mostLookedAt = 20_000

// Bounds of the texts that are read for a starting file.
const (
	mostStartingTexts = 100
	mostStartingText  = 64 << 10 // bytes of one; of a longer one the beginning is read
)

// startingFiles returns the files of a folder that a starting file follows from, by slash-separated path: those in it, and the Dockerfiles,
// manifests and tests in Python below it.
func startingFiles(dir string) (files map[string]string, err error) {
	files = map[string]string{}
	looked, read := 0, 0
	err = filepath.WalkDir(dir, func(file string, d fs.DirEntry, err error) error {
		name, relErr := filepath.Rel(dir, file)
		name = filepath.ToSlash(name)
		looked++
		switch {
		case name == ".":
			return err
		case looked > mostLookedAt:
			return fs.SkipAll
		case err != nil || relErr != nil:
			return nil // what cannot be read has no step
		case d.IsDir() && (strings.HasPrefix(d.Name(), ".") || slices.Contains([]string{"node_modules", "vendor", "testdata", "venv"}, d.Name())):
			return fs.SkipDir
		case d.IsDir():
			return nil
		case build.StartingText(name) && d.Type().IsRegular() && read < mostStartingTexts:
			files[name] = beginningOf(file)
			read++
		case !strings.Contains(name, "/"), build.IsDockerfile(name), build.IsManifest(name), slashpath.Base(name) == "__init__.py":
			files[name] = ""
		}
		return nil
	})
	return files, err
}

// beginningOf returns the beginning of a file; "" if it cannot be read.
func beginningOf(path string) string {
	f, _, err := file.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	text, _ := io.ReadAll(io.LimitReader(f, mostStartingText)) // what could be read
	return string(text)
}

// writeBuildFile writes the starting file of a folder that has no build file.
func writeBuildFile(a *cmdline.App, dir string) error {
	files, err := startingFiles(dir)
	if err != nil {
		return fault.New(fault.Invalid, "read %s: %w", a.Shorten(dir), file.Plain(err))
	}
	other := strings.TrimSuffix(build.FileName, ".yml") + ".yaml"
	if _, ok := files[other]; ok {
		return fault.New(fault.Invalid, "%s has %s", a.Shorten(dir), other).WithHint("mv %s %s   # only this name is read", other, build.FileName)
	}
	path := filepath.Join(dir, build.FileName)
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	switch {
	case errors.Is(err, fs.ErrExist):
		return fault.New(fault.Invalid, "%s exists already", a.Shorten(path)).WithHint("waybill build lint")
	case err != nil:
		return fault.New(fault.Invalid, "write %s: %w", a.Shorten(path), file.Plain(err))
	}
	_, err = f.WriteString(build.StartingFile(files))
	if err := errors.Join(err, f.Close(), writeSchema(filepath.Join(dir, build.SchemaFileName))); err != nil {
		return fault.New(fault.Unavailable, "write %s: %w", a.Shorten(path), file.Plain(err))
	}
	document := struct {
		File   string `json:"file"`
		Schema string `json:"schema"`
	}{path, filepath.Join(dir, build.SchemaFileName)}
	return a.Printer().Answer(document, fmt.Sprintf("wrote %s, and %s for editors; see what it would do: waybill run --dry-run",
		a.Shorten(path), a.Shorten(document.Schema)))
}

// writeSchema writes the JSON Schema that the starting file names.
func writeSchema(path string) error {
	schema, err := build.Schema()
	if err != nil {
		return err
	}
	return os.WriteFile(path, schema, 0o644)
}
