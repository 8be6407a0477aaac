package store

import (
	"encoding/json"
	"strings"
	"unicode/utf8"

	"github.com/waybill-dev/waybill/internal/fault"
)

// Bounds of a document in a row. Every database stores that much, and also the documents that the
// log makes of it.
const (
	maxDepth    = 500     // levels of arrays and objects; SQLite's parser ends at 1,000
	maxDocument = 8 << 20 // size in bytes
)

// JSONFlaw returns the reason why some database would not store the JSON as it is, such as "are not
// JSON"; "" if every database stores it.
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

// MeasureJSON returns about how many values a JSON text has, and how many arrays and objects are
// nested. The values decide how much memory decoding takes: a small text may have many.
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

// CleanJSON returns JSON that every database stores. A text that is not such JSON becomes a JSON
// string.
func CleanJSON(raw []byte) json.RawMessage {
	if JSONFlaw(raw) == "" {
		return raw
	}
	quoted, _ := json.Marshal(CleanText(string(raw))) // strings always marshal
	return quoted
}

// CleanText returns the text with U+FFFD instead of NUL characters and of bytes that are not UTF-8. PostgreSQL stores
// neither.
func CleanText(text string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(text, "�"), "\x00", "�")
}

// IsText reports whether every database stores the text as it is.
func IsText(text string) bool { return utf8.ValidString(text) && !strings.Contains(text, "\x00") }

// ErrNotText is the error of a text that not every database stores.
var ErrNotText = fault.New(fault.Invalid, "a text has a NUL character or is not valid UTF-8")
