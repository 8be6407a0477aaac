package secret

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/waybill-dev/waybill/internal/mask"
)

// Redactor puts a mark in the place of every secret, in every form in which a template can write
// it: as it is, by one function, or by one function of another; and in every form that a program prints, also with line ends and with
// what viewers do not show inside.
type Redactor struct {
	replacer *strings.Replacer
	sets     []*mask.Set // one for each secret
}

// Redactor makes one for these values.
func (v Values) Redactor() *Redactor {
	type form struct{ text, mark string }
	var forms []form
	for name, value := range v {
		if len(value) < mask.Shortest {
			continue
		}
		for _, text := range append(spellings(value), mask.Lines(value)...) {
			forms = append(forms, form{text, Mark(name)})
		}
	}
	// The longest first: of two secrets that begin alike the whole of the longer one goes.
	slices.SortFunc(forms, func(a, b form) int {
		return cmp.Or(cmp.Compare(len(b.text), len(a.text)), cmp.Compare(a.text, b.text), cmp.Compare(a.mark, b.mark))
	})
	pairs := make([]string, 0, 2*len(forms))
	for _, f := range forms {
		pairs = append(pairs, f.text, f.mark)
	}
	r := &Redactor{replacer: strings.NewReplacer(pairs...)}
	for _, name := range slices.Sorted(maps.Keys(v)) {
		r.sets = append(r.sets, mask.NewNamedSet(Mark(name), v[name]))
	}
	return r
}

// longestTwice is the size in bytes above which a secret is not searched for in the forms that take two functions.
const longestTwice = 1 << 10

// spellings returns a secret's forms: itself, what each function makes of it, and what each makes
// of that.
func spellings(value string) []string {
	forms := map[string]bool{value: true}
	once := spell(value)
	for _, text := range once {
		forms[text] = true
		if len(value) > longestTwice {
			continue
		}
		for _, twice := range spell(text) {
			forms[twice] = true
		}
	}
	var found []string
	for text := range forms {
		if len(text) >= mask.Shortest {
			found = append(found, text)
		}
	}
	return found
}

// spell returns what the functions of templates make of a text: those of package webhook, and those
// of text/template.
func spell(text string) []string {
	return append(mask.Forms(text), strings.ToLower(text), strings.ToUpper(text))
}

// Text returns the text with marks in the place of secrets.
func (r *Redactor) Text(text string) string {
	text = r.replacer.Replace(text)
	for _, set := range r.sets {
		text = set.Text(text)
	}
	return text
}
