package mask

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"text/template"
	"unicode/utf16"
	"unicode/utf8"
)

// Shortest is the length in bytes below which a secret is not searched for: it would occur everywhere.
const Shortest = 4

// shortestLine is the length in bytes below which a single line of a secret is not searched for.
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

// Forms returns the forms of a text in common encodings: those of URLs, HTML, XML, UTF-16, JSON, JavaScript, shells
// and Go, hexadecimal digits, and base64 at each alignment. Quotes at both ends are left out, since more may be
// written between them.
func Forms(text string) []string {
	forms := append(codedForms(text),
		template.HTMLEscapeString(text), template.JSEscapeString(text),
		inner(strconv.Quote(text)), inner(strconv.QuoteToASCII(text)),
		strings.ReplaceAll(text, "'", `'\''`), backslashed(text), // forms in shells
		strings.ReplaceAll(text, "/", `\/`), // form in JSON of some languages
		fmt.Sprintf("% x", text), fmt.Sprintf("% X", text), fmt.Sprintf("%# x", text), fmt.Sprintf("%# X", text),
	)
	for _, kept := range urlKeeps {
		forms = append(forms, percent(text, kept, "%%%02X"), percent(text, kept, "%%%02x"))
	}
	forms = append(forms, spaced(percent(text, "-_.~ ", "%%%02X")), spaced(percent(text, "-_.~ ", "%%%02x")),
		spaced(percent(text, "-_.* ", "%%%02X")))
	for _, escaped := range append(xmlForms(text), text) {
		forms = append(forms, escaped, wide(escaped, binary.LittleEndian), wide(escaped, binary.BigEndian))
	}
	for _, escapeHTML := range []bool{true, false} {
		var b strings.Builder
		encoder := json.NewEncoder(&b)
		encoder.SetEscapeHTML(escapeHTML)
		if encoder.Encode(text) == nil {
			forms = append(forms, inner(strings.TrimSuffix(b.String(), "\n")))
		}
	}
	return slices.Compact(slices.Sorted(slices.Values(forms)))
}

// codedForms returns the forms that programs break into lines wherever a line is full: hexadecimal digits, and base64 at each
// alignment. Those without their first character are for a line that ends after it, since a begin of one character would hold back
// the end of most lines.
func codedForms(text string) []string {
	forms := []string{fmt.Sprintf("%x", text), fmt.Sprintf("%X", text)}
	for _, encoding := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding} {
		coded := []string{encoding.EncodeToString([]byte(text))}
		for before := range 3 {
			coded = append(coded, aligned(encoding, text, before))
		}
		for _, form := range coded {
			if forms = append(forms, form); len(form) >= shortestRest {
				forms = append(forms, form[1:])
			}
		}
	}
	return forms
}

// entities are the references that programs write for characters that HTML and XML give a meaning, beside & < and >:
// of XML's text and attributes, Go, PHP, Python, and template languages such as Mustache and Handlebars.
var entities = [][]string{
	{},
	{`"`, "&quot;"},
	{`"`, "&quot;", "'", "&apos;"},
	{`"`, "&quot;", "'", "&#39;"},
	{`"`, "&#34;", "'", "&#39;"},
	{`"`, "&quot;", "'", "&#039;"},
	{`"`, "&quot;", "'", "&#x27;"},
	{`"`, "&#x22;", "'", "&#x27;"},
	{`"`, "&quot;", "'", "&#x27;", "/", "&#x2F;"},
	{`"`, "&quot;", "'", "&#x27;", "`", "&#x60;"},
	{`"`, "&quot;", "'", "&#x27;", "`", "&#x60;", "=", "&#x3D;"},
	{`"`, "&quot;", "'", "&#x27;", "`", "&#x60;", "/", "&#x2F;"},
	{`"`, "&quot;", "'", "&#39;", "`", "&#x60;", "=", "&#x3D;", "/", "&#x2F;"},
}

// xmlForms returns what programs make of a text in HTML and XML: of quotes, and of characters beyond ASCII, each in
// its own way.
func xmlForms(text string) (forms []string) {
	for _, further := range entities {
		form := strings.NewReplacer(append([]string{"&", "&amp;", "<", "&lt;", ">", "&gt;"}, further...)...).Replace(text)
		forms = append(forms, form, asciiOf(form, "&#%d;"), asciiOf(form, "&#x%X;"), asciiOf(form, "&#x%x;"))
	}
	return slices.Compact(slices.Sorted(slices.Values(forms)))
}

// asciiOf returns a text with references for characters beyond ASCII.
func asciiOf(text, reference string) string {
	var ascii strings.Builder
	for _, r := range text {
		if r < utf8.RuneSelf {
			ascii.WriteRune(r)
		} else {
			fmt.Fprintf(&ascii, reference, r)
		}
	}
	return ascii.String()
}

// urlKeeps are the characters that programs leave as they are in URLs, beside letters and digits: RFC 3986, then others in paths, in
// user information, in queries and in whole URLs, as Python, JavaScript, Go and the URL Standard of browsers have it.
var urlKeeps = []string{
	"-_.~",
	"-_.~/",
	"-_.~!'()*",
	"-_.~$&+,;=",
	"-_.~$&+=:@",
	"-_.~$&+,/:;=@",
	"-_.~!$%&'()*+,",
	"-_.~!$%&'()*+,/:;=@[]|\\",
	"-_.~!'()*;/?:@&=+$,#",
}

// spaced returns a text as forms send it, with + for a space.
func spaced(text string) string { return strings.ReplaceAll(text, " ", "+") }

// percent returns a text for URLs, in which letters, digits and the kept characters stay.
func percent(text, keep, format string) string {
	var b strings.Builder
	for i := range len(text) {
		switch c := text[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', strings.IndexByte(keep, c) >= 0:
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, format, c)
		}
	}
	return b.String()
}

// backslashed returns a text as printf %q of bash writes it.
func backslashed(text string) string {
	var b strings.Builder
	for _, r := range text {
		if strings.ContainsRune(" !\"$&'()*,;<>?[\\]^`{|}", r) {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return b.String()
}

// wide returns a text in UTF-16.
func wide(text string, order binary.AppendByteOrder) string {
	var b []byte
	for _, unit := range utf16.Encode([]rune(text)) {
		b = order.AppendUint16(b, unit)
	}
	return string(b)
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
