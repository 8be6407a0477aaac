package server

import (
	"net/url"
	"slices"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/store"
)

// RefuseUnknown returns an error that names a query parameter that an operation does not know.
func RefuseUnknown(query url.Values, known []string) error {
	for name := range query {
		if !slices.Contains(known, name) {
			return fault.New(fault.Invalid, "unknown query parameter %q", name).WithNearest(name, known)
		}
	}
	return nil
}

// refuseNotText refuses an address with invalid text, which not every database can store or compare.
func refuseNotText(u *url.URL) error {
	if !store.IsText(u.Path) {
		return fault.New(fault.Invalid, "the path of the request has a NUL character or is not valid UTF-8")
	}
	for name, values := range u.Query() {
		for _, value := range append(values, name) {
			if !store.IsText(value) {
				return fault.New(fault.Invalid, "query parameter %q has a NUL character or is not valid UTF-8", name)
			}
		}
	}
	return nil
}
