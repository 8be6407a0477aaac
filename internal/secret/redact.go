package secret

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
)

// shortest is the length in bytes below which a secret is not looked for: it would stand everywhere.
const shortest = 4

// Redactor puts a mark in the place of every secret, in the forms in which templates write them: as it is, in
// JSON, in a URL, in base64.
type Redactor struct{ replacer *strings.Replacer }

// Redactor makes one for these values.
func (v Values) Redactor() *Redactor {
	type form struct{ text, mark string }
	var forms []form
	for name, value := range v {
		if len(value) < shortest {
			continue
		}
		for _, text := range spellings(value) {
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
	return &Redactor{strings.NewReplacer(pairs...)}
}

// spellings are a secret's forms.
func spellings(value string) []string {
	forms := []string{value, url.QueryEscape(value), url.PathEscape(value),
		base64.StdEncoding.EncodeToString([]byte(value)), base64.RawURLEncoding.EncodeToString([]byte(value))}
	if quoted, err := json.Marshal(value); err == nil {
		forms = append(forms, strings.Trim(string(quoted), `"`))
	}
	if quoted := strings.ReplaceAll(value, "'", `'\''`); quoted != value { // as shq writes it
		forms = append(forms, quoted)
	}
	slices.Sort(forms)
	return slices.Compact(forms)
}

// Text is the text with marks in the place of secrets.
func (r *Redactor) Text(text string) string { return r.replacer.Replace(text) }
