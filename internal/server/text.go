package server

import (
	"net/url"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/store"
)

// refuseNotText refuses an address that has invalid text: not every database stores it, or finds anything by it.
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
