package attempt

import (
	"strings"

	"github.com/dustin/go-humanize"
)

// ImageRefused reports whether the text of a failed pull means that pulling again fails, too: the image does
// not exist, or this user may not have it.
func ImageRefused(text string) bool {
	text = strings.ToLower(text)
	for _, sign := range []string{"not found", "manifest unknown", "access denied", "unauthorized", "denied:",
		"no matching manifest", "no basic auth credentials", "invalid reference"} {
		if strings.Contains(text, sign) {
			return true
		}
	}
	return false
}

// OutOfMemory returns the reason of a step that was killed because it used too much memory. limit has bytes; 0: none.
func OutOfMemory(limit int64) string {
	if limit <= 0 {
		return "OOMKilled"
	}
	return "OOMKilled, the memory limit is " + humanize.IBytes(uint64(limit))
}
