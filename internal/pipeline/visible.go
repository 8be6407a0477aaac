package pipeline

import (
	"strings"
	"unicode"
)

// Unseen returns the first character of a name that is not drawn, and whether the name has one. The
// space in the middle of a name counts as drawn, one at either end does not. People tell revisions
// and each other apart by their names, and characters that are not drawn make two names look alike.
//
// Emoji are drawn. The joiners and variation selectors that change how some emoji look are not.
func Unseen(name string) (rune, bool) {
	if strings.HasPrefix(name, " ") || strings.HasSuffix(name, " ") {
		return ' ', true
	}
	for _, r := range name {
		if !unicode.IsPrint(r) || unicode.In(r, undrawn...) {
			return r, true
		}
	}
	return 0, false
}

// undrawn are characters that nothing is drawn for, although their category is that of letters,
// marks or symbols, which unicode.IsPrint accepts. The first two tables and the categories that
// IsPrint refuses contain the property Default_Ignorable_Code_Point.
var undrawn = []*unicode.RangeTable{unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector, {
	R16: []unicode.Range16{{Lo: 0x2800, Hi: 0x2800, Stride: 1}}, // Braille without dots
	R32: []unicode.Range32{
		{Lo: 0x13441, Hi: 0x13442, Stride: 1}, // blanks of hieroglyphs
		{Lo: 0x16fe4, Hi: 0x16fe4, Stride: 1}, // the filler of Khitan script
		{Lo: 0x1d159, Hi: 0x1d159, Stride: 1}, // a note without a head
	},
}}
