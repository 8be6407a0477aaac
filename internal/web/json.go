package web

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// prettyJSON returns JSON with line breaks.
func prettyJSON(raw json.RawMessage) string {
	var out bytes.Buffer
	if json.Indent(&out, raw, "", "  ") != nil {
		return string(raw)
	}
	return out.String()
}

// compactJSON returns a value as JSON in one line.
func compactJSON(value any) string { return strings.TrimSpace(string(mustJSON(value))) }

// mustJSON returns a value as JSON, which must have been decoded from JSON.
func mustJSON(value any) []byte {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return fmt.Append(nil, err)
	}
	return b.Bytes()
}
