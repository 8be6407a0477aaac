package mirror

import (
	"regexp"
	"strings"
)

// globs are patterns of paths; none match every path.
type globs []*regexp.Regexp

// parseGlobs reads patterns in which * and ? match within a part of a path, ** any number of parts. A pattern also matches
// all below the folder that it names.
func parseGlobs(patterns []string) (globs, error) {
	const mostPatterns, longest = 100, 1024
	if len(patterns) > mostPatterns {
		return nil, fatal("BadPaths", "there are more than %d paths", mostPatterns)
	}
	var parsed globs
	for _, pattern := range patterns {
		if len(pattern) > longest {
			return nil, fatal("BadPaths", "the path %.40q… has more than %d bytes", pattern, longest)
		}
		var b strings.Builder
		b.WriteString(`(?s)\A`)
		for rest := strings.Trim(strings.TrimPrefix(pattern, "./"), "/"); rest != ""; {
			switch {
			case strings.HasPrefix(rest, "**/"):
				b.WriteString(`(?:.*/)?`)
				rest = rest[3:]
			case strings.HasPrefix(rest, "**"):
				b.WriteString(`.*`)
				rest = rest[2:]
			case rest[0] == '*':
				b.WriteString(`[^/]*`)
				rest = rest[1:]
			case rest[0] == '?':
				b.WriteString(`[^/]`)
				rest = rest[1:]
			default:
				end := strings.IndexAny(rest, "*?")
				if end < 0 {
					end = len(rest)
				}
				b.WriteString(regexp.QuoteMeta(rest[:end]))
				rest = rest[end:]
			}
		}
		b.WriteString(`(?:/.*)?\z`)
		compiled, err := regexp.Compile(b.String())
		if err != nil {
			return nil, fatal("BadPaths", "the path %q: %v", pattern, err)
		}
		parsed = append(parsed, compiled)
	}
	return parsed, nil
}

func (g globs) match(path string) bool {
	for _, pattern := range g {
		if pattern.MatchString(path) {
			return true
		}
	}
	return len(g) == 0
}
