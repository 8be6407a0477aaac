package trigger

import (
	"strings"

	"github.com/waybill-dev/waybill/internal/cloudevent"
)

// Filter selects events by their attributes. It has exactly one of its fields, a dialect of the CloudEvents
// Subscriptions API. Make it with ParseFilter.
type Filter struct {
	Exact  map[string]string // texts of attributes; all must be equal
	Prefix map[string]string // beginnings of attributes; all must fit
	Suffix map[string]string // ends of attributes; all must fit
	All    []Filter          // all must match
	Any    []Filter          // one must match
	Not    *Filter           // must not match
}

// Matches reports whether the filter selects an event; nil selects all. Texts are compared byte by byte with the
// canonical text of an attribute. An absent attribute is neither equal to a text nor begins or ends with it.
func (f *Filter) Matches(e *cloudevent.Event) bool {
	switch {
	case f == nil:
		return true
	case f.Not != nil:
		return !f.Not.Matches(e)
	case f.Any != nil:
		for i := range f.Any {
			if f.Any[i].Matches(e) {
				return true
			}
		}
		return false
	}
	for i := range f.All {
		if !f.All[i].Matches(e) {
			return false
		}
	}
	return compare(e, f.Exact, func(text, want string) bool { return text == want }) &&
		compare(e, f.Prefix, strings.HasPrefix) && compare(e, f.Suffix, strings.HasSuffix)
}

// compare reports whether all of these attributes are there and fit.
func compare(e *cloudevent.Event, wanted map[string]string, fits func(text, want string) bool) bool {
	for name, want := range wanted {
		if text, ok := e.Attribute(name); !ok || !fits(text, want) {
			return false
		}
	}
	return true
}
