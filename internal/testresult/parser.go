package testresult

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// maxDepth bounds the nesting of elements.
const maxDepth = 100

// document takes the parts of a file in order.
type document interface {
	start(e xml.StartElement)
	text(text []byte)
	end(name string)
}

// parser is the part that both formats share.
type parser struct {
	source    *source
	workspace string
	room      *Room
	report    Report
	depth     int // depth of the open element
}

func newParser(r io.Reader, workspace string, room *Room) *parser {
	return &parser{source: newSource(r), workspace: workspace, room: room, report: Report{Results: []Result{}}}
}

// run reads the whole file, whose root must have one of the names.
func (p *parser) run(d document, roots ...string) error {
	decoder := xml.NewDecoder(p.source)
	decoder.CharsetReader = p.source.declared
	empty := true
	for {
		p.source.token = 0
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) && !empty {
			return nil
		}
		if err != nil {
			return p.fault(err)
		}
		switch t := token.(type) {
		case xml.StartElement:
			if err := p.open(t.Name.Local, roots); err != nil {
				return err
			}
			empty = false
			d.start(t)
		case xml.EndElement:
			d.end(t.Name.Local)
			p.depth--
		case xml.CharData:
			d.text(t)
		case xml.Directive:
			if strings.Contains(string(t), "<!ENTITY") {
				return p.errorf("the file defines entities, which is not accepted")
			}
		}
	}
}

// open checks the place of an element.
func (p *parser) open(name string, roots []string) error {
	p.depth++
	switch {
	case p.depth > maxDepth:
		return p.errorf("elements are nested more than %d deep", maxDepth)
	case p.depth == 1 && !slices.Contains(roots, name):
		return p.errorf("the root is <%s>; want <%s>", clip(name, 100), strings.Join(roots, "> or <"))
	}
	return nil
}

func (p *parser) errorf(format string, args ...any) error {
	return &Error{p.source.line, fmt.Sprintf(format, args...)}
}

// fault returns the error of the decoder with its line; one of the reader below it as it is.
func (p *parser) fault(err error) error {
	if syntax, ok := errors.AsType[*xml.SyntaxError](err); ok {
		return p.errorf("%s", clip(syntax.Msg, maxMessage))
	}
	switch {
	case errors.Is(err, io.EOF):
		return p.errorf("the file is empty, or not XML")
	case errors.Is(err, io.ErrUnexpectedEOF):
		return p.errorf("unexpected EOF")
	case errors.Is(err, errSize), errors.Is(err, errToken), errors.Is(err, errAttributes), strings.HasPrefix(err.Error(), "xml: "):
		return p.errorf("%s", clip(strings.TrimPrefix(err.Error(), "xml: "), maxMessage))
	}
	return fmt.Errorf("read test results: %w", err)
}

// attribute returns an attribute of an element by its local name; "" if it has none.
func attribute(e xml.StartElement, name string) string {
	for _, a := range e.Attr {
		if a.Name.Local == name {
			return a.Value
		}
	}
	return ""
}

// clip returns a copy of the text of at most limit bytes, without a part of a character.
func clip(text string, limit int) string {
	if len(text) <= limit {
		return strings.Clone(text)
	}
	return strings.ToValidUTF8(text[:limit], "") + "…"
}

// excerpt is the beginning and the end of a text.
type excerpt struct {
	head, tail []byte
	cut        bool // something between them is missing
}

// excerptSize bounds the bytes that are kept of each text.
const excerptSize = 4 << 10

func (x *excerpt) add(text []byte) {
	if room := excerptSize - len(x.head); room > 0 {
		n := min(room, len(text))
		x.head = append(x.head, text[:n]...)
		text = text[n:]
	}
	if len(text) > excerptSize {
		x.tail, x.cut = append(x.tail[:0], text[len(text)-excerptSize:]...), true
		return
	}
	if extra := len(x.tail) + len(text) - excerptSize; extra > 0 {
		x.tail, x.cut = slices.Delete(x.tail, 0, extra), true
	}
	x.tail = append(x.tail, text...)
}

// excerptOf returns a text, or its beginning and its end if it is long.
func excerptOf(text string) string {
	var x excerpt
	x.add([]byte(text))
	return x.String()
}

func (x *excerpt) String() string {
	gap := ""
	if x.cut {
		gap = "\n…\n"
	}
	return strings.ToValidUTF8(string(x.head)+gap+string(x.tail), "")
}
