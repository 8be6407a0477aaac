package pipeline

import "strings"

// longestBranch is the number of bytes in the name of a branch that every Git host takes.
const longestBranch = 244

// IsBranch reports whether Git accepts the name of a branch, by the rules of git check-ref-format --branch.
func IsBranch(name string) bool {
	isForbidden := func(r rune) bool { return r < ' ' || r == 0x7f || strings.ContainsRune(" ~^:?*[\\", r) }
	if name == "@" || name == "HEAD" || len(name) > longestBranch || strings.ContainsFunc(name, isForbidden) {
		return false
	}
	if strings.Contains(name, "..") || strings.Contains(name, "@{") || strings.HasPrefix(name, "-") || strings.HasSuffix(name, ".") {
		return false
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == "" || strings.HasPrefix(part, ".") || strings.HasSuffix(part, ".lock") {
			return false
		}
	}
	return true
}
