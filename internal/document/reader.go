package document

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/waybill-dev/waybill/internal/fault"
)

// Place is the place of a value in a document: its path in the format's own
// spelling, and the position at which a key that it lacks is reported.
type Place struct {
	Path string
	At   fault.Position
}

// Reader checks a document against field tables and collects every fault. A format words the faults itself; fields
// that it leaves nil get plain words.
type Reader struct {
	Problems fault.Problems

	Separator string // between the parts of a path; "" is "."
	AnyCase   bool   // words that a key accepts may be written in any case
	// Unknown, Missing and Unfit word a fault at path. Position, Suggestion and Code may be
	// overridden.
	Unknown func(p fault.Problem, path, key string) fault.Problem
	Missing func(p fault.Problem, path, key string) fault.Problem
	Unfit   func(p fault.Problem, path string, want Shape, found *Node) fault.Problem
	// Accept lets a value pass that does not have the shape, such as a variable that is replaced
	// later.
	Accept func(n *Node, want Shape) bool
}

// Join returns the path of a key inside path.
func (r *Reader) Join(path, key string) string {
	if path == "" {
		return key
	}
	if r.Separator == "" {
		return path + "." + key
	}
	return path + r.Separator + key
}

// Index returns the path of an item of the list at path.
func Index(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }

// Add reports a fault at n, and where an alias brought n in.
func (r *Reader) Add(n *Node, code, scope, format string, args ...any) {
	r.Problems.Add(fault.Problem{Position: n.At, Code: code, Scope: scope,
		Text: fmt.Sprintf(format, args...) + n.used()})
}

// used describes where the value is used when an alias or a merge key brought it in.
func (n *Node) used() string {
	if n.Via.Line == 0 {
		return ""
	}
	return fmt.Sprintf(" (used at %d:%d)", n.Via.Line, n.Via.Column)
}

// Check reports the faults of the mapping n: keys that the table does not have, keys that it lacks, values of another
// shape, all the way down. It returns false when n is not a mapping.
func (r *Reader) Check(n *Node, place Place, keys []Key) bool {
	if n.Kind != Map {
		r.unfit(n, place.Path, Object)
		return false
	}
	for i := range n.Fields {
		f := &n.Fields[i]
		if key := Find(keys, f.Key); key == nil {
			r.unknown(f, place.Path, keys)
		} else {
			r.CheckField(f, place.Path, key)
		}
	}
	for i := range keys {
		if key := &keys[i]; key.Required && n.Get(key.Name) == nil {
			before := len(r.Problems)
			r.missing(n, place, key.Name)
			r.recode(before, key)
		}
	}
	return true
}

// CheckField reports the faults of a field of the mapping at path, whose line of the table is key.
func (r *Reader) CheckField(f *Field, path string, key *Key) {
	switch {
	case key.Later:
		r.Problems.Add(fault.Problem{Position: f.At, Code: "not-supported", Scope: r.Join(path, f.Key),
			Text: fmt.Sprintf("%q is not yet supported", f.Key) + f.Value.used()})
	case key.Keys == nil && key.Values == nil && key.Shape.Fits(f.Value) && !(key.Required && f.Value.empty()): // as most are
	default:
		before := len(r.Problems)
		r.value(f, r.Join(path, f.Key), key)
		r.recode(before, key)
	}
}

// recode gives the problems since before the key's own code, if it has one.
func (r *Reader) recode(before int, key *Key) {
	if key.Code == "" {
		return
	}
	for i := before; i < len(r.Problems); i++ {
		r.Problems[i].Code = key.Code
	}
}

// value checks one value against its line of the table.
func (r *Reader) value(f *Field, path string, key *Key) {
	n := f.Value
	accepted := r.Accept != nil && r.Accept(n, key.Shape)
	if !accepted && !key.Shape.Fits(n) {
		r.misfit(n, path, key.Shape)
		if n.Kind != List || key.Shape&(Objects|Entries) == 0 {
			return // else its sound items may have faults of their own
		}
	}
	if key.Required && n.empty() {
		r.Add(n, "field-empty", path, "%q must not be empty", key.Name)
	}
	if accepted {
		return
	}
	if key.Values != nil && n.Kind != List && n.Kind != Map {
		r.Choice(n, path, key.Values)
	}
	if key.Keys != nil {
		r.nested(f, path, key.Keys)
	}
}

// nested checks a field's mapping, or the mappings among its items, against the table of their keys.
func (r *Reader) nested(f *Field, path string, keys []Key) {
	if f.Value.Kind == Map {
		r.Check(f.Value, Place{Path: path, At: f.At}, keys)
	}
	for i, item := range f.Value.Items {
		if item.Kind == Map {
			r.Check(item, Place{Path: Index(path, i), At: item.At}, keys)
		}
	}
}

// empty reports whether n has no content.
func (n *Node) empty() bool {
	switch n.Kind {
	case List:
		return len(n.Items) == 0
	case Map:
		return len(n.Fields) == 0
	}
	return strings.TrimSpace(n.Text) == ""
}

// misfit reports the innermost value that has the wrong shape: the item, when it is a list's only
// fault.
func (r *Reader) misfit(n *Node, path string, want Shape) {
	element := want.element()
	switch {
	case n.Kind == List && want&(Texts|Scalars|Objects|Entries) == want && element != 0:
		for i, item := range n.Items {
			if !element.Fits(item) && (r.Accept == nil || !r.Accept(item, element)) {
				r.unfit(item, Index(path, i), element)
			}
		}
	case n.Kind == Map && want&(TextMap|ScalarMap) == want && element != 0:
		for _, f := range n.Fields {
			if !element.Fits(f.Value) && (r.Accept == nil || !r.Accept(f.Value, element)) {
				r.unfit(f.Value, r.Join(path, f.Key), element)
			}
		}
	default:
		r.unfit(n, path, want)
	}
}

func (r *Reader) unknown(f *Field, path string, keys []Key) {
	p := fault.Problem{Position: f.At, Code: "field-unknown", Scope: path,
		Text:       fmt.Sprintf("unknown key %q", f.Key) + f.Value.used(),
		Suggestion: fault.Nearest(f.Key, Names(keys))}
	if r.Unknown != nil {
		p = r.Unknown(p, path, f.Key)
	}
	r.Problems.Add(p)
}

func (r *Reader) missing(n *Node, place Place, key string) {
	p := fault.Problem{Position: place.At, Code: "field-missing", Scope: place.Path,
		Text: fmt.Sprintf("the field %q is missing", key) + n.used()}
	if r.Missing != nil {
		p = r.Missing(p, place.Path, key)
	}
	r.Problems.Add(p)
}

func (r *Reader) unfit(n *Node, path string, want Shape) {
	p := fault.Problem{Position: n.At, Code: "wrong-kind", Scope: path,
		Text: fmt.Sprintf("want %s, found %s", want, n.Kind) + formHint(n, want) + n.used()}
	if r.Unfit != nil {
		p = r.Unfit(p, path, want, n)
	}
	r.Problems.Add(p)
}

// formHint returns how to write a scalar that YAML takes for something else: a string in quotes, a
// duration with its unit.
func formHint(n *Node, want Shape) string {
	switch {
	case want&Duration != 0 && n.Kind == Int:
		return fmt.Sprintf("; give it a unit, such as %ss", n.Text)
	case want&Text != 0 && n.Kind == Map && len(n.Fields) == 1:
		return `; a string with ": " in it needs quotes`
	case want&Text == 0 || n.Quoted || n.Kind == Null || n.Kind == List || n.Kind == Map:
		return ""
	}
	return fmt.Sprintf(`; write "%s" in quotes`, n.Text)
}

// Choice reports a scalar whose text is none of the accepted ones. One in another case, where any
// is accepted, becomes the accepted word.
func (r *Reader) Choice(n *Node, path string, accepted []string) bool {
	for _, a := range accepted {
		if n.Text == a || r.AnyCase && strings.EqualFold(n.Text, a) {
			n.Text = a
			return true
		}
	}
	r.Problems.Add(fault.Problem{Position: n.At, Code: "value-unknown", Scope: path,
		Text:       fmt.Sprintf("%q is none of %s", n.Text, strings.Join(accepted, ", ")) + n.used(),
		Suggestion: fault.Nearest(n.Text, accepted)})
	return false
}

// Str returns the text of a scalar child; "" if there is none.
func (n *Node) Str(key string) string {
	if v := n.Get(key); v != nil && v.Kind != Null {
		return v.Text
	}
	return ""
}

// Strs returns the texts of a list child.
func (n *Node) Strs(key string) []string {
	v := n.Get(key)
	if v == nil {
		return nil
	}
	out := make([]string, len(v.Items))
	for i, item := range v.Items {
		out[i] = item.Text
	}
	return out
}
