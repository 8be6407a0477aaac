package archtest_test

import (
	"go/ast"
	"go/build/constraint"
	"go/token"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/waybill-dev/waybill/internal/archtest"
)

const internal = archtest.Module + "/internal/"

// source is the project's Go files, parsed once for all tests.
var source = sync.OnceValues(func() ([]archtest.File, error) { return archtest.Load("../..") })

func load(t *testing.T) []archtest.File {
	t.Helper()
	files, err := source()
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 10 {
		t.Fatalf("read %d files: the rules would hold for nothing", len(files))
	}
	return files
}

// forEachImport calls check for every import that a product file makes: one in cmd or internal that is neither a test nor in a
// package for tests.
func forEachImport(t *testing.T, check func(f archtest.File, path string) (reason string)) {
	t.Helper()
	for _, f := range load(t) {
		if f.Test || archtest.ForTests(f.Package) || !strings.HasPrefix(f.Path, "cmd/") && !strings.HasPrefix(f.Path, "internal/") {
			continue
		}
		for _, path := range f.Imports() {
			if reason := check(f, path); reason != "" {
				t.Errorf("%s imports %s: %s", f.Path, path, reason)
			}
		}
	}
}

func TestEveryPackageHasALayer(t *testing.T) {
	for _, f := range load(t) {
		if strings.HasPrefix(f.Package, internal) && archtest.LayerOf(f.Package) == archtest.Unassigned {
			t.Errorf("%s: add internal/%s to the table in archtest.go, and to ARCHITECTURE.md", f.Path, archtest.Top(f.Package))
		}
	}
}

func TestPackagesImportOnlyLowerLayers(t *testing.T) {
	forEachImport(t, func(f archtest.File, path string) string {
		if !strings.HasPrefix(path, internal) || !strings.HasPrefix(f.Package, internal) {
			return ""
		}
		from, to := archtest.LayerOf(f.Package), archtest.LayerOf(path)
		switch {
		case archtest.Top(f.Package) == archtest.Top(path), archtest.Top(path) == "fault":
			return ""
		case (archtest.Top(path) == "obs" || archtest.Top(path) == "file") && from != archtest.Pure:
			return ""
		case archtest.Top(path) == "lifecycle":
			if from == archtest.Wiring {
				return ""
			}
			return "only assembly and cli start and stop things"
		case to == archtest.Beside || from == archtest.Beside:
			return "what is beside the layers imports nothing from them and is not imported"
		case to > from:
			return "a higher layer"
		case to == from && from == archtest.Component:
			return "components meet in the log, never by import"
		}
		return ""
	})
}

// TestRoomsOfTheFaceImportOnlyLowerOnes: an answer does not depend on the way of asking.
func TestRoomsOfTheFaceImportOnlyLowerOnes(t *testing.T) {
	level := map[string]int{"service/buildview": 1, "service/flowview": 1, "service": 2, "operation": 3, "client": 4, "server": 4, "server/ogc": 5, "web": 6}
	forEachImport(t, func(f archtest.File, path string) string {
		from, to := level[strings.TrimPrefix(f.Package, internal)], level[strings.TrimPrefix(path, internal)]
		if from > 0 && to >= from {
			return "a room that is not below this one"
		}
		return ""
	})
}

func TestPurePackagesUseTheStandardLibraryOnly(t *testing.T) {
	forEachImport(t, func(f archtest.File, path string) string {
		first, _, _ := strings.Cut(path, "/")
		if archtest.LayerOf(f.Package) != archtest.Pure || !strings.Contains(first, ".") || strings.HasPrefix(path, internal) {
			return ""
		}
		return "deciders need nothing but the standard library"
	})
}

func TestPurePackagesDoNoInputOrOutput(t *testing.T) {
	forbidden := map[string]bool{"os": true, "os/exec": true, "net": true, "net/http": true, "log/slog": true,
		"database/sql": true, "sync": true, "syscall": true}
	forEachImport(t, func(f archtest.File, path string) string {
		if archtest.LayerOf(f.Package) != archtest.Pure || !forbidden[path] || archtest.Top(f.Package) == "fault" {
			return ""
		}
		return "a decider takes state and now, and returns decisions"
	})
}

func TestOnlyAssemblyImportsDrivers(t *testing.T) {
	forEachImport(t, func(f archtest.File, path string) string {
		driver := path == internal+"sqlite" || path == internal+"postgres"
		if driver && f.Package != internal+"assembly" {
			return "only assembly decides which database is used"
		}
		return ""
	})
}

func TestOnlyTheWiringSendsSpans(t *testing.T) {
	forEachImport(t, func(f archtest.File, path string) string {
		if path == internal+"obs/otlp" && archtest.LayerOf(f.Package) != archtest.Wiring {
			return "it brings gRPC with it; packages make spans with package obs, and the wiring says where they go"
		}
		return ""
	})
}

func TestProductImportsNoTestPackages(t *testing.T) {
	forEachImport(t, func(_ archtest.File, path string) string {
		if path == "testing" || strings.HasPrefix(path, internal) && archtest.ForTests(path) {
			return "only tests may"
		}
		return ""
	})
}

func TestTestsThatNeedAServiceSaySo(t *testing.T) {
	servants := map[string]bool{internal + "pgtest": true, internal + "browsertest": true}
	seen := 0
	for _, f := range load(t) {
		if !f.Test {
			continue
		}
		needs := slices.ContainsFunc(f.Imports(), func(path string) bool { return servants[path] })
		calls(f, "childtest", "AsRoot", func(token.Pos) { needs = true })
		if !needs {
			continue
		}
		seen++
		if !hasTag(f, "services") {
			t.Errorf("%s: begin with //go:build services, so that make check runs where there is none", f.Path)
		}
	}
	if seen < 10 {
		t.Errorf("found %d tests that need a service: the rule would hold for nothing", seen)
	}
}

// hasTag reports whether a file is left out of a build without the tag.
func hasTag(f archtest.File, tag string) bool {
	for _, group := range f.AST.Comments {
		for _, line := range group.List {
			if !constraint.IsGoBuild(line.Text) {
				continue
			}
			expression, err := constraint.Parse(line.Text)
			return err == nil && !expression.Eval(func(name string) bool { return name != tag })
		}
	}
	return false
}

// TestPartsOfTheLogMeetInOnePlace: the queue and the journal know the store alone, so that each can be understood, tested and
// used without the other.
func TestPartsOfTheLogMeetInOnePlace(t *testing.T) {
	never := map[string][]string{
		"queue":      {"journal", "builds", "promotions", "services", "token", "ledger", "pipeline", "config", "blob"},
		"journal":    {"queue", "builds", "promotions", "services", "token", "ledger"},
		"builds":     {"queue", "journal", "promotions", "services", "token", "ledger"},
		"promotions": {"queue", "journal", "builds", "services", "token", "ledger"},
		"services":   {"queue", "journal", "builds", "promotions", "token", "ledger"},
		"store":      {"queue", "journal", "builds", "promotions", "services", "token", "ledger"},
		"token":      {"queue", "journal", "ledger"},
		"conductor":  {"journal", "token", "ledger"},
		"caboose":    {"journal", "token", "ledger"},
		"deployer":   {"token", "ledger"},
	}
	forEachImport(t, func(f archtest.File, path string) string {
		for _, other := range never[archtest.Top(f.Package)] {
			if path == internal+other {
				return "doers do not see deployments, and the parts of the log meet in package ledger"
			}
		}
		return ""
	})
}

func TestSequentialPackagesHaveNoGoroutines(t *testing.T) {
	const reason = "make test runs the tests of this package without the race detector"
	for _, f := range load(t) {
		if !strings.HasPrefix(f.Package, internal) || !archtest.Sequential(f.Package) {
			continue
		}
		ast.Inspect(f.AST, func(n ast.Node) bool {
			if statement, ok := n.(*ast.GoStmt); ok {
				t.Errorf("%s starts a goroutine: %s", f.At(statement.Pos()), reason)
			}
			if selector, ok := n.(*ast.SelectorExpr); ok && selector.Sel.Name == "Go" {
				t.Errorf("%s starts a goroutine: %s", f.At(selector.Pos()), reason)
			}
			return true
		})
		for _, path := range f.Imports() {
			if path == "net/http/httptest" || path == "testing/synctest" || path == internal+"bubbletest" || path == internal+"servertest" {
				t.Errorf("%s imports %s, which starts goroutines: %s", f.Path, path, reason)
			}
		}
	}
}
