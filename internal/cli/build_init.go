package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/assembly"
	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/fault"
)

func buildInitCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "init [DIR]",
		Short: "Write a .wharf-ci.yml to start from",
		Long: `Writes a commented .wharf-ci.yml into this folder (or DIR), with a step for each tool whose
files are there, such as go.mod or package.json, for each Dockerfile, and for each manifest
deploy/*.yml. A file that exists is left as it is.`,
		Example: examples("waybill build init"),
		Args:    arguments(0, 1, "DIR"),
		RunE: func(_ *cobra.Command, given []string) error {
			dir := a.Dir
			if len(given) > 0 {
				dir = a.Path(given[0])
			}
			return a.writeBuildFile(dir)
		},
	}
}

// mostLookedAt is how many files and folders are looked at for a starting file.
const mostLookedAt = 20_000

// startingNames returns the files of a folder that a starting file follows from, slash-separated: those in it, and the Dockerfiles and manifests
// below it.
func startingNames(dir string) (names []string, err error) {
	looked := 0
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
		case d.IsDir() && (strings.HasPrefix(d.Name(), ".") || slices.Contains([]string{"node_modules", "vendor", "testdata"}, d.Name())):
			return fs.SkipDir
		case d.IsDir():
			return nil
		case !strings.Contains(name, "/"), build.IsDockerfile(name), build.IsManifest(name):
			names = append(names, name)
		}
		return nil
	})
	return names, err
}

// writeBuildFile writes the starting file of a folder that has no build file.
func (a *app) writeBuildFile(dir string) error {
	names, err := startingNames(dir)
	if err != nil {
		return fault.New(fault.Invalid, "read %s: %w", a.Shorten(dir), assembly.Plain(err))
	}
	for _, name := range names {
		if other := strings.TrimSuffix(build.FileName, ".yml") + ".yaml"; name == other {
			return fault.New(fault.Invalid, "%s has %s", a.Shorten(dir), other).WithHint("mv %s %s   # only this name is read", other, build.FileName)
		}
	}
	path := filepath.Join(dir, build.FileName)
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	switch {
	case errors.Is(err, fs.ErrExist):
		return fault.New(fault.Invalid, "%s exists already", a.Shorten(path)).WithHint("waybill build lint")
	case err != nil:
		return fault.New(fault.Invalid, "write %s: %w", a.Shorten(path), assembly.Plain(err))
	}
	_, err = f.WriteString(build.StartingFile(names))
	if err := errors.Join(err, f.Close()); err != nil {
		return fault.New(fault.Unavailable, "write %s: %w", a.Shorten(path), assembly.Plain(err))
	}
	document := struct {
		File string `json:"file"`
	}{path}
	return a.printer().Answer(document, fmt.Sprintf("wrote %s; see what it would do: waybill run --dry-run", a.Shorten(path)))
}
