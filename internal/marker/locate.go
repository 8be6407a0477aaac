package marker

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	yaml "go.yaml.in/yaml/v4"

	"github.com/waybill-dev/waybill/internal/yamltree"
)

// maxNodes bounds the keys and values of a file with a marker.
const maxNodes = 300_000

var (
	bom = []byte("\ufeff")
	lfs = []byte("version https://git-lfs.github.com/spec/")
)

// located is a parsed file and its marked values, in order.
type located struct {
	file   string
	data   []byte
	roots  []*yaml.Node
	values []*value
}

// value is a marked scalar.
type value struct {
	mark
	node       *yaml.Node
	flow       bool // it is between brackets or braces
	start, end int  // offsets of its bytes, quotes included
	want       string
	text       string // the bytes that replace it
}

// locate finds the marked values of the environment. A file without its markers is not parsed.
func locate(file string, data []byte, of Environment) (*located, error) {
	if len(data) > MaxFile {
		if Mentions(data, of) {
			return nil, &Unusable{file, 0, fmt.Sprintf("the file has more than %d MiB", MaxFile>>20)}
		}
		return &located{file: file, data: data}, nil
	}
	marks, err := findMarks(file, data, of)
	if err != nil || len(marks) == 0 {
		return &located{file: file, data: data}, err
	}
	first := marks[0]
	switch {
	case bytes.HasPrefix(data, lfs):
		return nil, first.unusable(file, "the file is a pointer of Git LFS")
	case hasOddBreaks(data):
		return nil, first.unusable(file, "the file has line ends other than LF and CR LF")
	case yamltree.IsDense(data, maxNodes):
		return nil, first.unusable(file, fmt.Sprintf("the file has more than %d keys and values", maxNodes))
	}
	f := &located{file: file, data: data}
	if f.roots, err = parse(data); err != nil {
		return nil, first.unusable(file, "the file cannot be read as YAML: "+err.Error())
	}
	begun := f.nodesOn(marks)
	for _, m := range marks {
		v, err := f.valueOf(m, begun[m.line])
		if err != nil {
			return nil, m.unusable(file, err.Error())
		}
		f.values = append(f.values, v)
	}
	return f, nil
}

// hasOddBreaks reports whether a file has characters that end a line for some readers of YAML only.
func hasOddBreaks(data []byte) bool {
	for i, c := range data {
		if c == '\r' && (i+1 == len(data) || data[i+1] != '\n') {
			return true
		}
	}
	return bytes.ContainsAny(data, "\u0085\u2028\u2029")
}

// parse returns the documents of a file.
func parse(data []byte) ([]*yaml.Node, error) {
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var roots []*yaml.Node
	for {
		var root yaml.Node
		err := decoder.Decode(&root)
		if errors.Is(err, io.EOF) {
			return roots, nil
		}
		if failed, ok := errors.AsType[*yaml.LoadError](err); ok {
			return nil, fmt.Errorf("line %d: %s", failed.Mark.Line, failed.Message)
		}
		if err != nil {
			return nil, errors.New(strings.TrimPrefix(err.Error(), "yaml: "))
		}
		roots = append(roots, &root)
	}
}

// begun is a node that begins on a marked line.
type begun struct {
	node      *yaml.Node
	key, flow bool
}

// nodesOn returns the nodes that begin on marked lines, in order.
func (f *located) nodesOn(marks []mark) map[int][]begun {
	found := map[int][]begun{}
	for _, m := range marks {
		found[m.line] = []begun{}
	}
	var walk func(n *yaml.Node, key, flow bool)
	walk = func(n *yaml.Node, key, flow bool) {
		if on, ok := found[n.Line-1]; ok && n.Kind != yaml.DocumentNode {
			found[n.Line-1] = append(on, begun{n, key, flow})
		}
		flow = flow || n.Kind != yaml.ScalarNode && n.Style&yaml.FlowStyle != 0
		for i, child := range n.Content {
			walk(child, n.Kind == yaml.MappingNode && i%2 == 0, flow)
		}
	}
	for _, root := range f.roots {
		walk(root, false, false)
	}
	return found
}

// valueOf returns the scalar that a marker is behind: the one value that begins on its line, and that ends before it.
func (f *located) valueOf(m mark, on []begun) (*value, error) {
	v := &value{mark: m}
	for _, b := range on {
		if b.key || b.node.Kind != yaml.ScalarNode && b.node.Kind != yaml.AliasNode {
			continue
		}
		if v.node != nil {
			return nil, errors.New("several values are on the line of the marker")
		}
		v.node, v.flow = b.node, b.flow
	}
	if err := usable(v.node); err != nil {
		return nil, err
	}
	line := m.start
	if line == 0 && bytes.HasPrefix(f.data, bom) {
		line = len(bom)
	}
	if first := f.offset(line, on[0].node.Column); !isStructure(f.data[line:first]) {
		return nil, errors.New("another value ends on the line of the marker")
	}
	v.start = f.skipProperties(f.offset(line, v.node.Column), m.hash)
	var ok bool
	if v.end, ok = f.endOf(v); !ok {
		return nil, errors.New("the marker is not directly after a value that is on one line")
	}
	return v, nil
}

// usable refuses nodes that cannot be replaced on one line; nil: no value begins on the line.
func usable(n *yaml.Node) error {
	switch {
	case n == nil, n.Value == "" && n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) == 0:
		return errors.New("no value begins on the line of the marker: it has to be after a value that is on one line")
	case n.Kind == yaml.AliasNode:
		return errors.New("the marked value is an alias; mark the value that it stands for")
	case n.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0:
		return errors.New("the marked value is a block scalar; write it on one line")
	case n.Style&yaml.TaggedStyle != 0 && strings.HasPrefix(n.Tag, "!!") && n.Tag != "!!str":
		return fmt.Errorf("the marked value has the tag %s; want !!str or none", n.Tag)
	}
	return nil
}

// offset turns a column of the parser, which counts characters from 1, into an offset of the file.
func (f *located) offset(line, column int) int {
	for ; column > 1 && line < len(f.data); column-- {
		_, size := utf8.DecodeRune(f.data[line:])
		line += size
	}
	return line
}

// isStructure reports whether a text has nothing but indentation and indicators of lists, mappings and documents.
func isStructure(text []byte) bool {
	return len(bytes.Trim(text, " \t-?:{}[],")) == 0
}

// skipProperties returns the offset of a scalar after its anchor and its tag.
func (f *located) skipProperties(at, end int) int {
	for at < end && (f.data[at] == '&' || f.data[at] == '!') {
		for at < end && f.data[at] != ' ' && f.data[at] != '\t' {
			at++
		}
		for at < end && (f.data[at] == ' ' || f.data[at] == '\t') {
			at++
		}
	}
	return at
}

// endOf returns the offset of the end of a scalar, and reports whether nothing but blanks, and between brackets a comma,
// is between it and the marker.
func (f *located) endOf(v *value) (int, bool) {
	if v.start >= v.hash {
		return 0, false
	}
	text := f.data[v.start:v.hash]
	size := -1
	switch {
	case v.node.Style&yaml.DoubleQuotedStyle != 0:
		size = quotedSize(text, '"')
	case v.node.Style&yaml.SingleQuotedStyle != 0:
		size = quotedSize(text, '\'')
	case bytes.HasPrefix(text, []byte(v.node.Value)): // a plain scalar on one line is written as it reads
		size = len(v.node.Value)
	}
	if size < 0 {
		return 0, false
	}
	rest := bytes.TrimLeft(text[size:], " \t")
	if v.flow {
		rest = bytes.TrimLeft(bytes.TrimPrefix(rest, []byte(",")), " \t")
	}
	return v.start + size, len(rest) == 0
}

// quotedSize returns the size of the quoted scalar that a text begins with; -1 without one.
func quotedSize(text []byte, quote byte) int {
	if text[0] != quote {
		return -1
	}
	for i := 1; i < len(text); i++ {
		switch {
		case text[i] == '\\' && quote == '"':
			i++
		case text[i] != quote:
		case quote == '\'' && i+1 < len(text) && text[i+1] == quote:
			i++
		default:
			return i + 1
		}
	}
	return -1
}
