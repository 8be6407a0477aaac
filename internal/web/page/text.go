package page

import (
	"fmt"
	"strings"
)

// Plural returns a number with its noun, such as 1 host or 12 hosts.
func Plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// ShortDigest returns the beginning of a digest in hexadecimal.
func ShortDigest(hex string) string { return hex[:min(8, len(hex))] }

// BelowPipeline returns a target without its pipeline, such as prod/east/elm.
func BelowPipeline(target string) string {
	if _, rest, found := strings.Cut(target, "/"); found {
		return rest
	}
	return target
}

// Join returns words as a list.
func Join(words []string) string { return strings.Join(words, ", ") }
