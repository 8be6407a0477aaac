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
	Warning    bool   `json:"warning,omitempty"`    // true: told, never blocking
}

// String is FILE:LINE:COLUMN: [scope: ]text.
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
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

// Sort orders by file, line, column, then text.
func (ps Problems) Sort() {
	slices.SortStableFunc(ps, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line),
			cmp.Compare(a.Column, b.Column), cmp.Compare(a.Text, b.Text))
	})
}

// Err is the problems that block, sorted, or nil when there are only warnings.
func (ps Problems) Err() error {
	var blocking Problems
	for _, p := range ps {
		if !p.Warning {
			blocking = append(blocking, p)
		}
	}
	if len(blocking) == 0 {
		return nil
	}
	blocking.Sort()
	return blocking
}

// Warnings is the problems that do not block, sorted.
func (ps Problems) Warnings() Problems {
	var told Problems
	for _, p := range ps {
		if p.Warning {
			told = append(told, p)
		}
	}
	told.Sort()
	return told
}

// Nearest is the known name closest to name, at an edit distance of at most 2; "" when none is.
func Nearest(name string, known []string) string {
	best, found := 3, ""
	for _, k := range known {
		if d := distance(name, k, best); d < best && d < len(name) {
			best, found = d, k
		}
	}
	return found
}

// distance is the Levenshtein distance of a and b, or limit when it is not below.
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
