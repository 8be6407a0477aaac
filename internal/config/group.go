package config

import (
	"slices"

	"github.com/waybill-dev/waybill/internal/document"
	"github.com/waybill-dev/waybill/internal/pipeline"
)

// Bounds of groups. The groups of a person are stored with each of their approvals.
const (
	maxGroups = 100
	maxPeople = 1_000 // people of one group
	maxPerson = 100   // bytes of a name
)

func (r *reader) groups(n *document.Node, c *Config) {
	if !fits(n, document.Object) {
		return
	}
	if len(n.Fields) > maxGroups {
		r.Add(n, "value-invalid", "groups", "%d groups, at most %d", len(n.Fields), maxGroups)
		return
	}
	c.Groups = map[string][]string{}
	for _, f := range n.Fields {
		path := r.Join("groups", f.Key)
		switch {
		case !handlerName.MatchString(f.Key):
			r.Add(&document.Node{At: f.At}, "value-invalid", "",
				"group %q: want a name of letters, digits, -, _ and . with at most 63 characters", f.Key)
		case !document.Texts.Fits(f.Value):
			r.Add(f.Value, "wrong-kind", path, "want a list of people, found %s", f.Value.Kind)
		case len(f.Value.Items) > maxPeople:
			r.Add(f.Value, "value-invalid", path, "group %s has %d people, at most %d", f.Key, len(f.Value.Items), maxPeople)
		default:
			c.Groups[f.Key] = r.people(f.Value, path)
		}
	}
}

// people reads the names of a group's people, as their tokens have them.
func (r *reader) people(n *document.Node, path string) (names []string) {
	for i, item := range n.Items {
		at := document.Index(path, i)
		_, unseen := pipeline.Unseen(item.Text)
		switch {
		case item.Text == "" || len(item.Text) > maxPerson || unseen:
			r.Add(item, "value-invalid", at,
				"want the name of a person, of at most %d bytes and visible characters only, not %+q", maxPerson, item.Text)
		case slices.Contains(names, item.Text):
			r.Add(item, "name-repeated", at, "%q is named twice", item.Text)
		default:
			names = append(names, item.Text)
		}
	}
	return names
}
