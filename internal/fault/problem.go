package fault

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Position is a place in a file that a person wrote. Line and Column count from 1; 0 is unknown.
type Position struct {
	File   string `json:"file,omitempty"`
	Line   int    `json:"line,omitempty"`
	Column int    `json:"column,omitempty"`
}

// String returns FILE:LINE:COLUMN, or FILE without a line.
func (p Position) String() string {
	if p.Line == 0 {
		return p.File
	}
	return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column)
}

// Problem is one fault, or one warning, in a file.
type Problem struct {
	Position
	Code       string `json:"code"`                 // a word for programs, such as "field-missing"
	Scope      string `json:"scope,omitempty"`      // where in the document, such as "test/vet/container"
	Text       string `json:"text"`                 // what is wrong, for people
	Suggestion string `json:"suggestion,omitempty"` // the nearest known name, or what to write instead
	Warning    bool   `json:"warning,omitempty"`    // true: reported, never blocking
	More       int    `json:"more,omitempty"`       // in the last problem: the number of further problems, which are only counted
}

// String returns FILE:LINE:COLUMN: [scope: ]text.
func (p Problem) String() string {
	var b strings.Builder
	if where := p.Position.String(); where != "" {
		b.WriteString(where + ": ")
	}
	if p.Warning {
		b.WriteString("warning: ")
	}
	if p.Scope != "" {
		b.WriteString(p.Scope + ": ")
	}
	b.WriteString(p.Text)
	if p.Suggestion != "" {
		fmt.Fprintf(&b, " (did you mean %q?)", p.Suggestion)
	}
	return b.String()
}

// Problems is every fault of a file at once. As an error it prints one line each.
type Problems []Problem

func (ps Problems) Error() string {
	few := ps.Few()
	lines := make([]string, len(few))
	for i, p := range few {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

// Bounds of a list of problems, so that a hostile file causes neither high memory use nor a long answer.
const (
	mostProblems = 100  // listed problems of each kind (blocking or warning)
	longestText  = 1000 // bytes of a text, a scope or a suggestion
)

// Add appends problems. After the first hundred of a kind it only counts them, in a last problem "and N more".
func (ps *Problems) Add(more ...Problem) {
	for _, p := range more {
		named, counter := ps.named(p.Warning)
		switch {
		case counter >= 0:
			(*ps)[counter] = further(p, (*ps)[counter].More+max(1, p.More))
		case p.More > 0 || named >= mostProblems:
			*ps = append(*ps, further(p, max(1, p.More)))
		default:
			p.Text, p.Scope, p.Suggestion = shorten(p.Text), shorten(p.Scope), shorten(p.Suggestion)
			*ps = append(*ps, p)
		}
	}
}

// Count returns the number of problems, with those that are only counted.
func (ps Problems) Count() (n int) {
	for _, p := range ps {
		n += max(1, p.More)
	}
	return n
}

// named returns the number of listed problems of a kind, and the index of the problem that counts further ones; -1: none.
func (ps *Problems) named(warning bool) (n, counter int) {
	for i := len(*ps) - 1; i >= 0; i-- {
		switch p := (*ps)[i]; {
		case p.Warning != warning:
		case p.More > 0:
			return n, i
		default:
			n++
		}
	}
	return n, -1
}

// Few returns the problems as Add keeps them: at most a hundred of each kind, and the count of the rest.
func (ps Problems) Few() Problems {
	var few Problems
	few.Add(ps...)
	return few
}

// further returns the problem that counts n more problems of p's kind.
func further(p Problem, n int) Problem {
	return Problem{Position: Position{File: p.File}, Code: "more", Text: fmt.Sprintf("and %d more", n), Warning: p.Warning, More: n}
}

// shorten returns a text of at most longestText bytes.
func shorten(text string) string {
	if len(text) <= longestText {
		return text
	}
	return strings.ToValidUTF8(text[:longestText], "") + "…"
}

// Sort orders the problems by file, line, column, then text. Problems that count further ones come last.
func (ps Problems) Sort() {
	slices.SortStableFunc(ps, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.More, b.More), cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line),
			cmp.Compare(a.Column, b.Column), cmp.Compare(a.Text, b.Text))
	})
}

// Err returns the problems that block, sorted, or nil if all are warnings.
func (ps Problems) Err() error {
	blocking := ps.only(false)
	if len(blocking) == 0 {
		return nil
	}
	return blocking
}

// Warnings returns the problems that do not block, sorted.
func (ps Problems) Warnings() Problems {
	return ps.only(true)
}

// only returns the problems of one kind, sorted, and at most as many as Add names.
func (ps Problems) only(warning bool) Problems {
	var all Problems
	for _, p := range ps {
		if p.Warning == warning {
			all = append(all, p)
		}
	}
	all.Sort()
	return all.Few()
}

// Nearest returns the known name with the smallest edit distance to name, if that is at most 2; else "".
func Nearest(name string, known []string) string {
	best, found := 3, ""
	for _, k := range known {
		if d := distance(name, k, best); d < best && d < len(name) {
			best, found = d, k
		}
	}
	return found
}

// distance returns the Levenshtein distance of a and b, at most limit.
func distance(a, b string, limit int) int {
	if abs(len(a)-len(b)) >= limit {
		return limit
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return min(row[len(b)], limit)
}

func abs(n int) int {
	if n < 0 {
		return -n
	}
	return n
}
