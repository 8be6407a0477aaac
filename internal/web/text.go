package web

import (
	"fmt"
	"strings"
)

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

func shortDigest(hex string) string { return hex[:min(8, len(hex))] }

// belowPipeline returns a target without its pipeline, such as prod/east/elm.
func belowPipeline(target string) string {
	if _, rest, found := strings.Cut(target, "/"); found {
		return rest
	}
	return target
}
