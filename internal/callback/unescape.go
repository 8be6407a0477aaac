package callback

import (
	"encoding/json"
	"strings"
)

// unescape reads the inside of a text in single or double quotes. Escapes are JSON's, and \' too; an escape that is
// none of them, such as \d in a regular expression, stands for itself.
func unescape(inner string) (string, error) {
	var b strings.Builder
	b.WriteByte('"')
	for i := 0; i < len(inner); i++ {
		switch c := inner[i]; {
		case c == '\\' && i+1 < len(inner):
			i++
			switch next := inner[i]; {
			case next == '\'':
				b.WriteByte('\'')
			case strings.IndexByte(`"\/bfnrtu`, next) >= 0:
				b.WriteByte('\\')
				b.WriteByte(next)
			default:
				b.WriteString(`\\`)
				b.WriteByte(next)
			}
		case c == '"':
			b.WriteString(`\"`)
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	var text string
	err := json.Unmarshal([]byte(b.String()), &text)
	return text, err
}
