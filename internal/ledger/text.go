package ledger

import (
	"strings"
	"unicode/utf8"
)

// clean is text that every database stores: valid UTF-8 without NUL.
func clean(text string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(text, "�"), "\x00", "�")
}

func validUTF8(raw []byte) bool { return utf8.Valid(raw) }
