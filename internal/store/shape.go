package store

import (
	"slices"
	"strings"
)

// Object is a part of a database, such as a table, a column or a trigger.
type Object struct{ Kind, Name string }

// ObjectRows are rows of a query for the kind, the name and the text of objects.
type ObjectRows interface {
	Next() bool
	Scan(into ...any) error
	Err() error
}

// ReadObjects returns the text of each object, in which one space separates words. The caller closes the rows.
func ReadObjects(rows ObjectRows) (map[Object]string, error) {
	objects := map[Object]string{}
	for rows.Next() {
		var o Object
		var text string
		if err := rows.Scan(&o.Kind, &o.Name, &text); err != nil {
			return nil, err
		}
		objects[o] = strings.Join(strings.Fields(text), " ")
	}
	return objects, rows.Err()
}

// Differences names what of a database is missing, foreign or different, sorted. The texts are what objects consist of.
func Differences(want, got map[Object]string) (texts []string) {
	for o, text := range want {
		switch found, there := got[o]; {
		case !there:
			texts = append(texts, o.Kind+" "+o.Name+" is missing")
		case found != text:
			texts = append(texts, o.Kind+" "+o.Name+" was changed")
		}
	}
	for o := range got {
		if _, known := want[o]; !known {
			texts = append(texts, o.Kind+" "+o.Name+" is foreign")
		}
	}
	slices.Sort(texts)
	return texts
}
