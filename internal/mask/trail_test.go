package mask

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"html"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

const token = "ghp_0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-and-more"

// wrapped breaks a text into lines of a width.
func wrapped(text string, width int, end string) string {
	var lines []string
	for len(text) > width {
		lines, text = append(lines, text[:width]), text[width:]
	}
	return strings.Join(append(lines, text), end)
}

// dumped writes a text as xxd does (2 bytes in a group), or as hexdump -C.
func dumped(text string, xxd bool) string {
	var out strings.Builder
	for at := 0; at < len(text); at += 16 {
		line := text[at:min(at+16, len(text))]
		shown := strings.Map(func(r rune) rune {
			if r < ' ' || r > '~' {
				return '.'
			}
			return r
		}, line)
		if !xxd {
			digits := fmt.Sprintf("% x", line[:min(8, len(line))]) + "  " + fmt.Sprintf("% x", line[min(8, len(line)):])
			fmt.Fprintf(&out, "%08x  %-48s  |%s|\n", at, digits, shown)
			continue
		}
		var digits strings.Builder
		for i := 0; i < len(line); i += 2 {
			fmt.Fprintf(&digits, "%x ", line[i:min(i+2, len(line))])
		}
		fmt.Fprintf(&out, "%08x: %-40s %s\n", at, digits.String(), shown)
	}
	return out.String()
}

// TestEncodedTextIsFoundAcrossLines: tools break it wherever their lines are full, so a secret may begin anywhere in one.
func TestEncodedTextIsFoundAcrossLines(t *testing.T) {
	t.Parallel()
	set := NewSet(token)
	for before := range 100 {
		text := strings.Repeat("+", before) + token + "++++"
		coded := base64.StdEncoding.EncodeToString([]byte(text))
		for name, c := range map[string]struct{ text, first, last string }{
			"base64":          {text: wrapped(coded, 76, "\n")},
			"openssl base64":  {text: wrapped(coded, 64, "\n")},
			"MIME":            {text: wrapped(coded, 76, "\r\n")},
			"YAML":            {text: wrapped(coded, 70, "\n    ")},
			"in JSON":         {text: wrapped(coded, 76, `\n`)},
			"in XML":          {text: wrapped(coded, 76, "&#10;")},
			"in XML with hex": {text: wrapped(coded, 76, "&#xD;&#xA;")},
			"base64url":       {text: wrapped(base64.URLEncoding.EncodeToString([]byte(text)), 60, "\n")},
			"xxd -p":          {text: wrapped(hex.EncodeToString([]byte(text)), 60, "\n")},
			"od -An -tx1":     {text: wrapped(fmt.Sprintf(" % x", text), 48, "\n")},
			"upper case":      {text: wrapped(strings.ToUpper(hex.EncodeToString([]byte(text))), 32, "\n")},
		} {
			got := masked(set, "before\n"+c.text+"\nafter\n", before, 1, 70, 2)
			left := shownDigits(got)
			if !strings.Contains(got, mark) || !strings.HasPrefix(got, "before\n") || !strings.HasSuffix(got, "\nafter\n") || left > 4*before+40 {
				t.Fatalf("%s after %d bytes: %q becomes %q", name, before, c.text, got)
			}
			for _, piece := range []string{token[2:10], token[30:38], token[len(token)-10 : len(token)-2]} {
				for _, form := range codedForms(piece) {
					if strings.Contains(got, form) {
						t.Fatalf("%s after %d bytes: %q shows %q as %q", name, before, got, piece, form)
					}
				}
			}
		}
	}
}

func shownDigits(text string) int { return len(strings.Join(strings.Fields(text), "")) }

func TestDumpsAreFoundAcrossLines(t *testing.T) {
	t.Parallel()
	for _, secret := range []string{token, "9876 4-secret-of-digits-4321", "short-one", `g\&h#\\h&&.\g&#h\&g.\\`} {
		set := NewSet(secret)
		for before := range 40 {
			for _, xxd := range []bool{true, false} {
				text := dumped(strings.Repeat("+", before)+secret+"+++", xxd)
				got, whole := strings.CutSuffix(masked(set, text+"after it\n", before, 3, 50), "\nafter it\n")
				for _, piece := range []string{secret[:3], secret[3:6], secret[len(secret)-3:]} {
					if digits := fmt.Sprintf("% x", piece); !whole || strings.Contains(got, digits) || strings.Contains(got, piece) {
						t.Fatalf("after %d bytes, xxd %t: %s becomes %s, which shows %q", before, xxd, text, got, piece)
					}
				}
			}
		}
	}
}

// TestDumpsWithoutTheirTextAreFound: od writes the offset in octal digits before the bytes, and nothing after them.
func TestDumpsWithoutTheirTextAreFound(t *testing.T) {
	t.Parallel()
	set := NewSet(token)
	for before := range 40 {
		text, out := strings.Repeat("+", before)+token+"+++", ""
		for at := 0; at < len(text); at += 16 {
			out += fmt.Sprintf("%07o % x\n", at, text[at:min(at+16, len(text))])
		}
		got := masked(set, out, before, 3, 50)
		for _, piece := range []string{token[:3], token[20:23], token[len(token)-3:]} {
			if digits := fmt.Sprintf("% x", piece); strings.Contains(got, digits) {
				t.Fatalf("after %d bytes: %s becomes %s, which shows %q", before, out, got, piece)
			}
		}
	}
}

// TestWhatViewersRemoveHidesNothing: the visible text is compared, and the bytes as they are too.
func TestWhatViewersRemoveHidesNothing(t *testing.T) {
	t.Parallel()
	set := NewSet("hunter22 of\nus")
	for _, text := range []string{
		"\x1b[31mhunter\x1b[0m22 of\nus", "\x1b[01;31m\x1b[Khun\x1b[m\x1b[Kter22 of\nus", "h\x1b[1munter22 of\nus",
		"hunter2\x00\x002 of\nus", "hun\rter22 of\r\nus",
		"hunter22\b of\nus", "h\x7funter22 of\nus", "hunter\x1b]8;;http://x\x1b\\22 of\nus", "hunter\x1b]0;title\a22 of\nus",
		"hunter\x1b(B22 of\nus", "hunter\u009b1m22 of\nus",
		"hunter\u009dtitle\u009c22 of\nus", "hunter\u200e22 of\nus", "hunter\u202e22\u2066 of\nus", "hunter\u061c22 of\nus",
		"hunter\x1b[\nhunter22 of\nus", "hunter\x1bhunter22 of\nus",
		"h\x00u\x00n\x00t\x00e\x00r\x002\x002\x00 \x00o\x00f\x00\n\x00u\x00s", "\x1b]8;;http://hunter22 of\nus",
		"hunter2\x1b[0m\x1b[31m2 \x00of\nu\x00s", "aHVudGVy\x1b[0m\nMjIgb2YK\x1b[1mdXM=",
	} {
		got := masked(set, "a "+text+" b", 5, 1, 6)
		if !strings.Contains(got, mark) || strings.Contains(visible(got), "unter22") || strings.Contains(got, "MjI") {
			t.Errorf("%q becomes %q", text, got)
		}
		if whole := masked(set, "a "+text+" b"); got != whole {
			t.Errorf("%q in pieces becomes %q, and whole %q", text, got, whole)
		}
	}
	for _, text := range []string{"hunt\x1b[0mer\x1b[0m23 of", "hunter22§ of\nus", "huntér22 of\nus", "hunter\u20102",
		"a hunter22\x1b[0m\nof us", "hunter" + strings.Repeat("\x00", 2*mostHidden) + "22 of\nus"} {
		if got := masked(set, text, 5, 1, 6); got != text {
			t.Errorf("%d bytes, %.50q become %d, %.50q", len(text), text, len(got), got)
		}
	}
}

func TestPiecesDoNotMatterWithHiddenBytes(t *testing.T) {
	t.Parallel()
	pieces := []string{"a", "b", "ab", "c", "\n", " ", "\x00", "\r", "\x1b[1m", "\x1b", "[", "\u009b", "\xc2", "\u200e",
		"\xe2", "\x80", "\\n", "&#10;", "\x1b]x\a", "YWJ", "hYmFi", "61", "62", "  |ab|\n000010  "}
	rapid.Check(t, func(t *rapid.T) {
		secrets := rapid.SliceOfN(rapid.StringMatching(`[ab]{4,8}(\n[ab]{3})?`), 1, 3).Draw(t, "secrets")
		text := strings.Join(rapid.SliceOfN(rapid.SampledFrom(pieces), 0, 50).Draw(t, "text"), "")
		sizes := rapid.SliceOfN(rapid.IntRange(0, 7), 0, 20).Draw(t, "sizes")
		set := NewSet(secrets...)
		whole := masked(set, text)
		if got := masked(set, text, sizes...); got != whole {
			t.Fatalf("in pieces %q, whole %q", got, whole)
		}
		for _, secret := range secrets {
			if strings.Contains(visible(whole), secret) || strings.Contains(whole, secret) {
				t.Fatalf("%q shows %q", whole, secret)
			}
		}
	})
}

// TestQuotesOfHTMLAreMasked, as each family of tools writes them.
func TestQuotesOfHTMLAreMasked(t *testing.T) {
	t.Parallel()
	const secret = `it's "a/b" <c>=` + "`d`é"
	set := NewSet(secret)
	mustache := strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;", "'", "&#39;", "/", "&#x2F;",
		"`", "&#x60;", "=", "&#x3D;")
	handlebars := strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;", "'", "&#x27;", "`", "&#x60;", "=", "&#x3D;")
	python := strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;", "'", "&#x27;")
	php := strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;", "'", "&#039;")
	for name, text := range map[string]string{"Go": html.EscapeString(secret), "Mustache": mustache.Replace(secret),
		"Handlebars": handlebars.Replace(secret), "Python": python.Replace(secret),
		"PHP": php.Replace(secret), "Python in ASCII": strings.ReplaceAll(python.Replace(secret), "é", "&#233;"),
		"hexadecimal": strings.ReplaceAll(python.Replace(secret), "é", "&#xE9;")} {
		if got := set.Text("<b>" + text + "</b>"); got != "<b>***</b>" {
			t.Errorf("%s: %q becomes %q", name, text, got)
		}
	}
}

// TestALineIsHeldBackOnlyForAWhile if it ends with a beginning of encoded text.
func TestALineIsHeldBackOnlyForAWhile(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	emit := func(b []byte) { out.Write(b) }
	stream := Stream{Set: NewSet(token)}
	line := "step " + hex.EncodeToString([]byte(token))[:2] + "\n"
	stream.Write([]byte(line), emit)
	if out.String() != "step " {
		t.Errorf("it gives out %q", out.String())
	}
	if stream.Flush(emit); out.String() != line {
		t.Errorf("after a while it has given out %q", out.String())
	}
	stream.Write([]byte(line+"next\n"), emit)
	if got := out.String(); got != line+line+"next\n" {
		t.Errorf("with a next line it has given out %q", got)
	}
}

func BenchmarkColours(b *testing.B) {
	var secrets []string
	for i := range 20 {
		secrets = append(secrets, "ghp_"+strings.Repeat(string(rune('a'+i)), 30))
	}
	line := []byte(strings.Repeat(
		"\x1b[32m2026-01-01\x1b[0m a line of some hundred bytes, as programs print them: \x1b[1m0123456789\x1b[0m ok pass fail \n", 700))
	stream := Stream{Set: NewSet(secrets...)}
	b.SetBytes(int64(len(line)))
	for b.Loop() {
		stream.Write(line, func([]byte) {})
	}
}
