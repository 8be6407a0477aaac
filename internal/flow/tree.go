package flow

// tree is a part of an object of any form: a field of another form than the wanted one is absent.
type tree map[string]any

// node returns the object in a field; nil if there is none.
func (t tree) node(name string) tree {
	found, _ := t[name].(map[string]any)
	return found
}

// nodes returns the objects in a list.
func (t tree) nodes(name string) []tree {
	list, _ := t[name].([]any)
	var found []tree
	for _, one := range list {
		if fields, ok := one.(map[string]any); ok {
			found = append(found, fields)
		}
	}
	return found
}

// text returns a text; "" if there is none.
func (t tree) text(name string) string {
	found, _ := t[name].(string)
	return found
}

// number returns a whole number, and whether there is one.
func (t tree) number(name string) (int64, bool) { return whole(t[name]) }

// count returns a whole number, or the value of one that is absent.
func (t tree) count(name string, absent int64) int64 {
	if n, ok := t.number(name); ok {
		return n
	}
	return absent
}

// whole returns the whole number that a value of JSON is. Numbers may have been read as any of the three types.
func whole(value any) (int64, bool) {
	switch n := value.(type) {
	case int64:
		return n, true
	case int:
		return int64(n), true
	case float64:
		const exact = 1 << 53
		return int64(n), n >= -exact && n <= exact && n == float64(int64(n))
	}
	return 0, false
}
