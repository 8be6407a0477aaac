package archtest_test

import (
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/internal/archtest"
)

const internal = archtest.Module + "/internal/"

// load reads the source once for each test; it is small.
func load(t *testing.T) []archtest.File {
	t.Helper()
	files, err := archtest.Load("../..")
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 10 {
		t.Fatalf("read %d files: the rules would hold for nothing", len(files))
	}
	return files
}

// forEachImport calls check for every import that a product file (no test, no test helper package) makes.
func forEachImport(t *testing.T, check func(f archtest.File, path string) (reason string)) {
	t.Helper()
	for _, f := range load(t) {
		if f.Test || isTestPackage(f.Package) {
			continue
		}
		for _, path := range f.Imports() {
			if reason := check(f, path); reason != "" {
				t.Errorf("%s imports %s: %s", f.Path, path, reason)
			}
		}
	}
}

func isTestPackage(path string) bool {
	for part := range strings.SplitSeq(strings.TrimPrefix(path, archtest.Module+"/"), "/") {
		if strings.HasSuffix(part, "test") {
			return true
		}
	}
	return false
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
		case archtest.Top(path) == "obs" && from != archtest.Pure:
			return ""
		case archtest.Top(path) == "lifecycle":
			if from == archtest.Wiring {
				return ""
			}
			return "only assembly and cli start and stop things"
		case to == archtest.Beside || from == archtest.Beside:
			return "what stands beside the layers imports nothing of them and is not imported"
		case to > from:
			return "a higher layer"
		case to == from && from == archtest.Component:
			return "components meet in the log, never by import"
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
	forbidden := map[string]bool{"os": true, "os/exec": true, "net": true, "net/http": true, "log/slog": true, "database/sql": true, "sync": true, "syscall": true}
	forEachImport(t, func(f archtest.File, path string) string {
		if archtest.LayerOf(f.Package) != archtest.Pure || !forbidden[path] || archtest.Top(f.Package) == "fault" {
			return ""
		}
		return "a decider takes state and now, and returns decisions"
	})
}

func TestOnlyAssemblyImportsDrivers(t *testing.T) {
	forEachImport(t, func(f archtest.File, path string) string {
		driver := path == internal+"ledger/sqlite" || path == internal+"ledger/postgres"
		if driver && f.Package != internal+"assembly" {
			return "only assembly decides which database is used"
		}
		return ""
	})
}

func TestTheCommandLineImportsNoClientLibrary(t *testing.T) {
	forEachImport(t, func(f archtest.File, path string) string {
		if archtest.Top(f.Package) != "cli" {
			return ""
		}
		for _, client := range []string{internal + "kube", internal + "aws", internal + "blob", "k8s.io/", "github.com/aws/", "github.com/jackc/", "modernc.org/", "database/sql"} {
			if strings.HasPrefix(path, client) {
				return "commands reach the world through assembly and the operations"
			}
		}
		return ""
	})
}

func TestRenderingImportsNothingThatActs(t *testing.T) {
	forEachImport(t, func(f archtest.File, path string) string {
		if f.Package != internal+"cli/show" {
			return ""
		}
		for _, actor := range []string{"os", "net/http", internal + "assembly", internal + "lifecycle", "github.com/spf13/cobra"} {
			if path == actor {
				return "show takes a view and returns lines"
			}
		}
		return ""
	})
}

func TestProductImportsNoTestPackages(t *testing.T) {
	forEachImport(t, func(_ archtest.File, path string) string {
		if path == "testing" || strings.HasPrefix(path, internal) && isTestPackage(path) {
			return "only tests may"
		}
		return ""
	})
}
