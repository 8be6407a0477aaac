package document

import (
	"encoding/json"
	"strconv"
	"strings"
)

// Plain returns a node as encoding/json would have read it, with numbers as json.Number.
func Plain(n *Node) any {
	switch n.Kind {
	case Bool:
		return strings.EqualFold(n.Text, "true")
	case Int:
		if whole, err := strconv.ParseInt(n.Text, 0, 64); err == nil {
			return json.Number(strconv.FormatInt(whole, 10))
		}
		return n.Text
	case Float:
		if value, err := strconv.ParseFloat(strings.ReplaceAll(n.Text, "_", ""), 64); err == nil {
			return json.Number(strconv.FormatFloat(value, 'g', -1, 64))
		}
		return n.Text
	case List:
		items := make([]any, len(n.Items))
		for i, item := range n.Items {
			items[i] = Plain(item)
		}
		return items
	case Map:
		fields := make(map[string]any, len(n.Fields))
		for _, f := range n.Fields {
			fields[f.Key] = Plain(f.Value)
		}
		return fields
	case Null:
		return nil
	}
	return n.Text
}
