package build

import (
	"errors"
	"path"
	"strings"
)

// CheckGlob returns an error that names the fault of a pattern.
func CheckGlob(pattern string) error {
	if pattern == "" {
		return errors.New("it is empty")
	}
	for _, part := range strings.Split(path.Clean(pattern), "/") {
		if _, err := path.Match(part, ""); err != nil {
			return errors.New("a bracket or a backslash at its end is not closed")
		}
	}
	return nil
}

// MatchGlob reports whether a slash-separated relative path matches. A part ** of
// the pattern matches any number of folders, none included; *, ? and […]
// stay within one name. A pattern that CheckGlob refuses matches nothing.
func MatchGlob(pattern, name string) bool {
	parts := strings.Split(path.Clean(pattern), "/")
	names := strings.Split(path.Clean(name), "/")
	// reach[j]: the parts so far match the first j names.
	reach := make([]bool, len(names)+1)
	reach[0] = true
	for _, part := range parts {
		next := make([]bool, len(names)+1)
		for j := range next {
			switch {
			case part == "**":
				next[j] = reach[j] || j > 0 && next[j-1]
			case j > 0 && reach[j-1]:
				ok, err := path.Match(part, names[j-1])
				next[j] = ok && err == nil
			}
		}
		reach = next
	}
	return reach[len(names)]
}
