package secret

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"text/template"
)

// shortest is the length in bytes below which a secret is not looked for: it would occur
// everywhere.
const shortest = 4

// Redactor puts a mark in the place of every secret, in every form in which a template can write
// it: as it is, by one function, or by one function of another.
type Redactor struct{ replacer *strings.Replacer }

// Redactor makes one for these values.
func (v Values) Redactor() *Redactor {
	type form struct{ text, mark string }
	var forms []form
	for name, value := range v {
		if len(value) < shortest {
			continue
		}
		for _, text := range append(spellings(value), lines(value)...) {
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

// shortestLine is the length in bytes below which a single line of a secret is not looked for.
const shortestLine = 8

// lines returns the lines of a secret that has several: a program may print a single line, with
// something before it.
func lines(value string) (found []string) {
	if !strings.Contains(value, "\n") {
		return nil
	}
	for line := range strings.SplitSeq(value, "\n") {
		if line = strings.TrimSpace(line); len(line) >= shortestLine {
			found = append(found, line)
		}
	}
	return found
}

// longestTwice is the size in bytes above which a secret is not looked for in the forms that take
// two functions.
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
		if len(text) >= shortest {
			found = append(found, text)
		}
	}
	return found
}

// spell returns what the functions of templates make of a text: those of package webhook, and those
// of text/template. Quotes at both ends are left out, since more may be written between them.
func spell(text string) []string {
	forms := []string{
		url.QueryEscape(text), url.PathEscape(text),
		strings.ToLower(text), strings.ToUpper(text),
		template.HTMLEscapeString(text), template.JSEscapeString(text),
		inner(strconv.Quote(text)), inner(strconv.QuoteToASCII(text)),
		strings.ReplaceAll(text, "'", `'\''`), // shq
		fmt.Sprintf("%x", text), fmt.Sprintf("%X", text), fmt.Sprintf("% x", text), fmt.Sprintf("% X", text), fmt.Sprintf("%# x", text), fmt.Sprintf("%# X", text),
	}
	for _, escapeHTML := range []bool{true, false} {
		var b strings.Builder
		encoder := json.NewEncoder(&b)
		encoder.SetEscapeHTML(escapeHTML)
		if encoder.Encode(text) == nil {
			forms = append(forms, inner(strings.TrimSuffix(b.String(), "\n")))
		}
	}
	for _, encoding := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding} {
		forms = append(forms, encoding.EncodeToString([]byte(text)))
		for before := range 3 {
			forms = append(forms, aligned(encoding, text, before))
		}
	}
	return slices.Compact(slices.Sorted(slices.Values(forms)))
}

// inner returns a quoted text without its quotes.
func inner(quoted string) string { return quoted[1 : len(quoted)-1] }

// aligned returns the characters of base64 that a text alone decides when it follows that many
// other bytes.
func aligned(encoding *base64.Encoding, text string, before int) string {
	coded := encoding.EncodeToString(append(make([]byte, before), text...))
	first, end := (before*8+5)/6, (before+len(text))*8/6
	return coded[min(first, end):end]
}

// Text returns the text with marks in the place of secrets.
func (r *Redactor) Text(text string) string { return r.replacer.Replace(text) }
