package archtest_test

import (
	"go/ast"
	"go/token"
	"regexp"
	"testing"

	"github.com/waybill-dev/waybill/internal/archtest"
)

// turns are habits that make comments of Go files hard to read, how often comments still have them, and what to write instead. A
// number can only fall.
var turns = []struct {
	words   string
	ceiling int
	write   string
}{
	{`^\w+ (is|are) (how|what|where|who|when|why)\b`, 40, "the noun: a limit, a path, an interval; or what a value holds or configures"},
	{`\b[Ww]hat\b`, 1430, "the noun: waiting steps, consequences of failures"},
	{`\b[Ss](ays?|aid)\b`, 110, "returns, reports, sets, names, contains"},
	{`\b([Aa]sk(s|ed|ing)?|[Qq]uestions?)\b`, 335, "request, query, poll, call"},
	{`\b[Bb]ehind\b`, 150, "after, below, by way of"},
	{`\b[Ll]ook(s|ed|ing)? for\b`, 5, "search for, find; a poll, a pass"},
	{`\b[Aa]nother one\b`, 5, "name the thing: another worker, one more attempt"},
	{`\b[Bb]y (itself|themselves)\b`, 10, "automatically, alone"},
	{`\b([Cc]omes?|[Cc]ame|[Cc]oming) to\b`, 40, "amounts to, reaches"},
	{`\b[Uu]nder way\b`, 5, "in progress, running"},
	{`\b[Mm]eanwhile\b`, 5, "until then, at the same time"},
	{`\b[Ii]n place of\b`, 5, "instead of"},
}

// fragment matches a comment after code that does not stand alone.
var fragment = regexp.MustCompile(`^(of|that|which|for|from|until|when)\b`)

// fragments is the number of comments after code that begin with such a word.
const fragments = 65

func TestCommentsUseTheWordsOfTheField(t *testing.T) {
	found, example := make([]int, len(turns)), make([]string, len(turns))
	matches := make([]*regexp.Regexp, len(turns))
	for i, turn := range turns {
		matches[i] = regexp.MustCompile(turn.words)
	}
	forEachComment(t, func(f archtest.File, group *ast.CommentGroup, text string) {
		for i, match := range matches {
			if n := len(match.FindAllString(text, -1)); n > 0 {
				found[i], example[i] = found[i]+n, f.At(group.Pos())
			}
		}
	})
	for i, turn := range turns {
		if found[i] > turn.ceiling {
			t.Errorf("comments have %s %d times, %d are allowed (one is in %s); write: %s", turn.words, found[i], turn.ceiling,
				example[i], turn.write)
		}
	}
}

func TestCommentsAfterCodeStandAlone(t *testing.T) {
	found, example := 0, ""
	for _, f := range load(t) {
		code := linesOfCode(f)
		for _, group := range f.AST.Comments {
			if code[f.Set.Position(group.Pos()).Line] && fragment.MatchString(group.Text()) {
				found, example = found+1, f.At(group.Pos())
			}
		}
	}
	if found > fragments {
		t.Errorf(`%d comments after code begin with of, that, which, for, from, until or when, %d are allowed (one is in %s); `+
			`write a phrase that stands alone: "page number", "time of the next poll"`, found, fragments, example)
	}
}

// linesOfCode returns the lines of a file where something other than a comment begins or ends.
func linesOfCode(f archtest.File) map[int]bool {
	lines := map[int]bool{}
	note := func(pos token.Pos) { lines[f.Set.Position(pos).Line] = true }
	ast.Inspect(f.AST, func(n ast.Node) bool {
		switch n.(type) {
		case nil, *ast.File:
			return n != nil
		case *ast.Comment, *ast.CommentGroup:
			return false
		}
		note(n.Pos())
		note(n.End() - 1)
		return true
	})
	return lines
}
