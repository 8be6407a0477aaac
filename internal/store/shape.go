package store

import "slices"

// Object is a part of a database, such as a table, a column or a trigger.
type Object struct{ Kind, Name string }

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
