package build

import (
	"strings"
	"testing"
)

func TestColoursOfALineBecomeClasses(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"plain & <b>":                      "plain &amp; &lt;b&gt;",
		"\x1b[31mred\x1b[0m not":           `<span class="f1">red</span> not`,
		"\x1b[1;92mok\x1b[22mgreen":        `<span class="f10 bold">ok</span><span class="f10">green</span>`,
		"\x1b[38;5;208mo\x1b[39mp":         `<span class="f208">o</span>p`,
		"\x1b[38;2;255;0;0mr":              `<span class="f196">r</span>`,
		"\x1b[38:2::255:0:0mr":             `<span class="f196">r</span>`,
		"\x1b[48:5:21mb":                   `<span class="b21">b</span>`,
		"\x1b[97;41mx":                     `<span class="b1 g15">x</span>`,
		"\x1b[33;103mno contrast":          `<span class="b11">no contrast</span>`,
		"\x1b[7mi":                         `<span class="inverse">i</span>`,
		"\x1b[31;7mi":                      `<span class="b1">i</span>`,
		"\x1b[3;4;9mm":                     `<span class="italic underline struck">m</span>`,
		"\x1b[2mdim\x1b[m":                 `<span class="dim">dim</span>`,
		"\x1b[8mhidden\x1b[0m":             "hidden",
		"a\x1b[2Jb\x1b]0;t\x07c\x1b[5A\rd": "d",
		"\x1b[38;5;999mx\x1b[38;2;1mz":     "xz",
		"\x1b[31m<script>":                 `<span class="f1">&lt;script&gt;</span>`,
		"\u202eevil\u009b31m\xff":          `evil<span class="f1">` + "\ufffd</span>",
		"\x1b[31\"><img src=x>m":           `<img src=x>m`,
	} {
		got, _ := logLine([]byte(text))
		if strings.Contains(want, "<img") {
			if strings.Contains(got, "<img") {
				t.Errorf("%q: %s", text, got)
			}
			continue
		}
		if got != want {
			t.Errorf("%q: got %s, want %s", text, got, want)
		}
	}
}

func TestALongLineIsCut(t *testing.T) {
	t.Parallel()
	line, cut := logLine([]byte("\x1b[31m" + strings.Repeat("é", 20_000)))
	if len(line) > longestShown+100 || cut < 35_000 || !strings.HasSuffix(line, "é</span>") {
		t.Errorf("%d bytes, %d are cut, %s", len(line), cut, line[len(line)-20:])
	}
	if line, _ := logLine([]byte(strings.Repeat("x", longestShown-3) + "\x1b[31mred")); strings.Contains(line, "\x1b") ||
		strings.Contains(line, "[31") {
		t.Errorf("a sequence is cut in two: %q", line[len(line)-10:])
	}
}

func TestEveryColourCanBeRead(t *testing.T) {
	t.Parallel()
	for n := range 256 {
		c := palette(n)
		if day, night := contrast(readable(c, dayCard, black), dayCard), contrast(readable(c, nightCard, white),
			nightCard); day < leastContrast || night < leastContrast {
			t.Errorf("colour %d: contrast %.1f by day, %.1f by night", n, day, night)
		}
		if max(contrast(c, black), contrast(c, white)) < leastContrast {
			t.Errorf("no text is readable on colour %d", n)
		}
	}
	style := Colours()
	for _, want := range []string{".f1{", ".b255{", ".g7{", "prefers-color-scheme: dark"} {
		if !strings.Contains(style, want) {
			t.Errorf("%s is missing", want)
		}
	}
}

func FuzzLogLine(f *testing.F) {
	for _, seed := range []string{"\x1b[31mred\x1b[0m", "\x1b[38;2;1;2;3m<&>\"'", "\x1b]8;;http://x\x07l\x1b]8;;\x07",
		"\u009b1m", strings.Repeat("\x1b[1m", 2000)} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		line, _ := logLine(text)
		rest := strings.NewReplacer("</span>", "").Replace(line)
		for {
			before, after, found := strings.Cut(rest, `<span class="`)
			if strings.ContainsAny(before, "<>\x1b\"'\n\r") {
				t.Fatalf("markup in %q from %q", before, text)
			}
			if !found {
				return
			}
			classes, after, closed := strings.Cut(after, `">`)
			if !closed || strings.Trim(classes, "abcdefghijklmnopqrstuvwxyz0123456789 ") != "" {
				t.Fatalf("class %q from %q", classes, text)
			}
			rest = after
		}
	})
}
