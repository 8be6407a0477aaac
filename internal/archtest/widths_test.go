package archtest_test

import (
	"errors"
	"fmt"
	"go/ast"
	"go/build"
	"go/importer"
	"go/token"
	"go/types"
	"path"
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/internal/archtest"
)

// widest is how many methods an interface may have, embedded ones counted.
const widest = 5

// wide lists the interfaces that are wider, how wide they may be, and why.
var wide = map[string]struct {
	methods int
	reason  string
}{
	"internal/store.Driver":                  {8, "a database: transactions, waiters and plans"},
	"internal/queue.Driver":                  {7, "what a database does for the queue outside of transactions"},
	"internal/queue.Rows":                    {36, "rows of actions, instances, limits and the status"},
	"internal/queue.CacheRows":               {12, "rows of the payload cache and of received events"},
	"internal/journal.Rows":                  {32, "rows of the deployment log and its roll-ups"},
	"internal/builds.Rows":                   {27, "rows of builds, steps, events, logs, artifacts and test results"},
	"internal/service/buildview.Reader":      {6, "all of a build that is read: in a folder of results, or in the database"},
	"internal/promotions.Rows":               {30, "rows of Kubernetes pipelines, their runs, entries, attempts, requests and calls"},
	"internal/services.Rows":                 {8, "rows of service instances and their bindings"},
	"internal/token.Rows":                    {7, "rows of tokens and sessions"},
	"internal/ledger.Driver":                 {20, "a database for the whole log: the seven drivers above put together"},
	"internal/caboose.Ledger":                {10, "one loop reads and records what workflows and executions do"},
	"internal/builder/worker.View":           {7, "all that happens in a build, from its beginning to its end"},
	"internal/cli/show.Display":              {6, "what a live view is shown, from its first entry to its end"},
	"internal/conductor/handler/build.built": {8, "all of a build's evidence: a folder of results, or rows of the database"},
	"internal/conductor.Ledger":              {21, "a conductor claims, records, rescues and serves limits"},
	"internal/githost.driver":                {12, "a Git host: single calls that read and write proposals"},
	"internal/promoter.Ledger":               {11, "a promoter is an instance, reads definitions and who owns applications, and observes actions that are handed off"},
	"internal/deployer.Ledger":               {11, "a pass reads heads and definitions and appends, and is an instance"},
}

func TestInterfacesAreNarrow(t *testing.T) {
	u := newUniverse(load(t))
	seen := map[string]int{}
	for pkg := range u.files {
		for name, width := range u.widths(t, pkg) {
			seen[strings.TrimPrefix(pkg, archtest.Module+"/")+"."+name] = width
		}
	}
	if len(seen) < 30 {
		t.Errorf("found %d interfaces: the rule would hold for nothing", len(seen))
	}
	for name, width := range seen {
		limit := widest
		if listed, ok := wide[name]; ok {
			limit = listed.methods
		}
		if width > limit {
			t.Errorf(
				"%s has %d methods, %d are allowed: declare at the consumer what it needs, or list it in "+
					"widths_test.go with a reason", name, width, limit)
		}
	}
	for name := range wide {
		if seen[name] <= widest {
			t.Errorf("%s has %d methods: remove it from the list in widths_test.go", name, seen[name])
		}
	}
}

// universe type-checks declarations of the project, as far as interfaces need them: no bodies of functions, and of other modules only
// the packages whose interfaces are embedded.
type universe struct {
	files    map[string][]*ast.File // by import path; neither tests nor packages for tests
	set      *token.FileSet
	checked  map[string]*types.Package
	infos    map[string]*types.Info
	embedded map[string]bool // packages of the standard library that must be there
	standard types.Importer
}

func newUniverse(all []archtest.File) *universe {
	build.Default.CgoEnabled = false // else importing net runs the C compiler
	u := &universe{files: map[string][]*ast.File{}, checked: map[string]*types.Package{}, infos: map[string]*types.Info{},
		embedded: map[string]bool{}}
	for _, f := range all {
		if f.Test || archtest.ForTests(f.Package) {
			continue
		}
		u.set = f.Set
		u.files[f.Package] = append(u.files[f.Package], f.AST)
		for _, pkg := range embeds(f) {
			u.embedded[pkg] = true
		}
	}
	u.standard = importer.ForCompiler(u.set, "source", nil)
	return u
}

// embeds lists the packages whose interfaces are embedded in interfaces of a file.
func embeds(f archtest.File) (pkgs []string) {
	ast.Inspect(f.AST, func(n ast.Node) bool {
		declared, ok := n.(*ast.InterfaceType)
		if !ok {
			return true
		}
		for _, m := range declared.Methods.List {
			from, ok := m.Type.(*ast.SelectorExpr)
			if !ok {
				continue
			}
			for _, imported := range f.Imports() {
				if path.Base(imported) == from.X.(*ast.Ident).Name {
					pkgs = append(pkgs, imported)
				}
			}
		}
		return true
	})
	return pkgs
}

// Import returns a package of the project, or of the standard library where an interface embeds one of its own; of others an empty one.
func (u *universe) Import(pkg string) (*types.Package, error) {
	if done := u.checked[pkg]; done != nil {
		return done, nil
	}
	if files := u.files[pkg]; files != nil {
		u.infos[pkg] = &types.Info{Types: map[ast.Expr]types.TypeAndValue{}}
		// empty packages lack the names that the code uses
		cfg := types.Config{Importer: u, IgnoreFuncBodies: true, FakeImportC: true, Error: func(error) {}}
		done, err := cfg.Check(pkg, u.set, files, u.infos[pkg])
		if done == nil {
			return nil, err
		}
		u.checked[pkg] = done
		return done, nil
	}
	if u.embedded[pkg] {
		if first, _, _ := strings.Cut(pkg, "/"); strings.Contains(first, ".") {
			return nil, errors.New(pkg + " is of another module: its interfaces cannot be counted")
		}
		return u.standard.Import(pkg)
	}
	empty := types.NewPackage(pkg, path.Base(pkg))
	empty.MarkComplete()
	u.checked[pkg] = empty
	return empty, nil
}

// widths counts the methods of a package's interfaces: of those with a name by that, of others by the line that has them. Interfaces
// inside of functions are not counted.
func (u *universe) widths(t *testing.T, pkg string) map[string]int {
	t.Helper()
	if _, err := u.Import(pkg); err != nil {
		t.Fatal(err)
	}
	widths, names := map[string]int{}, map[ast.Expr]string{}
	for _, file := range u.files[pkg] {
		ast.Inspect(file, func(n ast.Node) bool {
			if spec, ok := n.(*ast.TypeSpec); ok {
				names[spec.Type] = spec.Name.Name
			}
			return true
		})
	}
	for expression, value := range u.infos[pkg].Types {
		if _, ok := expression.(*ast.InterfaceType); !ok {
			continue
		}
		name, ok := names[expression]
		if at := u.set.Position(expression.Pos()); !ok {
			name = fmt.Sprintf("%s:%d", path.Base(at.Filename), at.Line)
		}
		widths[name] = value.Type.Underlying().(*types.Interface).NumMethods()
	}
	return widths
}
