package marker

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxRevision bounds the bytes of a revision.
const maxRevision = 256

// CheckRevision returns an error for a revision that cannot be written after a key: one that is empty or too long, or
// that has characters without a printed form.
func CheckRevision(revision string) error {
	switch {
	case revision == "":
		return errors.New("the revision is empty")
	case len(revision) > maxRevision:
		return fmt.Errorf("the revision %.40q… has more than %d bytes", revision, maxRevision)
	case !utf8.ValidString(revision), strings.ContainsFunc(revision, func(r rune) bool { return !unicode.IsPrint(r) }):
		return fmt.Errorf("the revision %q has characters that cannot be printed", revision)
	case strings.TrimSpace(revision) != revision:
		return fmt.Errorf("the revision %q begins or ends with a space", revision)
	}
	return nil
}

var digest = regexp.MustCompile(`^sha(?:1|224|256|384|512):[0-9a-f]+$`)

// partOf returns a part of a revision of the form name:tag@digest, of which only the tag is required. A revision without
// a name is its own tag; a digest alone is both.
func partOf(revision string, part Part) (string, error) {
	if part == Whole {
		return revision, nil
	}
	parts := map[Part]string{}
	if digest.MatchString(revision) {
		parts[Tag], parts[Digest] = revision, revision
	} else {
		rest := revision
		if at := strings.LastIndexByte(rest, '@'); at >= 0 {
			rest, parts[Digest] = rest[:at], rest[at+1:]
		}
		parts[Tag] = rest
		// a colon before a slash is that of a registry's port
		if colon := strings.LastIndexByte(rest, ':'); colon > strings.LastIndexByte(rest, '/') {
			parts[Name], parts[Tag] = rest[:colon], rest[colon+1:]
		}
	}
	if parts[part] == "" {
		return "", fmt.Errorf("the marker is of a %s, and the revision %q has none", part, revision)
	}
	return parts[part], nil
}
