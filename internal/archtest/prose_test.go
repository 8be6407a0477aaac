package archtest_test

import (
	"go/ast"
	"regexp"
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/internal/archtest"
)

func readTexts(t *testing.T) map[string]string {
	t.Helper()
	texts, err := archtest.Texts("../..")
	if err != nil {
		t.Fatal(err)
	}
	if len(texts) < 100 {
		t.Fatalf("read %d texts: the rules would hold for nothing", len(texts))
	}
	return texts
}

// phrases are turns that make a text hard to read, how often Go files and pages still have them, and what to write in their place.
// A number can only fall.
var phrases = []struct {
	words   string
	ceiling int
	write   string
}{
	{`\b(somebody|nobody|everybody|whoever|whom)\b`, 30, "name the actor: the caller, a waiter, no instance, the conductor"},
	{`\b(is|are) no [a-z]+`, 20, "is not a valid X; X not found"},
	{`\b(tell|tells|told)\b`, 10, "report, return, print"},
	{`\b(stand|stands|lie|lies)\b`, 10, "be, be stored"},
	{`\b(go|goes|going) on\b`, 10, "resume, continue"},
	{`\b(anew|for ever|is no more|mend|mends|mended)\b`, 10, "again, forever, was removed, fix"},
	{`\b(of them|the others)\b`, 75, "name the thing"},
}

// isComments is how many comments of functions begin with "X is" or "X are", which says neither what X does nor what it returns.
const isComments = 58

func TestTextsAreInPlainEnglish(t *testing.T) {
	texts := readTexts(t)
	for _, p := range phrases {
		words, found, example := regexp.MustCompile(`(?i)`+p.words), 0, ""
		for name, text := range texts {
			if strings.HasPrefix(name, "internal/archtest/") {
				continue
			}
			if n := len(words.FindAllString(text, -1)); n > 0 {
				found, example = found+n, name
			}
		}
		if found > p.ceiling {
			t.Errorf("%s occurs %d times, %d are allowed (one is in %s); write: %s", p.words, found, p.ceiling, example, p.write)
		}
	}
}

func TestCommentsOfFunctionsBeginWithAVerb(t *testing.T) {
	found := 0
	for _, f := range load(t) {
		for _, d := range f.AST.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Doc == nil {
				continue
			}
			if words := strings.Fields(fn.Doc.Text()); len(words) > 1 && words[0] == fn.Name.Name && (words[1] == "is" || words[1] == "are") {
				found++
			}
		}
	}
	if found > isComments {
		t.Errorf(`%d comments of functions begin with "X is" or "X are", %d are allowed; write what X returns or does`, found, isComments)
	}
}
