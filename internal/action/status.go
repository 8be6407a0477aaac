package action

import (
	"fmt"
	"strings"
)

// ParseStatus reads a status' name in any case.
func ParseStatus(name string) (Status, error) {
	for s := Pending; s <= RetriesExhausted; s++ {
		if strings.EqualFold(name, s.String()) {
			return s, nil
		}
	}
	return 0, fmt.Errorf("%q is not a status: want one of %s", name, strings.ToLower(strings.Join(statusNames[1:], ", ")))
}
