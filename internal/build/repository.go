package build

import (
	"net/url"
	"regexp"
	"strings"
)

// versionFolder matches the folder that some hosts put in front of the path of a repository, as in
// v3/org/project/repo.
var versionFolder = regexp.MustCompile(`^v[0-9]+/`)

// RepositoryOf splits the URL of a repository into REPO_GROUP and REPO_NAME: its last element without .git, and the
// path before it.
func RepositoryOf(address string) (group, name string) {
	path := strings.Trim(pathOf(address), "/")
	if i := strings.LastIndexByte(path, '/'); i >= 0 {
		group, path = path[:i], path[i+1:]
	}
	group = versionFolder.ReplaceAllString(group+"/", "")
	group = strings.TrimSuffix("/"+strings.TrimSuffix(group, "/"), "/_git")
	return strings.Trim(group, "/"), strings.TrimSuffix(path, ".git")
}

// pathOf returns the path of a URL, of the form host:path that ssh has, or of a file.
func pathOf(address string) string {
	if strings.Contains(address, "://") {
		if u, err := url.Parse(address); err == nil {
			return u.Path
		}
		_, address, _ = strings.Cut(address, "://")
		_, address, _ = strings.Cut(address, "/")
		return address
	}
	if host, path, ok := strings.Cut(address, ":"); ok && !strings.Contains(host, "/") {
		return path
	}
	return address
}
