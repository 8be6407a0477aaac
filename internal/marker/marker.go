// Package marker reads and replaces marked values in the bytes of YAML files. A marker is a comment after a scalar:
//
//	version: 6.5.4 # {"$promotion": "namespace:pipeline:environment"}
//
// with :tag, :name or :digest after the environment for a part of the revision. Serializers rewrite indentation, quotes
// and line ends of a whole file, so the package parses a file only to find each marked scalar, and replaces the bytes of
// that scalar. It then parses the result and compares both trees: they differ in the marked scalars only. Whenever there
// is a doubt, the file has an *Unusable error and no byte is changed. The package does no I/O.
package marker

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Bounds of files.
const (
	MaxFile = 4 << 20 // bytes
	maxLine = 64 << 10
)

// Environment is one environment of a pipeline, as markers name it.
type Environment struct {
	Namespace, Pipeline, Name string
}

func (e Environment) String() string { return e.Namespace + ":" + e.Pipeline + ":" + e.Name }

// Part is the part of a revision that a marker stands for.
type Part string

// The parts of a revision name:tag@digest.
const (
	Whole  Part = ""
	Tag    Part = "tag"
	Name   Part = "name"
	Digest Part = "digest"
)

// Line is one marked line of a file.
type Line struct {
	File     string
	Number   int // the first is 1
	Part     Part
	Old, New string // the marked value, without quotes
	Was, Is  string // the whole line, without its end
}

// Changed reports whether the line is edited.
func (l Line) Changed() bool { return l.Was != l.Is }

// Unusable reports that a marker of the environment cannot be used, with its place. The whole file stays as it is.
type Unusable struct {
	File string
	Line int // the first is 1; 0: the whole file is meant
	Text string
}

func (u *Unusable) Error() string {
	if u.Line == 0 {
		return u.File + ": " + u.Text
	}
	return u.File + ":" + strconv.Itoa(u.Line) + ": " + u.Text
}

// Keyword is the text that every file with markers contains.
const Keyword = `"$promotion"`

// Mentions reports whether a line of a file seems to have a marker of the environment. It may be wrong about text
// that only looks like one, and never misses a marker that is written without escapes.
func Mentions(data []byte, of Environment) bool {
	key := []byte(`"` + of.String())
	for len(data) > 0 {
		at := bytes.Index(data, key)
		if at < 0 {
			return false
		}
		start := bytes.LastIndexByte(data[:at], '\n') + 1
		line, rest, _ := bytes.Cut(data[start:], []byte("\n"))
		if mentions(line, of) {
			return true
		}
		data = rest
	}
	return false
}

// mentions reports whether a line contains the keyword and the name of the environment as JSON strings.
func mentions(line []byte, of Environment) bool {
	if !bytes.Contains(line, []byte(Keyword)) {
		return false
	}
	return bytes.Contains(line, []byte(`"`+of.String()+`"`)) || bytes.Contains(line, []byte(`"`+of.String()+`:`))
}

// mark is one marker of the environment: a comment on a line.
type mark struct {
	line  int // number, the first is 0
	start int // offset of the line in the file
	hash  int // offset of its #
	part  Part
}

// unusable returns the error about the marker.
func (m mark) unusable(file, text string) *Unusable { return &Unusable{file, m.line + 1, text} }

// findMarks returns the markers of the environment in a file.
func findMarks(file string, data []byte, of Environment) ([]mark, error) {
	var marks []mark
	for n, start := 0, 0; start < len(data); n++ {
		line, _, _ := bytes.Cut(data[start:], []byte("\n"))
		if bytes.Contains(line, []byte("$promotion")) {
			m, err := markOf(line, of)
			m.line, m.start, m.hash = n, start, m.hash+start
			switch {
			case err != nil:
				return nil, m.unusable(file, err.Error())
			case m.hash >= start:
				marks = append(marks, m)
			}
		}
		start += len(line) + 1
	}
	return marks, nil
}

// markOf returns the marker of the environment on a line. Its hash is -1 without one.
func markOf(line []byte, of Environment) (mark, error) {
	none := mark{hash: -1}
	if len(line) > maxLine {
		if mentions(line, of) {
			return none, fmt.Errorf("the line has more than %d bytes", maxLine)
		}
		return none, nil
	}
	first := len(line) - len(bytes.TrimLeft(line, " \t"))
	comment := first < len(line) && line[first] == '#' // it has nothing that a marker could be behind
	for i, c := range line {
		if c != '#' || i > 0 && line[i-1] != ' ' && line[i-1] != '\t' {
			continue
		}
		part, ok, err := readComment(line[i+1:], of)
		switch {
		case !ok:
			continue
		case comment && i != first:
			return none, nil // a commented-out line
		case comment:
			return none, errors.New("the marker is on a line of its own; write it after the value")
		}
		return mark{hash: i, part: part}, err
	}
	if !comment && mentions(line, of) {
		return none, fmt.Errorf(`the marker is not a comment of the form # {"$promotion": %q} after a value`, of)
	}
	return none, nil
}

// readComment reads a comment without its #, and reports whether it is a marker of the environment.
func readComment(comment []byte, of Environment) (part Part, ok bool, err error) {
	comment = bytes.TrimSpace(comment)
	if len(comment) == 0 || comment[0] != '{' {
		return "", false, nil
	}
	var fields map[string]any
	if json.Unmarshal(comment, &fields) != nil {
		return "", false, nil //nolint:nilerr // another comment
	}
	name, _ := fields["$promotion"].(string)
	rest, ok := strings.CutPrefix(name, of.String())
	if !ok || rest != "" && rest[0] != ':' {
		return "", false, nil
	}
	part = Part(strings.TrimPrefix(rest, ":"))
	switch {
	case rest == ":", part != Whole && part != Tag && part != Name && part != Digest:
		return "", true, fmt.Errorf("the marker ends in %q; want :tag, :name, :digest or nothing after the environment", rest)
	}
	return part, true, nil
}
