package archtest_test

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/internal/archtest"
)

// calls visits every call of package.function in a file.
func calls(f archtest.File, pkg, function string, visit func(pos token.Pos)) {
	ast.Inspect(f.AST, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		if selector, ok := call.Fun.(*ast.SelectorExpr); ok && selector.Sel.Name == function {
			if x, ok := selector.X.(*ast.Ident); ok && x.Name == pkg {
				visit(call.Pos())
			}
		}
		return true
	})
}

func TestDecidersHaveNoClock(t *testing.T) {
	for _, f := range load(t) {
		if f.Test || archtest.LayerOf(f.Package) != archtest.Pure {
			continue
		}
		calls(f, "time", "Now", func(pos token.Pos) {
			t.Errorf("%s calls time.Now: a decider is given the time", f.At(pos))
		})
		ast.Inspect(f.AST, func(n ast.Node) bool {
			if g, ok := n.(*ast.GoStmt); ok {
				t.Errorf("%s starts a goroutine: a decider has none", f.At(g.Pos()))
			}
			return true
		})
	}
}

func TestNothingHappensAtImport(t *testing.T) {
	for _, f := range load(t) {
		for _, d := range f.AST.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" {
				t.Errorf("%s: init() hides an order; call it from where it is needed", f.At(fn.Pos()))
			}
		}
	}
}

func TestTestsWaitForSignalsAndHideNothing(t *testing.T) {
	for _, f := range load(t) {
		if !f.Test {
			continue
		}
		calls(f, "time", "Sleep", func(pos token.Pos) {
			t.Errorf("%s sleeps: wait for a signal, a channel, or use synctest", f.At(pos))
		})
		calls(f, "synctest", "Test", func(pos token.Pos) {
			t.Errorf("%s: use bubbletest.Test, which the race detector survives", f.At(pos))
		})
		for _, skip := range []string{"Skip", "Skipf", "SkipNow"} {
			calls(f, "t", skip, func(pos token.Pos) {
				t.Errorf("%s skips: a test whose service is missing fails", f.At(pos))
			})
		}
	}
}

func TestPackagesSayWhatTheyAre(t *testing.T) {
	documented, where := map[string]bool{}, map[string]string{}
	for _, f := range load(t) {
		if f.Test {
			continue
		}
		where[f.Package] = f.Path
		documented[f.Package] = documented[f.Package] || f.AST.Doc != nil
	}
	for pkg, path := range where {
		if !documented[pkg] {
			t.Errorf("%s: package %s has no package comment", path, pkg)
		}
	}
}

func TestPackagesAreNamedAfterWhatTheyHold(t *testing.T) {
	vague := map[string]bool{"util": true, "utils": true, "common": true, "types": true, "helpers": true, "helper": true,
		"misc": true, "base": true, "structs": true}
	for _, f := range load(t) {
		if vague[f.AST.Name.Name] {
			t.Errorf("%s: package %s says nothing; name the noun it holds", f.Path, f.AST.Name.Name)
		}
	}
}

func TestNoMutableGlobals(t *testing.T) {
	for _, f := range load(t) {
		if f.Test || archtest.ForTests(f.Package) {
			continue
		}
		assigned := assignedNames(f)
		for _, d := range f.AST.Decls {
			vars, ok := d.(*ast.GenDecl)
			if !ok || vars.Tok != token.VAR {
				continue
			}
			for _, spec := range vars.Specs {
				for _, name := range spec.(*ast.ValueSpec).Names {
					if assigned[name.Name] {
						t.Errorf("%s: the package variable %s is assigned: keep it in a struct", f.At(name.Pos()), name.Name)
					}
				}
			}
		}
	}
}

// assignedNames returns the package-level identifiers that a file's functions assign to.
func assignedNames(f archtest.File) map[string]bool {
	names := map[string]bool{}
	ast.Inspect(f.AST, func(n ast.Node) bool {
		assign, ok := n.(*ast.AssignStmt)
		if !ok || assign.Tok == token.DEFINE {
			return true
		}
		for _, left := range assign.Lhs {
			if id, ok := left.(*ast.Ident); ok && id.Obj != nil && id.Obj.Kind == ast.Var {
				if _, global := id.Obj.Decl.(*ast.ValueSpec); global && f.AST.Scope.Lookup(id.Name) == id.Obj {
					names[id.Name] = true
				}
			}
		}
		return true
	})
	return names
}

// logCalls visits the arguments of every call of a logger: a variable or field named log or Log.
func logCalls(f archtest.File, visit func(message ast.Expr, rest []ast.Expr)) {
	levels := map[string]bool{"Debug": true, "Info": true, "Warn": true, "Error": true}
	ast.Inspect(f.AST, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || len(call.Args) == 0 {
			return true
		}
		method, ok := call.Fun.(*ast.SelectorExpr)
		if !ok || !levels[method.Sel.Name] {
			return true
		}
		name := ""
		switch logger := method.X.(type) {
		case *ast.Ident:
			name = logger.Name
		case *ast.SelectorExpr:
			name = logger.Sel.Name
		}
		if strings.EqualFold(name, "log") {
			visit(call.Args[0], call.Args[1:])
		}
		return true
	})
}

func TestLogLinesHaveConstantTextsAndKeys(t *testing.T) {
	seen := 0
	for _, f := range load(t) {
		if f.Test {
			continue
		}
		logCalls(f, func(message ast.Expr, rest []ast.Expr) {
			seen++
			if text, ok := message.(*ast.BasicLit); !ok || text.Kind != token.STRING {
				t.Errorf("%s: the message of a log line is a constant; what differs has a key", f.At(message.Pos()))
			}
			for i, key := range rest {
				text, literal := key.(*ast.BasicLit)
				if literal && text.Kind == token.STRING && (i == 0 || !isKey(rest[i-1])) {
					t.Errorf("%s: %s is not a key of package obs: keys are constants, so that a fact has one name", f.At(key.Pos()), text.Value)
				}
			}
		})
	}
	if seen < 20 {
		t.Errorf("found %d log lines: the rule would hold for nothing", seen)
	}
}

// isKey reports whether an expression is one of the keys of package obs.
func isKey(e ast.Expr) bool {
	key, ok := e.(*ast.SelectorExpr)
	return ok && strings.HasPrefix(key.Sel.Name, "Key")
}

func TestNothingIsLeftToDo(t *testing.T) {
	for _, f := range load(t) {
		for _, group := range f.AST.Comments {
			for _, word := range []string{"TODO", "FIXME", "XXX"} {
				if strings.Contains(group.Text(), word) {
					t.Errorf("%s says %s: do it, or say why it is as it is", f.At(group.Pos()), word)
				}
			}
		}
	}
}

// readers are the files outside of internal/file that open something for reading, and why they may.
var readers = map[string]string{
	"internal/command/instance_linux.go":    "files of the kernel",
	"internal/command/runner_supervise.go":  "files of the kernel",
	"internal/ssh/trust.go":                 "the folder, to lock it",
	"internal/results/store.go":             "a lock, made if there is none",
	"internal/results/root.go":              "a lock with the last number, made if there is none",
	"internal/results/cancel.go":            "a lock, made if there is none",
	"internal/git/mirror/lock.go":           "a lock, made if there is none",
	"internal/builder/provisioner/local.go": "a lock, made if there is none",
	"internal/kube/runner/runner.go":        "what it has written itself, through the same descriptor",
}

// TestFilesAreOpenedInOneWay: what is opened for reading is a regular file, is not waited for and has a bound, unless readers gives
// a reason.
func TestFilesAreOpenedInOneWay(t *testing.T) {
	used := map[string]bool{}
	for _, f := range load(t) {
		if f.Test || archtest.ForTests(f.Package) || !strings.HasPrefix(f.Path, "internal/") || strings.HasPrefix(f.Path, "internal/file/") {
			continue
		}
		ast.Inspect(f.AST, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || !opensToRead(call) {
				return true
			}
			used[f.Path] = true
			if readers[f.Path] == "" {
				t.Errorf("%s opens a file itself: internal/file does so without waiting, refuses what is not a regular file, and has a bound",
					f.At(call.Pos()))
			}
			return true
		})
	}
	for path := range readers {
		if !used[path] {
			t.Errorf("readers has %s, which opens nothing to read", path)
		}
	}
}

// opensToRead reports whether a call opens a file that others may have made: by os, or below a root.
func opensToRead(call *ast.CallExpr) bool {
	selector, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	on := strings.ToLower(types.ExprString(selector.X))
	if on != "os" && on != "root" && !strings.HasSuffix(on, ".root") {
		return false
	}
	switch selector.Sel.Name {
	case "Open", "ReadFile":
		return true
	case "OpenFile":
		flags := types.ExprString(call.Args[1])
		return !strings.Contains(flags, "O_WRONLY") && !strings.Contains(flags, "O_EXCL")
	}
	return false
}

// TestOneLoopServesHTTP: a server that was made elsewhere could lack a bound, and with it a process all of its memory.
func TestOneLoopServesHTTP(t *testing.T) {
	for _, f := range load(t) {
		if f.Test || archtest.ForTests(f.Package) || !strings.HasPrefix(f.Package, internal) || f.Package == internal+"listener" {
			continue
		}
		ast.Inspect(f.AST, func(n ast.Node) bool {
			if selector, ok := n.(*ast.SelectorExpr); ok {
				x, _ := selector.X.(*ast.Ident)
				server := slices.Contains([]string{"Server", "Serve", "ServeTLS", "ListenAndServe", "ListenAndServeTLS"}, selector.Sel.Name)
				if x != nil && x.Name == "http" && server {
					t.Errorf("%s has http.%s: serve with package listener, which bounds it", f.At(n.Pos()), selector.Sel.Name)
				}
			}
			return true
		})
	}
}
