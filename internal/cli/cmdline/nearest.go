package cmdline

import "github.com/waybill-dev/waybill/internal/fault"

// NearestHint adds the hint to an error about a name that is not known: format with the nearest known name, or rest when no
// known name is near.
func NearestHint(wrong *fault.Error, name string, known []string, format, rest string) *fault.Error {
	if near := fault.Nearest(name, known); near != "" {
		return wrong.WithHint(format, near)
	}
	return wrong.WithHint("%s", rest)
}
