package ledger

import (
	"encoding/json"
	"strings"
	"unicode/utf8"
)

// storable reports whether every database stores the JSON as it is.
func storable(raw []byte) bool { return json.Valid(raw) && utf8.Valid(raw) }

// cleanJSON is JSON that every database stores; what is no JSON becomes a string.
func cleanJSON(raw []byte) json.RawMessage {
	if storable(raw) {
		return raw
	}
	text := strings.ReplaceAll(strings.ToValidUTF8(string(raw), "�"), "\x00", "�")
	quoted, _ := json.Marshal(text) // strings always marshal
	return quoted
}
