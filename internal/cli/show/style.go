package show

import (
	"regexp"
	"unicode/utf8"
)

// Style paints words on a terminal. Its zero value paints nothing.
type Style struct{ Colours bool }

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

// escape finds what paint puts around a word.
var escape = regexp.MustCompile("\x1b\\[[0-9;]*m")

// printedWidth returns how many columns a painted text takes.
func printedWidth(text string) int {
	return utf8.RuneCountInString(escape.ReplaceAllString(text, ""))
}

// cut shortens a painted text to a number of columns, so that no line of a live view wraps.
func cut(text string, columns int) string {
	if printedWidth(text) <= columns || columns < 1 {
		return text
	}
	kept, width := make([]byte, 0, len(text)), 0
	for i := 0; i < len(text); {
		if at := escape.FindStringIndex(text[i:]); at != nil && at[0] == 0 {
			kept = append(kept, text[i:i+at[1]]...)
			i += at[1]
			continue
		}
		_, size := utf8.DecodeRuneInString(text[i:])
		if width < columns-1 {
			kept = append(kept, text[i:i+size]...)
		} else if width == columns-1 {
			kept = append(kept, "…"...)
		}
		width++
		i += size
	}
	return string(kept)
}
