package server

import (
	"errors"
	"strconv"
	"strings"

	"github.com/waybill-dev/waybill/internal/document"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/yamltree"
)

// sourced is an error about a file that a client sent.
type sourced struct {
	error
	source []byte
}

func (s sourced) Unwrap() error { return s.error }

// inSource attaches the text that the problems in err are about, so that they get JSON pointers.
func inSource(err error, source []byte) error {
	if err == nil {
		return nil
	}
	return sourced{err, source}
}

// longestPointer is the size in bytes above which a pointer is left out.
const longestPointer = 1000

// pointersOf returns the JSON pointers (RFC 6901) of the problems' positions in the file that err is about.
func pointersOf(err error, problems fault.Problems) map[fault.Position]string {
	about, ok := errors.AsType[sourced](err)
	if !ok {
		return nil
	}
	root, _ := yamltree.Parse("", about.source, yamltree.PipelineFile)
	if root == nil { // the source is not a document
		return nil
	}
	wanted := map[fault.Position]bool{}
	for _, problem := range problems {
		wanted[fault.Position{Line: problem.Line, Column: problem.Column}] = true
	}
	p := pointing{wanted: wanted, found: map[fault.Position]string{}}
	p.node(root)
	return p.found
}

// pointing walks a document and keeps the pointers of the wanted positions.
type pointing struct {
	wanted map[fault.Position]bool
	path   []string // path from the root to the current node
	found  map[fault.Position]string
}

// note keeps the pointer of the first node at a position. If several nodes begin there it is the outermost, where the
// missing key of a mapping is reported.
func (p *pointing) note(at fault.Position) {
	if _, known := p.found[at]; known || !p.wanted[at] {
		return
	}
	size := 0
	for _, part := range p.path {
		size += 1 + len(part)
	}
	if size > longestPointer {
		return
	}
	var b strings.Builder
	escape := strings.NewReplacer("~", "~0", "/", "~1")
	for _, part := range p.path {
		b.WriteString("/" + escape.Replace(part))
	}
	p.found[at] = b.String()
}

func (p *pointing) node(n *document.Node) {
	p.note(n.At)
	for i, item := range n.Items {
		p.below(strconv.Itoa(i), item.At, item)
	}
	for _, field := range n.Fields {
		p.below(field.Key, field.At, field.Value)
	}
}

// below walks the value of a key that is written at a position.
func (p *pointing) below(key string, at fault.Position, n *document.Node) {
	p.path = append(p.path, key)
	p.note(at)
	p.node(n)
	p.path = p.path[:len(p.path)-1]
}
