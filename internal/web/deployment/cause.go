package deployment

import (
	"encoding/json"
	"strings"

	"github.com/waybill-dev/waybill/internal/service"
	"github.com/waybill-dev/waybill/internal/web/page"
)

// causeShown bounds the steps that are named with an error.
const causeShown = 20

// cause is an error with the steps that failed by it.
type cause struct {
	service.Failure
	Where []service.Failure // at most causeShown
	More  int               // number of further steps
}

// Causes groups the failures by their text, so that the page shows each text once.
func (d deploymentPage) Causes() (causes []*cause) {
	by := map[[2]string]*cause{}
	for _, f := range d.Failures {
		key := [2]string{f.Why, f.Todo}
		if by[key] == nil {
			by[key] = &cause{Failure: f}
			causes = append(causes, by[key])
		}
		if len(by[key].Where) < causeShown {
			by[key].Where = append(by[key].Where, f)
		} else {
			by[key].More++
		}
	}
	return causes
}

// Brief returns an entry's detail without the errors that the page shows above it.
func (d deploymentPage) Brief(raw json.RawMessage) string {
	return page.DetailWith(raw, func(text string) string {
		for _, f := range d.Failures {
			if before, found := strings.CutSuffix(": "+withoutCode(text), ": "+f.Why); found && f.Why != "" {
				return strings.TrimPrefix(before+": see above", ": ")
			}
		}
		return text
	})
}

// withoutCode returns an error of the log without the status of its action at the end, such as
// (RETRIES_EXHAUSTED).
func withoutCode(text string) string {
	at := strings.LastIndex(text, " (")
	if at < 0 {
		return text
	}
	code, closed := strings.CutSuffix(text[at+2:], ")")
	if closed && code != "" && strings.Trim(code, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_") == "" {
		return text[:at]
	}
	return text
}
