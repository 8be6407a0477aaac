package page

import (
	"bytes"
	"encoding/json"
)

// PrettyJSON returns JSON with line breaks.
func PrettyJSON(raw json.RawMessage) string {
	var out bytes.Buffer
	if json.Indent(&out, raw, "", "  ") != nil {
		return string(raw)
	}
	return out.String()
}
