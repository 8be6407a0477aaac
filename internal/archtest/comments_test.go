package archtest_test

import (
	"go/ast"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/internal/archtest"
)

// forEachComment calls check with the text of each comment, its lines joined.
func forEachComment(t *testing.T, check func(f archtest.File, group *ast.CommentGroup, text string)) {
	t.Helper()
	for _, f := range load(t) {
		if strings.HasPrefix(f.Path, "internal/archtest/") {
			continue // it writes down what is not to be written
		}
		for _, group := range f.AST.Comments {
			check(f, group, strings.Join(strings.Fields(group.Text()), " "))
		}
	}
}

// citedPage matches a page, and the heading that is cited in it.
var citedPage = regexp.MustCompile(`([A-Za-z][\w./-]*\.md)(?:, "([^"]+)")?`)

func TestCitedPagesExist(t *testing.T) {
	seen := 0
	forEachComment(t, func(f archtest.File, group *ast.CommentGroup, text string) {
		for _, cited := range citedPage.FindAllStringSubmatch(text, -1) {
			seen++
			checkPage(t, f.At(group.Pos()), []string{cited[1], path.Join(path.Dir(f.Path), cited[1])}, cited[2])
		}
	})
	// The layers are in a comment of this package, which forEachComment leaves out.
	checkPage(t, "archtest.go", []string{"ARCHITECTURE.md"}, "The map")
	if seen < 5 {
		t.Errorf("found %d citations of pages: the rule would hold for nothing", seen)
	}
}

// checkPage fails the test unless one of the pages exists and has the heading, if any.
func checkPage(t *testing.T, where string, pages []string, heading string) {
	t.Helper()
	for _, page := range pages {
		text, err := os.ReadFile(filepath.Join("../..", page))
		if err != nil {
			continue
		}
		if heading != "" && !slices.ContainsFunc(headings(string(text)), func(h string) bool { return h == heading }) {
			t.Errorf("%s cites %q of %s, which has no such heading", where, heading, page)
		}
		return
	}
	t.Errorf("%s cites %s, which is not in the repository", where, pages[0])
}

// headings lists the headings of a page.
func headings(page string) (all []string) {
	for line := range strings.Lines(page) {
		if title := strings.TrimLeft(line, "#"); title != line && strings.HasPrefix(title, " ") {
			all = append(all, strings.TrimSpace(title))
		}
	}
	return all
}

// link matches a link of Markdown to a page, and the anchor of a heading.
var link = regexp.MustCompile(`\]\(([\w./-]*\.md)?(?:#([\w-]+))?\)`)

func TestLinksBetweenPagesResolve(t *testing.T) {
	texts := readTexts(t)
	seen := 0
	for page, text := range texts {
		if path.Ext(page) != ".md" || strings.Contains(page, "testdata") {
			continue
		}
		for _, to := range link.FindAllStringSubmatch(text, -1) {
			seen++
			target := page
			if to[1] != "" {
				target = path.Join(path.Dir(page), to[1])
			}
			aim, ok := texts[target]
			if !ok {
				t.Errorf("%s links to %s, which is not in the repository", page, target)
				continue
			}
			if to[2] != "" && !slices.ContainsFunc(headings(aim), func(h string) bool { return anchor(h) == to[2] }) {
				t.Errorf("%s links to #%s of %s, which has no such heading", page, to[2], target)
			}
		}
	}
	if seen < 5 {
		t.Errorf("found %d links between pages: the rule would hold for nothing", seen)
	}
}

// anchor returns a heading's anchor, as GitHub makes it.
func anchor(heading string) string {
	kept := regexp.MustCompile(`[^\w\- ]`).ReplaceAllString(strings.ToLower(heading), "")
	return strings.ReplaceAll(kept, " ", "-")
}

// bareSection matches a section of a page that is not named.
var bareSection = regexp.MustCompile(`\(\d+\.\d+(\.\d+)?\)|\bsection \d`)

// decision matches the number of a decision of the pipeline engine.
var decision = regexp.MustCompile(`\bR\d{1,2}\b`)

// decisions is the page that has a heading for each of them.
const decisions = "docs/design/deployments.md"

// standard matches what a section may be of: a standard that everyone can read.
var standard = regexp.MustCompile(`RFC|WHATWG|OGC|ECMA`)

// elsewhere matches what is not a page of the repository.
var elsewhere = regexp.MustCompile(`(?:^|[^/])\bconductor\.md|deployment-log\.md|house plan|\b[Ss]eed \d`)

func TestCommentsCiteWhatReadersCanOpen(t *testing.T) {
	defined := headings(readTexts(t)[decisions])
	forEachComment(t, func(f archtest.File, group *ast.CommentGroup, text string) {
		if found := elsewhere.FindString(text); found != "" {
			t.Errorf("%s cites %q, which is not in the repository: explain it in the sentence, or link a page in docs", f.At(group.Pos()), found)
		}
		if found := bareSection.FindString(text); found != "" && !standard.MatchString(fileComments(f)) {
			t.Errorf("%s cites %s of no page: name the page and its heading, or explain it in the sentence", f.At(group.Pos()), found)
		}
		for _, found := range decision.FindAllString(text, -1) {
			if !slices.Contains(defined, found) {
				t.Errorf("%s cites %s, for which %s has no heading", f.At(group.Pos()), found, decisions)
			}
		}
	})
}

// fileComments returns all comments of a file: a section may be of the standard that the file's head names.
func fileComments(f archtest.File) string {
	var all strings.Builder
	for _, group := range f.AST.Comments {
		all.WriteString(group.Text())
	}
	return all.String()
}

// docLink matches a link to a Go symbol in a doc comment: [Name], [Type.Method], [package.Name] or [package.Type.Method].
// Words in capitals alone are arguments of commands.
var docLink = regexp.MustCompile(`\[\*?((?:[a-z]\w*\.)?[A-Z]\w*(?:\.[A-Z]\w*)?)\]`)

func TestLinkedSymbolsExist(t *testing.T) {
	symbols := symbolsByPackage(load(t))
	forEachComment(t, func(f archtest.File, group *ast.CommentGroup, text string) {
		for _, found := range docLink.FindAllStringSubmatch(text, -1) {
			if name := found[1]; name == strings.ToUpper(name) || linked(f, symbols, name) {
				continue
			}
			t.Errorf("%s links to [%s], which does not exist", f.At(group.Pos()), found[1])
		}
	})
}

// linked reports whether a symbol exists in the file's package, or in one that it imports. Symbols of other modules are taken on trust.
func linked(f archtest.File, symbols map[string]map[string]bool, name string) bool {
	pkg, symbol, qualified := strings.Cut(name, ".")
	if !qualified || pkg != strings.ToLower(pkg) {
		return symbols[f.Package][name]
	}
	for _, imported := range f.Imports() {
		if path.Base(imported) == pkg {
			return !strings.HasPrefix(imported, archtest.Module) || symbols[imported][symbol]
		}
	}
	return false
}

// symbolsByPackage lists what each package declares: Name, and Type.Method.
func symbolsByPackage(files []archtest.File) map[string]map[string]bool {
	all := map[string]map[string]bool{}
	for _, f := range files {
		if all[f.Package] == nil {
			all[f.Package] = map[string]bool{}
		}
		for _, d := range f.AST.Decls {
			declared(d, all[f.Package])
		}
	}
	return all
}

func declared(d ast.Decl, into map[string]bool) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		name := d.Name.Name
		if d.Recv != nil {
			name = receiver(d.Recv.List[0].Type) + "." + name
		}
		into[name] = true
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				into[spec.Name.Name] = true
			case *ast.ValueSpec:
				for _, name := range spec.Names {
					into[name.Name] = true
				}
			}
		}
	}
}

// receiver returns the name of a method's type.
func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.IndexListExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}
