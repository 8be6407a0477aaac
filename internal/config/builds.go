package config

import (
	"cmp"
	"path"
	"regexp"
	"strings"

	"github.com/waybill-dev/waybill/internal/document"
	"github.com/waybill-dev/waybill/internal/git"
)

// Builds lists the projects that can be built without a deployment.
type Builds struct {
	Projects  map[string]Project  // by name
	Engines   map[string]Handler  // other build engines, by name: the webhook that starts a build there
	Reporters map[string][]string // names of the tokens that may report, by engine; without an entry: the token with the engine's name
	Engine    string              // what builds are started at unless they, or their project, name one; "" (default): workers of Waybill
}

// Project is a repository whose file .wharf-ci.yml can be built.
type Project struct {
	ID           string // number that names its Secrets in a cluster, of digits; "" (default): its name, if that is a number, else it has none
	Repository   string // its URL, without a password
	Branch       string // what is built unless a build names another; "" (default): the repository's own
	Subdirectory string // with the build's file; "" (default): the root
	Credential   string // name of an entry of builder.provisioner.credentials; "" (default): none
	Engine       string // what its builds are started at unless they name one; "" (default): that of all projects
}

// buildsKeys returns the keys of builds.
func buildsKeys() []document.Key {
	return []document.Key{
		{Name: "projects", Shape: document.Object, Help: "repositories that can be built without a deployment, by the name of the project"},
		{Name: "engines", Shape: document.Object, Help: "other build engines, by name: the webhook that starts a build there"},
		{Name: "engine", Shape: document.Text, Help: "what starts builds that name none: one of engines; default: workers of Waybill"},
	}
}

// projectKeys returns the keys of one project.
func projectKeys() []document.Key {
	return []document.Key{
		{Name: "id", Shape: document.Number, Help: "number of the project, PROJECT_ID, which names its Secrets; no other project may have it"},
		{Name: "repository", Shape: document.Text, Required: true, Help: "its URL, without a password"},
		{Name: "branch", Shape: document.Text, Help: "what is built unless a build names another one; default: the repository's own"},
		{Name: "subdirectory", Shape: document.Text, Help: "with the build's file; default: the root"},
		{Name: "credential", Shape: document.Text, Help: "name of an entry of builder.provisioner.credentials"},
		{Name: "engine", Shape: document.Text,
			Help: "what starts its builds that name none: one of builds.engines, or waybill; default: builds.engine"},
	}
}

// projects reads every project of the file.
func (r *reader) projects(n *document.Node, b *Builds) {
	if !fits(n, document.Object) {
		return
	}
	b.Projects = map[string]Project{}
	for _, f := range n.Fields {
		if !handlerName.MatchString(f.Key) {
			r.Add(&document.Node{At: f.At}, "value-invalid", "",
				"project %q: want a name of letters, digits, -, _ and . with at most 63 characters", f.Key)
			continue
		}
		at := r.Join("builds.projects", f.Key)
		if r.Check(f.Value, document.Place{Path: at, At: f.At}, projectKeys()) {
			p := r.project(f.Value, at)
			p.ID = r.projectID(f, at, *b)
			b.Projects[f.Key] = p
		}
	}
}

// longestID bounds the number of a project, in digits.
const longestID = 18

// ownID matches the number of a project.
var ownID = regexp.MustCompile(`^[1-9][0-9]{0,17}$`)

// projectID reads the number of a project. Those before it are in b.
func (r *reader) projectID(f document.Field, at string, b Builds) string {
	n, id := f.Value.Get("id"), ""
	if fits(n, document.Number) {
		if id = n.Text; !ownID.MatchString(id) {
			r.Add(n, "value-invalid", at+".id", "want a whole number above zero of at most %d digits, found %s", longestID, id)
			return ""
		}
	}
	same := b.ProjectOf(cmp.Or(id, f.Key))
	if same == "" {
		return id
	}
	if n == nil {
		n = &document.Node{At: f.At}
	}
	r.Add(n, "value-invalid", at+".id", "project %s has the same number as project %s, so their Secrets would be the same", f.Key, same)
	return id
}

// ProjectOf returns the project with a number; "": none.
func (b Builds) ProjectOf(id string) string {
	for name, p := range b.Projects {
		if cmp.Or(p.ID, name) == id {
			return name
		}
	}
	return ""
}

func (r *reader) project(n *document.Node, at string) Project {
	p := Project{Repository: n.Str("repository"), Branch: n.Str("branch"), Subdirectory: n.Str("subdirectory"),
		Credential: n.Str("credential"), Engine: n.Str("engine")}
	if err := (git.Clone{URL: p.Repository, Branch: p.Branch}).CheckPlace(); err != nil && fits(n.Get("repository"), document.Text) {
		r.Add(n.Get("repository"), "value-invalid", at, "%s", err)
	}
	clean := path.Clean(p.Subdirectory)
	if path.IsAbs(clean) || clean == ".." || strings.HasPrefix(clean, "../") {
		r.Add(n.Get("subdirectory"), "value-invalid", at+".subdirectory", "want a path inside the repository, found %q", p.Subdirectory)
	}
	return p
}
