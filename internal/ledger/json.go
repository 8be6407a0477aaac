package ledger

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

// flaw says why some database would not store the JSON as it is; "" if all do.
func flaw(raw []byte) string {
	switch {
	case len(raw) > maxDocument:
		return "are larger than 8 MiB"
	case !utf8.Valid(raw) || !json.Valid(raw):
		return "are not JSON"
	case depth(raw) > maxDepth:
		return "have more than 500 levels of arrays and objects"
	}
	return ""
}

// depth is how many arrays and objects of valid JSON are inside each other.
func depth(raw []byte) (deepest int) {
	level, inText := 0, false
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case inText && c == '\\':
			i++
		case c == '"':
			inText = !inText
		case inText:
		case c == '[' || c == '{':
			level++
			deepest = max(deepest, level)
		case c == ']' || c == '}':
			level--
		}
	}
	return deepest
}

// cleanJSON is JSON that every database stores; any other text becomes a string.
func cleanJSON(raw []byte) json.RawMessage {
	if flaw(raw) == "" {
		return raw
	}
	quoted, _ := json.Marshal(cleanText(string(raw))) // strings always marshal
	return quoted
}

// cleanText replaces what some database does not store.
func cleanText(text string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(text, "�"), "\x00", "�")
}

// IsText reports whether every database stores the text as it is.
func IsText(text string) bool { return utf8.ValidString(text) && !strings.Contains(text, "\x00") }

// ErrNotText is the error of a text that not every database stores.
var ErrNotText = fault.New(fault.Invalid, "a text has a NUL character or is not valid UTF-8")
