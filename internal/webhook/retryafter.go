package webhook

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// longestPause is how far ahead Retry-After counts at most.
const longestPause = time.Hour

// RetryAfter returns the time that an answer's Retry-After names, in seconds or as a date; at most an
// hour ahead. ok is false when it names none, or one that has passed.
func RetryAfter(header http.Header, now time.Time) (at time.Time, ok bool) {
	text := strings.TrimSpace(header.Get("Retry-After"))
	if seconds, err := strconv.ParseUint(text, 10, 63); err == nil || errors.Is(err, strconv.ErrRange) {
		at = now.Add(min(longestPause, time.Duration(min(seconds, uint64(longestPause/time.Second)))*time.Second))
	} else if date, err := http.ParseTime(text); err == nil {
		at = date
	}
	if limit := now.Add(longestPause); at.After(limit) {
		at = limit
	}
	return at, at.After(now)
}
