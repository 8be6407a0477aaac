package main

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// The packages of the other commit get an import path of their own, so that one program can have both.
const (
	module  = "github.com/waybill-dev/waybill/"
	today   = module + "internal/"
	then    = module + "internal/former/"
	engine  = "internal/pipeline"
	adapter = "test/former/oracle"
	// chooser is the file that has no engine in the tree, and the other commit's in the overlay.
	chooser = "test/former/compare/former.go"
)

// overlay is files of a build that are not in the tree: the path there, from the root, and the text.
type overlay map[string][]byte

// writeOverlay writes the engine of a commit and the description of the overlay to a folder, and returns
// the path of the description.
func writeOverlay(ctx context.Context, dir, commit string) (string, error) {
	root, err := os.Getwd()
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(filepath.Join(root, engine)); err != nil {
		return "", fmt.Errorf("run it at the root of the repository: %w", err)
	}
	files := overlay{}
	if err := files.take(ctx, commit, engine); err != nil {
		return "", err
	}
	if err := files.change(changes); err != nil {
		return "", err
	}
	if err := files.adapt(); err != nil {
		return "", err
	}
	return files.write(dir, root)
}

// take adds a package of a commit, and what it imports from this module.
func (o overlay) take(ctx context.Context, commit, folder string) error {
	texts, err := read(ctx, commit, folder)
	if err != nil {
		return err
	}
	for name, text := range texts {
		o[movedTo(name)] = moved(text)
	}
	for _, text := range texts {
		imports, err := importsOf(text)
		if err != nil {
			return fmt.Errorf("read %s of %s: %w", folder, commit, err)
		}
		for _, each := range imports {
			if o.has(each) {
				continue
			}
			if err := o.take(ctx, commit, each); err != nil {
				return err
			}
		}
	}
	return nil
}

// has reports whether a folder's package is there.
func (o overlay) has(folder string) bool {
	for name := range o {
		if path.Dir(name) == path.Dir(movedTo(folder+"/x.go")) {
			return true
		}
	}
	return false
}

// movedTo returns where a file of the other commit is in the overlay.
func movedTo(name string) string { return "internal/former/" + strings.TrimPrefix(name, "internal/") }

// moved returns a Go file that imports the other commit's packages.
func moved(text []byte) []byte {
	return bytes.ReplaceAll(text, []byte(`"`+today), []byte(`"`+then))
}

// adapt adds the other commit's adapter, and has the program choose it.
func (o overlay) adapt() error {
	files, err := filepath.Glob(adapter + "/*.go")
	if err != nil {
		return err
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		o["internal/former/oracle/"+filepath.Base(file)] = moved(text)
	}
	o[chooser] = []byte("package main\n\nimport \"" + then + "oracle\"\n\n" +
		"func newFormer(name string) (engine, error) { return oracle.New(name), nil }\n")
	return nil
}

// write writes the files, and the description that go build reads.
func (o overlay) write(dir, root string) (string, error) {
	replace := map[string]string{}
	for name, text := range o {
		at := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
			return "", err
		}
		if err := os.WriteFile(at, text, 0o600); err != nil {
			return "", err
		}
		replace[filepath.Join(root, filepath.FromSlash(name))] = at
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	description := filepath.Join(dir, "overlay.json")
	return description, os.WriteFile(description, text, 0o600)
}

// read returns the Go files of a folder at a commit, without tests, by path.
func read(ctx context.Context, commit, folder string) (map[string][]byte, error) {
	if err := exec.CommandContext(ctx, "git", "cat-file", "-e", commit+"^{commit}").Run(); err != nil {
		return nil, fmt.Errorf("the history here lacks the commit %s (git: %w): a shallow clone gets it with git fetch --unshallow", commit, err)
	}
	out, err := exec.CommandContext(ctx, "git", "archive", "--format=tar", commit, folder).Output()
	if err != nil {
		return nil, fmt.Errorf("read %s of %s: %w", folder, commit, err)
	}
	texts := map[string][]byte{}
	for archive := tar.NewReader(bytes.NewReader(out)); ; {
		file, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return texts, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read %s of %s: %w", folder, commit, err)
		}
		if path.Dir(file.Name) != folder || !strings.HasSuffix(file.Name, ".go") || strings.HasSuffix(file.Name, "_test.go") {
			continue
		}
		if texts[file.Name], err = io.ReadAll(archive); err != nil {
			return nil, fmt.Errorf("read %s of %s: %w", file.Name, commit, err)
		}
	}
}

// importsOf lists the folders of this module that a Go file imports.
func importsOf(text []byte) ([]string, error) {
	file, err := parser.ParseFile(token.NewFileSet(), "", text, parser.ImportsOnly)
	if err != nil {
		return nil, err
	}
	var folders []string
	for _, spec := range file.Imports {
		name, err := strconv.Unquote(spec.Path.Value)
		if folder, ours := strings.CutPrefix(name, module); err == nil && ours && !slices.Contains(folders, folder) {
			folders = append(folders, folder)
		}
	}
	return folders, nil
}
