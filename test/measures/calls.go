package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/waybill-dev/waybill/internal/archtest"
)

// checkedFiles are the type-checked files of a package.
type checkedFiles struct {
	files []archtest.File
	info  *types.Info
}

// check type-checks the product's files of a folder; nil if it has none.
func (s *source) check(folder string) (*checkedFiles, error) {
	files := s.in(folder)
	if done, ok := s.checked[folder]; ok || len(files) == 0 {
		return done, nil
	}
	if err := s.compile(); err != nil {
		return nil, err
	}
	var parsed []*ast.File
	files = slices.DeleteFunc(files, func(f archtest.File) bool { return !s.built[f.Path] })
	for _, f := range files {
		parsed = append(parsed, f.AST)
	}
	set := files[0].Set
	info := &types.Info{
		Types: map[ast.Expr]types.TypeAndValue{},
		Uses:  map[*ast.Ident]types.Object{},
	}
	cfg := types.Config{Importer: importer.ForCompiler(set, "gc", func(pkg string) (io.ReadCloser, error) {
		return os.Open(s.exports[pkg])
	})}
	if _, err := cfg.Check(files[0].Package, set, parsed, info); err != nil {
		return nil, err
	}
	done := &checkedFiles{files, info}
	s.checked[folder] = done
	return done, nil
}

// compile has the go command compile the product and what it imports, and notes where export data and files are.
func (s *source) compile() error {
	if s.exports != nil {
		return nil
	}
	list := exec.CommandContext(context.Background(), "go", "list", "-export", "-deps",
		"-json=ImportPath,Export,Dir,GoFiles", "./api/...", "./cmd/...", "./internal/...")
	list.Dir, list.Stderr = s.root, os.Stderr
	out, err := list.Output()
	if err != nil {
		return fmt.Errorf("list packages: %w", err)
	}
	s.exports, s.built = map[string]string{}, map[string]bool{}
	for decoder := json.NewDecoder(strings.NewReader(string(out))); ; {
		var pkg struct {
			ImportPath, Export string
			GoFiles            []string
		}
		if err := decoder.Decode(&pkg); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("list packages: %w", err)
		}
		s.exports[pkg.ImportPath] = pkg.Export
		for _, name := range pkg.GoFiles {
			s.built[path.Join(strings.TrimPrefix(pkg.ImportPath, archtest.Module+"/"), name)] = true
		}
	}
}

// loopsOf counts the files of a package from which calls lead to another file and back. Calls of variables and of an interface's
// methods do not count.
func loopsOf(folder string) func(*source) (figure, error) {
	return func(s *source) (figure, error) {
		checked, err := s.check(folder)
		if err != nil || checked == nil {
			return figure{value: "-"}, err
		}
		calls := callsOf(checked)
		var list []string
		for file := range calls {
			if reaches(calls, file, file, map[string]bool{}) {
				list = append(list, file)
			}
		}
		return counted(list), nil
	}
}

// callsOf returns which files of a package are called from each.
func callsOf(checked *checkedFiles) map[string]map[string]bool {
	calls := map[string]map[string]bool{}
	for _, f := range checked.files {
		from := path.Base(f.Path)
		calls[from] = map[string]bool{}
		for _, d := range f.AST.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Body == nil {
				continue
			}
			ast.Inspect(fn.Body, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok {
					return true
				}
				if called := calledBy(call, checked.info); called != nil && called.Pkg() != nil && called.Pkg().Path() == f.Package {
					if to := path.Base(f.Set.Position(called.Pos()).Filename); to != from {
						calls[from][to] = true
					}
				}
				return true
			})
		}
	}
	return calls
}

// calledBy returns the function or method that a call names; nil for a method of an interface, a variable and a conversion.
func calledBy(call *ast.CallExpr, info *types.Info) *types.Func {
	fun := ast.Unparen(call.Fun)
	switch generic := fun.(type) {
	case *ast.IndexExpr:
		fun = generic.X
	case *ast.IndexListExpr:
		fun = generic.X
	}
	var name *ast.Ident
	switch fun := fun.(type) {
	case *ast.Ident:
		name = fun
	case *ast.SelectorExpr:
		name = fun.Sel
	default:
		return nil
	}
	called, ok := info.Uses[name].(*types.Func)
	if !ok {
		return nil
	}
	if receiver := called.Signature().Recv(); receiver != nil && types.IsInterface(receiver.Type()) {
		return nil
	}
	return called.Origin()
}

// reaches reports whether calls lead from a file to another.
func reaches(calls map[string]map[string]bool, from, to string, seen map[string]bool) bool {
	for next := range calls[from] {
		if next == to {
			return true
		}
		if !seen[next] {
			seen[next] = true
			if reaches(calls, next, to, seen) {
				return true
			}
		}
	}
	return false
}

// drivers are the folders whose interfaces are rows of a database, in groups that have comments.
var drivers = []string{
	"internal/store", "internal/queue", "internal/journal", "internal/builds", "internal/token", "internal/ledger",
}

// widestInterface counts the methods of interfaces, embedded ones included.
func widestInterface(s *source) (figure, error) {
	folders := map[string]bool{}
	for _, f := range s.product {
		folders[path.Dir(f.Path)] = below(f, "internal") && !slices.Contains(drivers, path.Dir(f.Path))
	}
	widths := map[string]int{}
	for _, folder := range slices.Sorted(maps.Keys(folders)) {
		if !folders[folder] {
			continue
		}
		checked, err := s.check(folder)
		if err != nil {
			return figure{}, err
		}
		for _, f := range checked.files {
			for name, width := range widthsIn(f.AST, checked.info) {
				widths[folder+"."+name] = width
			}
		}
	}
	names := slices.SortedFunc(maps.Keys(widths), func(a, b string) int { return widths[b] - widths[a] })
	var list []string
	for _, name := range names[:min(10, len(names))] {
		list = append(list, fmt.Sprintf("%3d %s", widths[name], name))
	}
	return figure{strconv.Itoa(widths[names[0]]), list}, nil
}

// widthsIn returns the number of methods of each interface in a file that has a name.
func widthsIn(file *ast.File, info *types.Info) map[string]int {
	widths := map[string]int{}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.TypeSpec)
		if !ok {
			return true
		}
		if _, ok := spec.Type.(*ast.InterfaceType); ok {
			widths[spec.Name.Name] = info.Types[spec.Type].Type.Underlying().(*types.Interface).NumMethods()
		}
		return true
	})
	return widths
}
