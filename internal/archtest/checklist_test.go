package archtest_test

import (
	"crypto/sha256"
	"fmt"
	"go/ast"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/internal/archtest"
	"github.com/waybill-dev/waybill/internal/goldentest"
)

// The rules here are steps of the checklists in docs/contributing that no other test checks.

// inside returns the files of a package of the product.
func inside(t *testing.T, pkg string) (files []archtest.File) {
	t.Helper()
	for _, f := range load(t) {
		if f.Package == internal+pkg {
			files = append(files, f)
		}
	}
	if len(files) == 0 {
		t.Fatalf("package %s not found: the rule would hold for nothing", pkg)
	}
	return files
}

// text returns a string literal's value; "" for any other expression.
func text(e ast.Expr) string {
	literal, ok := e.(*ast.BasicLit)
	if !ok || literal.Kind != token.STRING {
		return ""
	}
	value, _ := strconv.Unquote(literal.Value) // the parser has accepted it
	return value
}

// mentions reports whether a page has a word that is not a part of a longer one.
func mentions(page, word string) bool {
	return regexp.MustCompile(`(^|[^\w-])` + regexp.QuoteMeta(word) + `($|[^\w-])`).MatchString(page)
}

// pages returns the text of all pages that match the patterns, which begin at the repository's root.
func pages(t *testing.T, patterns ...string) string {
	t.Helper()
	var all strings.Builder
	for _, pattern := range patterns {
		files, err := filepath.Glob(filepath.Join("../..", pattern))
		if err != nil || len(files) == 0 {
			t.Fatalf("no page matches %s: %v", pattern, err)
		}
		for _, file := range files {
			page, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			all.Write(page)
		}
	}
	return all.String()
}

func TestKeysOfFilesAreDocumented(t *testing.T) {
	undocumented := []string{"entries", "archive", "os", "path", "run-if", "when"} // only to be shortened
	for pkg, of := range map[string][]string{
		"definition": {"docs/pipeline.md"},
		"build":      {"docs/builds.md"},
		"config": {"docs/handlers.md", "docs/processes.md", "docs/callbacks.md", "docs/events.md", "docs/operate.md", "docs/provisioner.md", "docs/broker.md",
			"docs/flows.md"},
		"osb": {"docs/broker.md"},
	} {
		docs, seen := pages(t, of...), 0
		for _, f := range inside(t, pkg) {
			for _, key := range keysOf(f) {
				if seen++; !mentions(docs, key) && !slices.Contains(undocumented, key) {
					t.Errorf("%s: the key %q is not in %s", f.Path, key, strings.Join(of, ", "))
				}
			}
		}
		if seen < 10 {
			t.Errorf("%s: found %d keys: the rule would hold for nothing", pkg, seen)
		}
	}
}

// keysOf lists the keys of a file format that tables of document.Key declare, without those that are reserved for later.
func keysOf(f archtest.File) (keys []string) {
	if f.Test {
		return nil
	}
	ast.Inspect(f.AST, func(n ast.Node) bool {
		row, ok := n.(*ast.CompositeLit)
		if !ok {
			return true
		}
		fields := map[string]ast.Expr{}
		for _, e := range row.Elts {
			if field, ok := e.(*ast.KeyValueExpr); ok {
				if name, ok := field.Key.(*ast.Ident); ok {
					fields[name.Name] = field.Value
				}
			}
		}
		if name := text(fields["Name"]); name != "" && fields["Shape"] != nil && fields["Later"] == nil {
			keys = append(keys, name)
		}
		return true
	})
	return keys
}

func TestHandlerTypesHaveAPackageAndASection(t *testing.T) {
	docs, seen := pages(t, "docs/handlers.md"), 0
	for _, f := range inside(t, "config") {
		for _, d := range f.AST.Decls {
			constants, ok := d.(*ast.GenDecl)
			if !ok || constants.Tok != token.CONST {
				continue
			}
			for _, spec := range constants.Specs {
				value := spec.(*ast.ValueSpec)
				if !strings.HasPrefix(value.Names[0].Name, "Type") || len(value.Values) == 0 {
					continue
				}
				seen++
				kind := text(value.Values[0])
				inside(t, "conductor/handler/"+kind)
				if kind != "noop" && !slices.Contains(headings(docs), kind) { // noop is for tests of an installation
					t.Errorf("%s: docs/handlers.md has no section %q", f.Path, kind)
				}
			}
		}
	}
	if seen < 4 {
		t.Errorf("found %d types of handlers: the rule would hold for nothing", seen)
	}
}

// TestMigrationsStayAndComeInPairs compares testdata/migrations.txt: the digest of every migration of each database. One that has
// been released is never changed, since a database that ran it does not run it again; -rewrite adds the line of a new one.
func TestMigrationsStayAndComeInPairs(t *testing.T) {
	files, err := filepath.Glob("../*/migrations/*.sql")
	if err != nil || len(files) < 20 {
		t.Fatalf("found %d migrations, %v: the rule would hold for nothing", len(files), err)
	}
	var list strings.Builder
	numbers := map[string][]string{}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		driver := filepath.Base(filepath.Dir(filepath.Dir(file)))
		numbers[driver] = append(numbers[driver], filepath.Base(file))
		fmt.Fprintf(&list, "%s/%s %x\n", driver, filepath.Base(file), sha256.Sum256(content))
	}
	if !slices.Equal(numbers["sqlite"], numbers["postgres"]) {
		t.Errorf("SQLite has the migrations %v, PostgreSQL %v: a schema has one number on both", numbers["sqlite"], numbers["postgres"])
	}
	goldentest.Compare(t, "testdata/migrations.txt", list.String())
}

func TestCommandsAreDocumented(t *testing.T) {
	// Their --help says all there is to know.
	helped := []string{"action list", "build schema", "build show", "completion", "deployment list", "deployment watch",
		"deployment why", "pipeline apply",
		"pipeline list", "pipeline versions", "process show", "revision show", "token list", "token revoke", "version"}
	docs, seen := pages(t, "README.md", "docs/*.md"), 0
	for _, f := range inside(t, "cli") {
		for _, name := range commandsOf(f) {
			if seen++; !mentions(docs, "waybill "+name) && !slices.Contains(helped, name) {
				t.Errorf("no page shows waybill %s", name)
			}
		}
	}
	if seen < 40 {
		t.Errorf("found %d commands: the rule would hold for nothing", seen)
	}
}

// commandsOf lists the commands in the table of exit statuses, which has all of the program.
func commandsOf(f archtest.File) (names []string) {
	for _, d := range f.AST.Decls {
		vars, ok := d.(*ast.GenDecl)
		if !ok || vars.Tok != token.VAR {
			continue
		}
		for _, spec := range vars.Specs {
			value := spec.(*ast.ValueSpec)
			if value.Names[0].Name != "exitStatuses" {
				continue
			}
			for _, row := range value.Values[0].(*ast.CompositeLit).Elts {
				names = append(names, text(row.(*ast.KeyValueExpr).Key))
			}
		}
	}
	return names
}
