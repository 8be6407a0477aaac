package githost

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"

	"github.com/waybill-dev/waybill/internal/promotion"
)

// repository is the place of a repository on its host.
type repository struct {
	api   *url.URL // address of the host's API, without the repository
	host  string   // name of the host in the repository's address
	owner string   // user, organization, workspace or project; of GitLab and Azure DevOps all folders above
	name  string
}

// path returns owner and name for an address.
func (r repository) path() string { return url.PathEscape(r.owner) + "/" + url.PathEscape(r.name) }

// scp matches the short form of SSH addresses: git@host:owner/name.git.
var scp = regexp.MustCompile(`^(?:[^@/:]+@)?([^@/:]+):([^/].*)$`)

// part matches the parts of a repository's path.
var part = regexp.MustCompile(`^[^\s/\\?#%:*"<>|]{1,128}$`)

// parseRepository reads the address of a repository, in its HTTP or SSH form.
func parseRepository(host promotion.Host) (repository, error) {
	text := strings.TrimSpace(host.URL)
	if m := scp.FindStringSubmatch(text); m != nil && !strings.Contains(text, "://") {
		text = "ssh://" + m[1] + "/" + m[2]
	}
	u, err := url.Parse(text)
	if err != nil || u.Hostname() == "" || len(text) > 2048 {
		return repository{}, fmt.Errorf("%q is not an address such as https://git.example.com/apps/fleet", cut(host.URL, 256))
	}
	web := &url.URL{Scheme: "https", Host: u.Host}
	switch u.Scheme {
	case "http", "https":
		web.Scheme = u.Scheme
	case "ssh":
		web.Host = u.Hostname() // its port is not that of the API
	default:
		return repository{}, fmt.Errorf("%q: the scheme is not http, https or ssh", cut(host.URL, 256))
	}
	path := strings.TrimSuffix(strings.Trim(u.Path, "/"), ".git")
	parts := strings.Split(path, "/")
	for _, p := range parts {
		if !part.MatchString(p) || p == "." || p == ".." {
			return repository{}, fmt.Errorf("%q does not name a repository", cut(host.URL, 256))
		}
	}
	at := repository{host: u.Hostname()}
	if err := at.locate(host.Type, web, parts); err != nil {
		return at, fmt.Errorf("%q: %w", cut(host.URL, 256), err)
	}
	if host.APIURL != "" {
		at.api, err = parseAPI(host.APIURL)
	}
	return at, err
}

// parseAPI reads the address of a host's API.
func parseAPI(text string) (*url.URL, error) {
	api, err := url.Parse(text)
	if err != nil || api.Host == "" || api.User != nil || api.Scheme != "http" && api.Scheme != "https" {
		return nil, fmt.Errorf("apiURL: %q is not an address such as https://git.example.com/api", cut(text, 256))
	}
	return api, nil
}

var errShort = errors.New("the address ends before the name of a repository")

// locate finds owner, name and API of a repository in the parts of its path.
func (r *repository) locate(kind string, web *url.URL, parts []string) error {
	if len(parts) < 2 {
		return errShort
	}
	last := len(parts) - 1
	r.owner, r.name = parts[last-1], parts[last]
	above := strings.Join(parts[:last-1], "/") // path of the host's root, where it has one
	switch kind {
	case GitHub:
		r.api = web.JoinPath(above, "api/v3")
		if web.Host == "github.com" {
			r.api = &url.URL{Scheme: "https", Host: "api.github.com"}
		}
	case GitLab:
		r.owner, r.api = strings.Join(parts[:last], "/"), web.JoinPath("api/v4")
	case Gitea, Forgejo:
		r.api = web.JoinPath(above, "api/v1")
	case BitbucketServer:
		return r.locateServer(web, parts)
	case BitbucketCloud:
		r.api = &url.URL{Scheme: "https", Host: "api.bitbucket.org", Path: "/2.0"}
	case AzureDevOps:
		return r.locateAzure(web, parts)
	default:
		return fmt.Errorf("type %q is not that of a Git host", cut(kind, 64))
	}
	return nil
}

// locateServer reads the addresses of Bitbucket Server: scm/KEY/name, projects/KEY/repos/name, users/NAME/repos/name, or
// KEY/name over SSH.
func (r *repository) locateServer(web *url.URL, parts []string) error {
	root := len(parts) - 2
	for i, p := range parts {
		switch {
		case p == "scm" && len(parts) == i+3:
			root = i
		case (p == "projects" || p == "users") && len(parts) >= i+4 && parts[i+2] == "repos":
			root, r.owner, r.name = i, parts[i+1], parts[i+3]
			if p == "users" {
				r.owner = "~" + r.owner
			}
		}
	}
	r.api = web.JoinPath(strings.Join(parts[:root], "/"), "rest/api/1.0")
	return nil
}

// locateAzure reads the addresses of Azure DevOps: organization/project/_git/name on dev.azure.com,
// project/_git/name on organization.visualstudio.com, any prefix of those on a server, and v3/organization/project/name
// over SSH. A project's repository of the same name has the short form project's parent/_git/name.
func (r *repository) locateAzure(web *url.URL, parts []string) error {
	if parts[0] == "v3" && len(parts) == 4 {
		parts = []string{parts[1], parts[2], "_git", parts[3]}
		web.Host = strings.TrimPrefix(web.Host, "ssh.")
	}
	for i, p := range parts {
		if p != "_git" || i+1 >= len(parts) {
			continue
		}
		r.name, r.owner = parts[i+1], parts[i+1]
		above := parts[:i]
		short := 0 // number of parts above the project
		if strings.EqualFold(web.Host, "dev.azure.com") {
			short = 1
		}
		if len(above) > short {
			r.owner, above = above[len(above)-1], above[:len(above)-1]
		}
		if r.api = web; len(above) > 0 {
			r.api = web.JoinPath(above...)
		}
		return nil
	}
	return errors.New("the address has no /_git/")
}
