package mask

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"text/template"
)

// Shortest is the length in bytes below which a secret is not looked for: it would occur
// everywhere.
const Shortest = 4

// shortestLine is the length in bytes below which a single line of a secret is not looked for.
const shortestLine = 8

// Lines returns the lines of a secret that has several: a program may print a single line, with
// something before it.
func Lines(secret string) (found []string) {
	if !strings.Contains(secret, "\n") {
		return nil
	}
	for line := range strings.SplitSeq(secret, "\n") {
		if line = strings.TrimSpace(line); len(line) >= shortestLine {
			found = append(found, line)
		}
	}
	return found
}

// Forms returns what common encodings make of a text: those of URLs, HTML, JSON, JavaScript, shells
// and Go, hexadecimal digits, and base64 at each alignment. Quotes at both ends are left out, since
// more may be written between them.
func Forms(text string) []string {
	forms := []string{
		url.QueryEscape(text), url.PathEscape(text),
		template.HTMLEscapeString(text), template.JSEscapeString(text),
		inner(strconv.Quote(text)), inner(strconv.QuoteToASCII(text)),
		strings.ReplaceAll(text, "'", `'\''`), // of a shell
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
