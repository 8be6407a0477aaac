package page

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/definition"
	"github.com/waybill-dev/waybill/internal/fault"
)

// Number returns the number in a field or a parameter of the address; 0 without one.
func Number(r *http.Request, name string) (int64, error) {
	text := r.FormValue(name)
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return 0, fault.New(fault.Invalid, "%s: want a number, found %q", name, text)
	}
	return n, nil
}

// WithQuery returns this page's address with a parameter set to value, or without the parameter if
// value is "".
func WithQuery(r *http.Request, name, value string) string {
	query := url.Values{}
	for key, values := range r.URL.Query() {
		query[key] = values
	}
	query.Set(name, value)
	if value == "" {
		query.Del(name)
	}
	if len(query) == 0 {
		return r.URL.Path
	}
	return r.URL.Path + "?" + query.Encode()
}

// Duration returns the duration in a field of a form, such as 30m or 7d.
func Duration(r *http.Request, field string) (time.Duration, error) {
	text := strings.TrimSpace(r.PostFormValue(field))
	d, err := definition.ParseDuration(text)
	if err != nil || d <= 0 {
		return 0, fault.New(fault.Invalid, "%s: want a duration such as 30m, 2h or 7d, found %q", field, text)
	}
	return d, nil
}
