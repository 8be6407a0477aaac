// Package yamltree reads a YAML file into a document whose every node knows its
// line and column. Aliases and merge keys are expanded, scalars get their kind
// by document.Resolve, and what would make a file ambiguous or a bomb is a problem.
package yamltree

import (
	"bytes"
	"errors"
	"io"
	"unicode/utf8"

	yaml "go.yaml.in/yaml/v4"

	"github.com/waybill-dev/waybill/internal/document"
	"github.com/waybill-dev/waybill/internal/fault"
)

// Limits of a document; beyond them it is refused, however it is written.
const (
	maxDepth = 100     // levels of lists and mappings
	maxNodes = 100_000 // keys and values after aliases
	maxKey   = 1024    // bytes of a key, which is in the text of every problem below it
)

// Sizes of files in bytes, for Parse.
const (
	BuildFile    = 1 << 20 // .wharf-ci.yml
	PipelineFile = 8 << 20 // waybill.yaml
)

// Parse reads one document of at most limit bytes whose root is a mapping. The
// name of the file goes into every position as it is given.
//
// The node is nil when the file cannot be read as YAML at all. With other
// problems it is what remains: of a repeated key the first value.
func Parse(file string, data []byte, limit int) (*document.Node, fault.Problems) {
	roots, problems := decodeAll(file, data, limit, 1)
	if problems != nil {
		return nil, problems
	}
	if len(roots) == 0 {
		return nil, problemAt(fault.Position{File: file, Line: 1, Column: 1}, "empty-document", "the file is empty")
	}
	nodes, problems := convert(file, limit, roots...)
	return nodes[0], problems
}

// ParseAll reads every document of a file of at most limit bytes; the root of each is a mapping.
// Empty documents are left out. Without problems the nodes are sound.
func ParseAll(file string, data []byte, limit int) ([]*document.Node, fault.Problems) {
	roots, problems := decodeAll(file, data, limit, len(data))
	if problems != nil {
		return nil, problems
	}
	return convert(file, limit, roots...)
}

// decodeAll runs the YAML parser over a file and returns the documents that are not empty. A
// document beyond the most that are allowed is a problem.
func decodeAll(file string, data []byte, limit, most int) ([]*yaml.Node, fault.Problems) {
	if len(data) > limit {
		return nil, problemAt(fault.Position{File: file, Line: 1, Column: 1}, "too-large",
			"the file has more than %d bytes", limit)
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	if problems := checkBytes(file, data); problems != nil {
		return nil, problems
	}
	if problems := checkNodes(file, data); problems != nil {
		return nil, problems
	}
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var roots []*yaml.Node
	for n := 1; ; n++ {
		var root yaml.Node
		if err := decoder.Decode(&root); errors.Is(err, io.EOF) {
			return roots, nil
		} else if err != nil {
			return nil, syntaxProblem(file, data, err)
		}
		if n > most {
			at := fault.Position{File: file, Line: root.Line, Column: root.Column}
			return nil, problemAt(at, "many-documents", "a second document starts here; the file may have one only")
		}
		if content := root.Content[0]; content.Kind != yaml.ScalarNode || content.ShortTag() != "!!null" {
			roots = append(roots, content)
		}
	}
}

// checkBytes reports bytes that are not text: invalid UTF-8 and control characters.
func checkBytes(file string, data []byte) fault.Problems {
	at := fault.Position{File: file, Line: 1, Column: 1}
	for i := 0; i < len(data); {
		r, size := utf8.DecodeRune(data[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			return problemAt(at, "not-utf8", "byte 0x%02x is not UTF-8", data[i])
		case r == '\n':
			at.Line, at.Column = at.Line+1, 0
		case r < 0x20 && r != '\t' && r != '\r', r == 0x7f:
			return problemAt(at, "yaml-syntax", "the control character 0x%02x is not allowed", r)
		}
		at.Column++
		i += size
	}
	return nil
}

// checkNodes refuses a file that may hold many more than maxNodes keys and values, before the
// parser makes a node of each: every key, value and item is introduced by an indicator. Text that
// merely looks like one counts too outside of block scalars, so that a file has to be megabytes of
// prose, and nothing else, to be refused for it.
func checkNodes(file string, data []byte) fault.Problems {
	_, end := countNodes(data, maxNodes)
	if end == len(data) {
		return nil
	}
	start := bytes.LastIndexByte(data[:end], '\n') + 1
	at := fault.Position{File: file, Line: bytes.Count(data[:start], []byte("\n")) + 1, Column: column(data[start:], end-start)}
	return problemAt(at, "too-large", "there are more than %d keys and values", maxNodes)
}

// IsDense reports whether a file may hold more than most keys and values, before the parser makes a node of each.
func IsDense(data []byte, most int) bool {
	_, end := countNodes(data, most)
	return end < len(data)
}

// countNodes counts the keys and values that indicators introduce. It ends at the indicator with which there are more than most.
func countNodes(data []byte, most int) (count, end int) {
	scripts, pair := newBlocks(data), false
	for start := 0; start < len(data); start = end {
		line, _, _ := bytes.Cut(data[start:], []byte("\n"))
		end = min(start+len(line)+1, len(data))
		if scripts.isText(line) {
			continue
		}
		for i := start; i < end; i++ {
			if !isIndicator(data, i) {
				continue
			}
			if count += nodesOf(data[i], pair); count > most {
				return count, i
			}
			pair = data[i] == ':'
		}
	}
	return count, len(data)
}

// nodesOf returns how many keys and values an indicator introduces at most. pair reports that the one before it was a
// colon, which has counted the key and the value in front of a comma; without a colon that may be a key with no
// value.
func nodesOf(indicator byte, pair bool) int {
	switch {
	case indicator == ',' && pair:
		return 0
	case indicator == ',', indicator == ':', indicator == '?':
		return 2
	}
	return 1
}

// isIndicator reports whether the byte at i may introduce a key, a value or an item.
func isIndicator(data []byte, i int) bool {
	switch data[i] {
	case ',':
		return true
	case '[', '{': // not after what is of a scalar, as in ${x}
		return i == 0 || bytes.IndexByte([]byte(" \t\r\n,[]{}:-?\"'"), data[i-1]) >= 0
	case '-', '?':
		return i+1 == len(data) || bytes.IndexByte([]byte(" \t\r\n"), data[i+1]) >= 0
	case ':':
		return i+1 == len(data) || bytes.IndexByte([]byte(" \t\r\n,[]{}"), data[i+1]) >= 0 ||
			i > 0 && bytes.IndexByte([]byte("\"'}]"), data[i-1]) >= 0
	}
	return false
}

// column turns an offset in bytes into a column, which counts characters from 1.
func column(line []byte, offset int) int { return utf8.RuneCount(line[:offset]) + 1 }
