package build

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/waybill-dev/waybill/internal/fault"
)

// Replacement is a file of the workspace in which a step has variables replaced.
type Replacement struct {
	Path      string `json:"path"`      // slash-separated
	Variables int    `json:"variables"` // how many places are replaced
}

// SubstituteFile replaces the variables in the text of a file of the workspace, in count places, and changes nothing else. The problems
// name the place in the file. What a step with passwords returns must be neither stored nor shown.
func (s PlanStep) SubstituteFile(name, text string) (replaced string, count int, problems fault.Problems) {
	f := s.substituteFile(name, text)
	return f.out.String(), f.count, f.problems
}

// Replace records that the step has the variables of a file replaced. The values of these variables are a part of the
// step's identity.
func (p *Plan) Replace(step int, name, text string) fault.Problems {
	s := p.Step(step)
	f := s.substituteFile(name, text)
	if s.clear != nil {
		clear := s.clear.substituteFile(name, text)
		if len(clear.problems) > 0 {
			return maskProblems(clear.problems, p.secrets)
		}
		s.password = s.password || clear.out.String() != f.out.String()
	}
	if f.count > 0 {
		s.Replaces = append(s.Replaces, Replacement{Path: name, Variables: f.count})
		values, _ := json.Marshal(f.values) // strings always marshal
		sum := sha256.Sum256(append([]byte(s.Digest), values...))
		s.Digest = hex.EncodeToString(sum[:])
	}
	return f.problems
}

// fileSubstitution is the replacing of variables in one file.
type fileSubstitution struct {
	substitution
	name, text string
	strict     bool
	out        strings.Builder
	count      int
	values     map[string]string // values of the variables that were replaced
	problems   fault.Problems

	at, lines, column int // offset of the last problem; the lines before its own, and the characters before it in that
}

func (s PlanStep) substituteFile(name, text string) *fileSubstitution {
	f := &fileSubstitution{substitution: substitution{variables: s.variables}, name: name, text: text, strict: s.strict,
		values: map[string]string{}}
	rest := text
	for {
		before, inside, after, found := cutVariable(rest)
		f.out.WriteString(before)
		if !found {
			return f
		}
		offset := len(text) - len(rest) + len(before)
		if !f.replace(inside, offset) {
			f.out.WriteString(text[offset:])
			return f
		}
		rest = after
	}
}

// replace replaces the variable at an offset of the text. It returns false after an error.
func (f *fileSubstitution) replace(inside string, offset int) bool {
	missing := len(f.undefined)
	value, err := f.value(inside, nil)
	if f.grown += len(value) + costOfOne; err == nil && f.grown > maxExpansion {
		err = fmt.Errorf("its variables grow to more than %d bytes", maxExpansion)
	}
	if err != nil {
		f.add(offset, "variable-loop", err.Error())
		return false
	}
	f.out.WriteString(value)
	if written := "${" + inside + "}"; value != written {
		f.count++
		f.values[inside] = value
	}
	for _, name := range f.undefined[missing:] {
		if f.strict && variableName.MatchString(name) {
			f.add(offset, "variable-undefined", fmt.Sprintf("the variable %q has no value; ${%%%s%%} is the text ${%s}", name, name, name))
		}
	}
	return true
}

// add reports a problem at an offset of the text, which is not before that of the last one.
func (f *fileSubstitution) add(offset int, code, text string) {
	passed := f.text[f.at:offset]
	f.at = offset
	if i := strings.LastIndexByte(passed, '\n'); i >= 0 {
		f.lines, f.column = f.lines+strings.Count(passed, "\n"), 0
		passed = passed[i+1:]
	}
	f.column += utf8.RuneCountInString(passed)
	f.problems.Add(fault.Problem{Position: fault.Position{File: f.name, Line: f.lines + 1, Column: f.column + 1}, Code: code, Text: text})
}
