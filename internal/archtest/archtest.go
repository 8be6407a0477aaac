// Package archtest has the rules of this repository that can be executed: which
// package may import which, and the habits that reviews would otherwise have to watch.
// ARCHITECTURE.md gives the reasons for the layers; the tests beside this
// file read the source and fail with the reason in the message.
package archtest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Module is the import path of the product.
const Module = "github.com/waybill-dev/waybill"

// Layer is a height in the house: a package imports lower ones.
type Layer int

// The layers, lowest first (ARCHITECTURE.md, "The map").
const (
	Pure       Layer = iota // decides; standard library only
	Log                     // the database, and the queue and the journal over it
	Adapter                 // one technology of the outside each
	Component               // one role each
	Face                    // what people and programs talk to
	Wiring                  // what puts a process together, and the command line
	Beside                  // rules of their own
	Unassigned Layer = -1
)

// layers is the layer of every folder under internal/. What is below a folder has its layer.
var layers = map[string]Layer{
	"fault": Pure, "action": Pure, "admission": Pure, "address": Pure, "cachekey": Pure, "pipeline": Pure,
	"document": Pure, "build": Pure, "definition": Pure, "cron": Pure, "mask": Pure, "testresult": Pure,
	"promotion": Pure, "signature": Pure,
	"store": Log, "queue": Log, "journal": Log, "builds": Log, "token": Log, "ledger": Log, "loop": Log, "semaphore": Log, "file": Log,
	"promotions": Log, "services": Log,
	"sqlite": Adapter, "postgres": Adapter, "blob": Adapter, "aws": Adapter, "kube": Adapter, "argo": Adapter,
	"git": Adapter, "command": Adapter, "yamltree": Adapter, "results": Adapter, "workspace": Adapter,
	"buildcache": Adapter, "attempt": Adapter, "docker": Adapter, "config": Adapter,
	"listener": Adapter, "secret": Adapter, "ssh": Adapter, "webhook": Adapter, "callback": Adapter, "jsonpath": Adapter,
	"marker": Adapter, "githost": Adapter, "cloudevent": Adapter, "trigger": Adapter, "osb": Adapter,
	"conductor": Component, "deployer": Component, "caboose": Component, "builder": Component,
	"promoter": Component, "broker": Component, "flow": Adapter,
	"service": Face, "operation": Face, "client": Face, "server": Face, "web": Face,
	"assembly": Wiring, "cli": Wiring,
	"lifecycle": Beside, "obs": Beside, "archtest": Beside,
}

// exceptions are the layers of packages that are not in that of the folder above them.
var exceptions = map[string]Layer{"conductor/turn": Pure, "flow/controller": Component, "flow/migrate": Component}

// LayerOf returns the layer of an import path of this module; Unassigned for a folder that the
// table does not name.
func LayerOf(path string) Layer {
	if layer, ok := exceptions[strings.TrimPrefix(path, Module+"/internal/")]; ok {
		return layer
	}
	top := Top(path)
	if strings.HasSuffix(top, "test") {
		return Beside
	}
	if layer, ok := layers[top]; ok {
		return layer
	}
	return Unassigned
}

// sequential are the packages besides L0 that have no goroutines and whose tests have none.
var sequential = map[string]bool{"archtest": true, "callback": true, "cloudevent": true, "jsonpath": true, "marker": true,
	"osb": true, "secret": true, "trigger": true, "yamltree": true}

// Sequential reports whether neither a package nor its tests have goroutines, so that the race detector would find nothing.
func Sequential(path string) bool {
	return LayerOf(path) == Pure || sequential[strings.TrimPrefix(path, Module+"/internal/")]
}

// Top returns the folder under internal/ that an import path is in.
func Top(path string) string {
	rest := strings.TrimPrefix(path, Module+"/internal/")
	top, _, _ := strings.Cut(rest, "/")
	return top
}

// File is one parsed Go file.
type File struct {
	Path    string // from the module's folder
	Package string // import path
	Test    bool
	AST     *ast.File
	Set     *token.FileSet
}

// Imports returns the paths that the file imports.
func (f File) Imports() []string {
	var paths []string
	for _, spec := range f.AST.Imports {
		paths = append(paths, strings.Trim(spec.Path.Value, `"`))
	}
	return paths
}

// At returns a position in the file, for messages.
func (f File) At(pos token.Pos) string {
	return fmt.Sprintf("%s:%d", f.Path, f.Set.Position(pos).Line)
}

// folders are those with Go files of the project; test and bench hold modules of their own.
var folders = []string{"cmd", "internal", "test", "bench"}

// Load parses every Go file of the project below root.
func Load(root string) ([]File, error) { return parse(root, folders) }

// parse parses every Go file in some folders below root.
func parse(root string, folders []string) ([]File, error) {
	var files []File
	set := token.NewFileSet()
	for _, folder := range folders {
		err := filepath.WalkDir(filepath.Join(root, folder), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.Contains(path, "testdata") {
				return err
			}
			file, err := load(set, root, path)
			files = append(files, file)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return files, nil
}

func load(set *token.FileSet, root, path string) (File, error) {
	source, err := os.ReadFile(path)
	if err != nil {
		return File{}, err
	}
	parsed, err := parser.ParseFile(set, path, source, parser.ParseComments)
	if err != nil {
		return File{}, err
	}
	relative, err := filepath.Rel(root, path)
	if err != nil {
		return File{}, err
	}
	return File{
		Path:    filepath.ToSlash(relative),
		Package: Module + "/" + filepath.ToSlash(filepath.Dir(relative)),
		Test:    strings.HasSuffix(path, "_test.go"),
		AST:     parsed,
		Set:     set,
	}, nil
}

// Texts reads every Go file and page of the project below root; the key is the path from root.
func Texts(root string) (map[string]string, error) {
	texts := map[string]string{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if path != root && strings.HasPrefix(d.Name(), ".") {
				return filepath.SkipDir // Git's folder, or the home of a demo
			}
			return nil
		}
		if ext := filepath.Ext(path); ext != ".go" && ext != ".md" {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(root, path)
		texts[filepath.ToSlash(relative)] = string(text)
		return err
	})
	return texts, err
}
