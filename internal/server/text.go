package server

import (
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/waybill-dev/waybill/internal/fault"
)

// refuseNotText refuses an address with what is no text: not every database stores it, or finds anything by it.
func refuseNotText(u *url.URL) error {
	if !isText(u.Path) {
		return fault.New(fault.Invalid, "the path of the request has a NUL character or is not valid UTF-8")
	}
	for name, values := range u.Query() {
		for _, value := range append(values, name) {
			if !isText(value) {
				return fault.New(fault.Invalid, "query parameter %q has a NUL character or is not valid UTF-8", name)
			}
		}
	}
	return nil
}

func isText(text string) bool { return utf8.ValidString(text) && !strings.Contains(text, "\x00") }
