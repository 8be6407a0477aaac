package marker

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
)

// Edit returns the file with every marked value of the environment replaced by the revision or a part of it, and all its
// marked lines in order, those that already have the value too. A file without such a marker is returned as it is, with
// no lines. An error about a marker is *Unusable.
func Edit(file string, data []byte, of Environment, revision string) ([]byte, []Line, error) {
	if err := CheckRevision(revision); err != nil {
		return nil, nil, err
	}
	f, err := locate(file, data, of)
	if err != nil {
		return nil, nil, err
	}
	if len(f.values) == 0 {
		return data, nil, nil
	}
	changed := map[*value]bool{}
	for _, v := range f.values {
		want, err := partOf(revision, v.part)
		if err != nil {
			return nil, nil, v.unusable(file, err.Error())
		}
		if v.want = want; v.node.Value == want {
			continue
		}
		if v.text, err = v.encode(want); err != nil {
			return nil, nil, v.unusable(file, err.Error())
		}
		changed[v] = true
	}
	edited := data
	if len(changed) > 0 {
		edited = f.replace(changed)
		if err := f.verify(edited); err != nil {
			return nil, nil, err
		}
	}
	return edited, f.lines(edited), nil
}

// replace returns the file with the bytes of some values replaced.
func (f *located) replace(changed map[*value]bool) []byte {
	var edited []byte
	end := 0
	for _, v := range f.values {
		if changed[v] {
			edited = append(append(edited, f.data[end:v.start]...), v.text...)
			end = v.end
		}
	}
	return append(edited, f.data[end:]...)
}

// Values returns the marked lines of the environment as they are: New equals Old.
func Values(file string, data []byte, of Environment) ([]Line, error) {
	f, err := locate(file, data, of)
	if err != nil || len(f.values) == 0 {
		return nil, err
	}
	for _, v := range f.values {
		v.want = v.node.Value
	}
	return f.lines(data), nil
}

// Agreed returns the revision that marked lines hold: the value of those of the whole revision, else that of its tags, else of its digests.
// It returns an error for values that differ, and for lines without any of these.
func Agreed(lines []Line) (string, error) {
	for _, part := range []Part{Whole, Tag, Digest} {
		var first *Line
		for i, l := range lines {
			switch {
			case l.Part != part:
			case first == nil:
				first = &lines[i]
			case l.New != first.New:
				return "", fmt.Errorf("the values at %s:%d and %s:%d differ: %.100q, %.100q", first.File, first.Number, l.File,
					l.Number, first.New, l.New)
			}
		}
		if first != nil {
			return first.New, nil
		}
	}
	return "", errors.New("no value is marked")
}

// lines returns the marked lines, as they were and as they are in the edited file, which has as many.
func (f *located) lines(edited []byte) []Line {
	lines := make([]Line, len(f.values))
	was, is := newCutter(f.data), newCutter(edited)
	for i, v := range f.values {
		lines[i] = Line{
			File: f.file, Number: v.line + 1, Part: v.part, Old: v.node.Value, New: v.want,
			Was: was.line(v.line), Is: is.line(v.line),
		}
	}
	return lines
}

// cutter returns lines of a text in ascending order.
type cutter struct {
	rest []byte
	next int
}

func newCutter(data []byte) *cutter { return &cutter{rest: bytes.TrimPrefix(data, bom)} }

func (c *cutter) line(n int) string {
	var line []byte
	for ; c.next <= n; c.next++ {
		line, c.rest, _ = bytes.Cut(c.rest, []byte("\n"))
	}
	return strings.TrimSuffix(string(line), "\r")
}
