package osb

import (
	"encoding/json"
	"slices"
)

// Changes lists the services and plans that were added to a catalog, changed in it or removed from it, such as "plan folder/large
// added", in the order of their names. A nil catalog has none.
func (c *Catalog) Changes(before *Catalog) (changes []string) {
	old, now := before.parts(), c.parts()
	for name, text := range now {
		switch former, known := old[name]; {
		case !known:
			changes = append(changes, name+" added")
		case former != text:
			changes = append(changes, name+" changed")
		}
	}
	for name := range old {
		if _, known := now[name]; !known {
			changes = append(changes, name+" removed")
		}
	}
	slices.Sort(changes)
	return changes
}

// parts returns each service, without its plans, and each plan as a text that differs where they do.
func (c *Catalog) parts() map[string]string {
	parts := map[string]string{}
	if c == nil {
		return parts
	}
	for _, s := range c.Services {
		body := s.body()
		for i, p := range s.Plans {
			parts["plan "+s.ID+"/"+p.ID] = textOf(body.Plans[i], p.Work)
		}
		body.Plans = nil
		parts["service "+s.ID] = textOf(body)
	}
	return parts
}

// textOf returns values as JSON. All that a catalog holds has one.
func textOf(values ...any) string {
	text, _ := json.Marshal(values)
	return string(text)
}
