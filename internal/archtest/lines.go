package archtest

import (
	"fmt"
	"go/ast"
	"path"
	"slices"
	"strings"
	"unicode/utf8"
)

// Product reports whether a Go file is part of the product: in api, cmd or internal, and neither a test, nor in a package for tests,
// nor generated.
func (f File) Product() bool {
	top, _, _ := strings.Cut(f.Path, "/")
	return (top == "api" || top == "cmd" || top == "internal") && !f.Test && !ForTests(f.Package) && !ast.IsGenerated(f.AST)
}

// Lines returns the number of lines of the file.
func (f File) Lines() int { return f.Set.File(f.AST.FileStart).LineCount() }

// LoadProduct parses the product's Go files below root.
func LoadProduct(root string) ([]File, error) {
	files, err := parse(root, []string{"api", "cmd", "internal"})
	return slices.DeleteFunc(files, func(f File) bool { return !f.Product() }), err
}

// ForTests reports whether a package serves tests only: its name, or that of a folder above it, ends in test.
func ForTests(pkg string) bool {
	for part := range strings.SplitSeq(strings.TrimPrefix(pkg, Module+"/"), "/") {
		if strings.HasSuffix(part, "test") {
			return true
		}
	}
	return false
}

// Part is a part of the product whose lines have a ceiling.
type Part struct {
	Name    string
	Ceiling int
	folders []string // a folder below one that another part names belongs to the part that names it
}

// Parts lists the parts of the product. A ceiling is the number of lines, rounded up to the next 500. To raise one, say in
// ARCHITECTURE.md for which user the lines are needed.
var Parts = []Part{
	{"deployments", 26500, []string{
		"internal/pipeline", "internal/admission", "internal/definition", "internal/journal", "internal/deployer",
		"internal/conductor/handler/step", "internal/conductor/handler/gate", "internal/ssh",
	}},
	{"queue and jobs", 20000, []string{
		"internal/action", "internal/address", "internal/argo", "internal/aws", "internal/caboose", "internal/cachekey", "internal/callback",
		"internal/conductor", "internal/cron", "internal/jsonpath", "internal/queue", "internal/webhook",
	}},
	{"builds", 32500, []string{
		"api", "internal/attempt", "internal/build", "internal/buildcache", "internal/builder", "internal/builds", "internal/command",
		"internal/conductor/handler/build", "internal/docker", "internal/results", "internal/testresult", "internal/workspace",
	}},
	{"promotion", 25500, []string{
		"api/kube", "internal/promotion", "internal/promotions", "internal/promoter", "internal/marker", "internal/git/mirror",
		"internal/githost", "internal/kube/pool", "internal/conductor/handler/pullrequest", "internal/conductor/handler/notification",
		"internal/cli/pipeline/install", "internal/signature",
	}},
	{"events", 2000, []string{"internal/cloudevent", "internal/trigger"}},
	{"flows", 8500, []string{"api/kube/flow", "internal/flow", "internal/kube/claim", "internal/conductor/handler/eventflow"}},
	{"broker", 5500, []string{"internal/broker", "internal/osb", "internal/services"}},
	{"stores", 13500, []string{
		"internal/blob", "internal/ledger", "internal/postgres", "internal/sqlite", "internal/store", "internal/token",
	}},
	{"faces", 29500, []string{"internal/client", "internal/operation", "internal/server", "internal/service", "internal/web"}},
	{"cli", 17000, []string{"cmd", "internal/cli"}},
	{"kube", 3500, []string{"internal/kube"}},
	{"the rest", 16000, nil},
}

// partOf returns the index in Parts of the part that a folder belongs to.
func partOf(folder string) int {
	for ; folder != "."; folder = path.Dir(folder) {
		for i, part := range Parts {
			if slices.Contains(part.folders, folder) {
				return i
			}
		}
	}
	return len(Parts) - 1
}

// mostParameters is the number of parameters that a function may have without being counted.
const mostParameters = 4

// ManyParameters lists the functions of a file that have more than four parameters, with their places.
func ManyParameters(f File) (found []string) {
	for _, d := range f.AST.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if ok && fn.Type.Params.NumFields() > mostParameters {
			found = append(found, fmt.Sprintf("%s %s", f.At(fn.Pos()), fn.Name.Name))
		}
	}
	return found
}

// LongLines returns how many lines of a text have more characters than columns; a tab is one.
func LongLines(text string, columns int) (found int) {
	for line := range strings.Lines(text) {
		if utf8.RuneCountInString(strings.TrimSuffix(line, "\n")) > columns {
			found++
		}
	}
	return found
}

// LinesOf sums the lines of each part of the product, in the order of Parts.
func LinesOf(product []File) []int {
	sums := make([]int, len(Parts))
	for _, f := range product {
		sums[partOf(path.Dir(f.Path))] += f.Lines()
	}
	return sums
}
