package buildview

import (
	"strconv"

	"github.com/waybill-dev/waybill/internal/builds"
)

// NameOf returns the id of a build as the API has it.
func NameOf(id builds.ID) string { return strconv.FormatInt(int64(id), 10) }

// NumberOf returns the number of a build of the database, which is its id in the API; ok is false for the name of a folder.
func NumberOf(id string) (number builds.ID, ok bool) {
	n, err := strconv.ParseInt(id, 10, 64)
	return builds.ID(n), err == nil && n > 0
}
