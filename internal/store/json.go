package store

import (
	"encoding/json"
	"strings"
	"unicode/utf8"

	"github.com/waybill-dev/waybill/internal/fault"
)

// What a document in a row may be. Every database stores that much, and what other documents are made of it.
const (
	maxDepth    = 500     // levels of arrays and objects; SQLite reads 1,000
	maxDocument = 8 << 20 // bytes
)

// JSONFlaw returns why some database would not store the JSON as it is, such as "are not JSON"; "" if all do.
func JSONFlaw(raw []byte) string {
	switch {
	case len(raw) > maxDocument:
		return "are larger than 8 MiB"
	case !utf8.Valid(raw) || !json.Valid(raw):
		return "are not JSON"
	}
	if _, levels := MeasureJSON(raw); levels > maxDepth {
		return "have more than 500 levels of arrays and objects"
	}
	return ""
}

// MeasureJSON returns how many values a JSON text has, roughly, which is what decoding it takes memory for, and how many
// arrays and objects are inside each other.
func MeasureJSON(text []byte) (values, levels int) {
	values = 1
	level, quoted := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == ',':
			values++
		case c == '[' || c == '{':
			values++
			level++
			levels = max(levels, level)
		case c == ']' || c == '}':
			level--
		}
	}
	return values, levels
}

// CleanJSON returns JSON that every database stores; any other text becomes a string.
func CleanJSON(raw []byte) json.RawMessage {
	if JSONFlaw(raw) == "" {
		return raw
	}
	quoted, _ := json.Marshal(CleanText(string(raw))) // strings always marshal
	return quoted
}

// CleanText replaces what some database does not store.
func CleanText(text string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(text, "�"), "\x00", "�")
}

// IsText reports whether every database stores the text as it is.
func IsText(text string) bool { return utf8.ValidString(text) && !strings.Contains(text, "\x00") }

// ErrNotText is the error of a text that not every database stores.
var ErrNotText = fault.New(fault.Invalid, "a text has a NUL character or is not valid UTF-8")
