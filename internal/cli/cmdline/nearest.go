package cmdline

import (
	"fmt"

	"github.com/waybill-dev/waybill/internal/fault"
)

// NearestHint returns the hint for a name that is not known: format with the nearest known name, or rest
// when no known name is near.
func NearestHint(name string, known []string, format, rest string) string {
	if near := fault.Nearest(name, known); near != "" {
		return fmt.Sprintf(format, near)
	}
	return rest
}
