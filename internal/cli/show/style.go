package show

import (
	"fmt"
	"regexp"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/width"
)

// Style fits text to a terminal. Its zero value paints nothing and shortens nothing.
type Style struct {
	Colours bool // words are painted
	Columns int  // width of the terminal; 0: names are printed whole
}

// shortName shortens a name in its middle if it takes more than a part of the columns and would keep the rest of its row out of sight.
// An id always stays whole.
func (s Style) shortName(name string) string {
	const id = 40 // characters of a commit; an action has fewer
	if most := max(id, s.Columns*2/5); s.Columns > 0 && utf8.RuneCountInString(name) > most {
		return cutMiddle(name, most)
	}
	return name
}

func (s Style) paint(code, text string) string {
	if !s.Colours || text == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

func (s Style) good(text string) string  { return s.paint("32", text) }
func (s Style) bad(text string) string   { return s.paint("31", text) }
func (s Style) warn(text string) string  { return s.paint("33", text) }
func (s Style) busy(text string) string  { return s.paint("36", text) }
func (s Style) faint(text string) string { return s.paint("2", text) }
func (s Style) bold(text string) string  { return s.paint("1", text) }

// escape finds the sequence that paint puts around a word.
var escape = regexp.MustCompile("\x1b\\[[0-9;]*m")

// printedWidth returns how many columns a painted text takes.
func printedWidth(text string) (columns int) {
	for _, r := range escape.ReplaceAllString(text, "") {
		columns += columnsOf(r)
	}
	return columns
}

// columnsOf returns how many columns a terminal gives a character: two to those of East Asia and to pictures, none to accents of their own.
func columnsOf(r rune) int {
	switch {
	case r < 0x300:
		return 1
	case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf):
		return 0
	}
	if kind := width.LookupRune(r).Kind(); kind == width.EastAsianWide || kind == width.EastAsianFullwidth {
		return 2
	}
	return 1
}

// cut shortens a painted text to a number of columns, so that no line of a live view wraps.
func cut(text string, columns int) string {
	if printedWidth(text) <= columns || columns < 1 {
		return text
	}
	var kept []byte
	painted, used, full := escape.FindAllStringIndex(text, -1), 0, false
	for i := 0; i < len(text); {
		if len(painted) > 0 && painted[0][0] == i {
			kept = append(kept, text[i:painted[0][1]]...)
			i, painted = painted[0][1], painted[1:]
			continue
		}
		r, size := utf8.DecodeRuneInString(text[i:])
		wide := columnsOf(r)
		switch {
		case full:
		case used+wide > columns-1:
			kept, full = append(kept, "…"...), true
		default:
			kept, used = append(kept, text[i:i+size]...), used+wide
		}
		i += size
	}
	return string(kept)
}

// cutMiddle brings a plain text to a number of characters: a short one gets spaces, a long one loses some before its end.
func cutMiddle(text string, width int) string {
	runes := []rune(text)
	if len(runes) <= width || width < 1 {
		return fmt.Sprintf("%-*s", width, text)
	}
	end := width * 2 / 3 // combinations of a matrix differ there
	return string(runes[:width-1-end]) + "…" + string(runes[len(runes)-end:])
}
