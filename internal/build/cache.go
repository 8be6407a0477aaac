package build

import (
	"path"
	"slices"
	"strings"

	"github.com/waybill-dev/waybill/internal/document"
)

// CacheRule is files that a step leaves for the same step of later builds.
type CacheRule struct {
	Key     string   `json:"key"`               // ${hash:GLOB} in it is the digest of the files that match
	Paths   []string `json:"paths"`             // files, folders and globs of the workspace
	Restore []string `json:"restore,omitempty"` // beginnings of other keys, whose newest entry is taken instead of a missing one
}

// In reports whether a file or folder of the workspace, by slash-separated path, belongs to the rule.
func (c CacheRule) In(file string) bool {
	return slices.ContainsFunc(c.Paths, func(p string) bool {
		p = path.Clean(p)
		return file == p || strings.HasPrefix(file, p+"/") || MatchGlob(p, file)
	})
}

// hashPrefix begins the name of the variables in a key: ${hash:GLOB}.
const hashPrefix = "hash:"

// ExpandHashes replaces each ${hash:GLOB} of a key by what hash returns for the glob.
func ExpandHashes(key string, hash func(glob string) (string, error)) (string, error) {
	var out strings.Builder
	for {
		before, inside, after, found := cutVariable(key)
		out.WriteString(before)
		if !found {
			return out.String(), nil
		}
		glob, ok := strings.CutPrefix(inside, hashPrefix)
		if !ok {
			out.WriteString("${" + inside + "}")
		} else if digest, err := hash(strings.TrimSpace(glob)); err != nil {
			return "", err
		} else {
			out.WriteString(digest)
		}
		key = after
	}
}

// caches reads the files that a step leaves for later builds.
func (r *reader) caches(n *document.Node, scope string) []CacheRule {
	if !r.atMost(maxCaches, n, scope, "a step has at most %d caches") {
		return nil
	}
	var out []CacheRule
	for i, item := range n.Items {
		at := document.Index(scope, i)
		if !r.atMost(maxPaths, item.Get("paths"), r.Join(at, "paths"), "a cache has at most %d paths") ||
			!r.atMost(maxPaths, item.Get("restore"), r.Join(at, "restore"), "a cache has at most %d restore keys") {
			continue
		}
		rule := CacheRule{Key: item.Str("key"), Paths: item.Strs("paths"), Restore: item.Strs("restore")}
		for j, p := range item.Get("paths").Items {
			if !r.open(p) {
				r.glob(p, document.Index(r.Join(at, "paths"), j))
			}
		}
		r.checkHashes(item.Get("key"), r.Join(at, "key"))
		if restore := item.Get("restore"); restore != nil {
			for j, prefix := range restore.Items {
				r.checkHashes(prefix, document.Index(r.Join(at, "restore"), j))
			}
		}
		out = append(out, rule)
	}
	return out
}

// checkHashes reports the globs of a key that are not valid.
func (r *reader) checkHashes(key *document.Node, scope string) {
	_, _ = ExpandHashes(key.Text, func(glob string) (string, error) {
		if err := CheckGlob(glob); err != nil {
			r.Add(key, "glob-invalid", scope, "${%s%s}: %v", hashPrefix, glob, err)
		}
		return "", nil
	})
}
