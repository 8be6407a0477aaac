package callback

import (
	"cmp"
	"net/http"
	"strconv"
	"strings"

	"github.com/waybill-dev/waybill/internal/action"
)

// Problem returns the HTTP status and the type of the problem (RFC 7807) of a job that has not ended well. The answer
// of the handler's target is the failure's own status; code is the end's.
func Problem(end action.Status, code string) (status int, kind string) {
	kind = "waybill:" + cmp.Or(code, strings.ToLower(end.String()))
	switch end {
	case action.Canceled:
		return http.StatusGone, kind
	case action.Invalid:
		return http.StatusBadRequest, kind
	case action.TimedOut:
		return http.StatusGatewayTimeout, kind
	}
	if text, ok := strings.CutPrefix(code, "http_"); ok {
		if answered, err := strconv.Atoi(text); err == nil && answered >= http.StatusBadRequest && answered < 600 {
			return answered, kind
		}
	}
	return http.StatusInternalServerError, kind
}
