package resource

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/waybill-dev/waybill/api/kube/v1alpha1"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/promotion"
)

// The kinds of Git hosts.
const (
	GitHub          = "github"
	GitLab          = "gitlab"
	BitbucketServer = "bitbucket-server"
	Gitea           = "gitea"
	Forgejo         = "forgejo"
	BitbucketCloud  = "bitbucket-cloud"
	AzureDevOps     = "azure-devops"
)

// hosts lists the kinds of Git hosts.
func hosts() []string {
	return []string{GitHub, GitLab, BitbucketServer, Gitea, Forgejo, BitbucketCloud, AzureDevOps}
}

// strategy is a way of promoting: both fields are nil if it has a fault.
type strategy struct {
	host         *promotion.Host
	notification *notification
}

// notification is a way of promoting by notification.
type notification struct{ webhook *promotion.Sink }

// promotion reads a way of promoting into an environment.
func (r *reader) promotion(at string, p v1alpha1.Promotion, env promotion.EnvName) (s strategy) {
	at += ".strategy"
	r.secret(at+".secretRef", p.Strategy.SecretRef)
	pull, notify := p.Strategy.PullRequest, p.Strategy.Notification
	switch {
	case pull != nil && notify != nil:
		r.add(at, "has both pull-request and notification, want one")
	case pull != nil:
		s.host = r.pullRequest(at+".pull-request", *pull, env)
	case notify != nil:
		s.notification = r.notification(at+".notification", *notify)
	default:
		r.add(at, "has neither pull-request nor notification, want one")
	}
	return s
}

// pullRequest reads a strategy by pull request.
func (r *reader) pullRequest(at string, p v1alpha1.PullRequest, env promotion.EnvName) *promotion.Host {
	out := &promotion.Host{
		Type: p.Type, URL: p.URL, APIURL: p.APIURL, Base: p.BaseBranch, Branch: p.Branch, Draft: p.Draft,
		Secret:    r.secret(at+".secretRef", &p.SecretRef),
		Paths:     capped(r, at+".paths", p.Paths, maxItems),
		Labels:    r.texts(at+".labels", p.Labels),
		Reviewers: r.people(at+".reviewers", p.Reviewers),
		Assignees: r.people(at+".assignees", p.Assignees),
		Close:     oneOf(r, at+".supersede", p.Supersede, "Update", "Close") == "Close",
	}
	if !slices.Contains(hosts(), p.Type) {
		r.add(at+".type", "want one of %s, found %.50q", join(hosts()), p.Type)
	}
	r.repository(at+".url", p.URL)
	if p.APIURL != "" {
		r.httpURL(at+".apiURL", p.APIURL)
		r.encrypted(at+".apiURL", p.APIURL)
	}
	if !pipeline.IsBranch(p.BaseBranch) {
		r.add(at+".baseBranch", "%.100q is not the name of a branch", p.BaseBranch)
	}
	switch {
	case p.Branch == "":
		out.Branch = HeadBranch(r.namespace, r.name, env)
	case !pipeline.IsBranch(p.Branch):
		r.add(at+".branch", "%.100q is not the name of a branch", p.Branch)
	case p.Branch == p.BaseBranch:
		r.add(at+".branch", "is the base branch too")
	}
	for i, glob := range out.Paths {
		r.glob(fmt.Sprintf("%s.paths[%d]", at, i), glob)
	}
	return out
}

// glob checks a pattern of files in a repository.
func (r *reader) glob(field, glob string) {
	if glob == "" || len(glob) > maxName || hasControl(glob) || path.IsAbs(glob) || strings.HasPrefix(glob, ":") ||
		slices.Contains(strings.Split(glob, "/"), "..") {
		r.add(field, "want a glob of files in the repository such as clusters/*/*.yaml, found %.100q", glob)
	}
}

// people reads users and teams.
func (r *reader) people(field string, list []string) []string {
	list = r.texts(field, list)
	for i, name := range list {
		if team, is := strings.CutPrefix(name, "team:"); is && team == "" {
			r.add(fmt.Sprintf("%s[%d]", field, i), "names no team")
		}
	}
	return list
}

// repository checks the address of a Git repository: HTTPS, SSH, or SSH in the form user@host:path.
func (r *reader) repository(field, address string) {
	u, err := url.Parse(address)
	before, rest, found := strings.Cut(address, ":")
	if found && !strings.HasPrefix(rest, "//") && !strings.Contains(before, "/") {
		u, err = url.Parse("ssh://" + before + "/" + strings.TrimPrefix(rest, "/"))
	}
	switch {
	case err != nil, !slices.Contains([]string{"https", "http", "ssh"}, u.Scheme),
		u.Hostname() == "", strings.HasPrefix(u.Hostname(), "-"), strings.Trim(u.Path, "/") == "", hasControl(address),
		len(address) > maxURL:
		r.add(field, "want the address of a repository such as https://git.example.com/apps/fleet or "+
			"ssh://git@git.example.com/apps/fleet")
	case u.Scheme != "ssh" && u.User != nil:
		r.add(field, "a user or password does not belong in an address; the Secret has them")
	case u.User != nil && hasPassword(u) || strings.HasPrefix(u.User.Username(), "-"):
		r.add(field, "want a user without a password before the host")
	default:
		r.encrypted(field, address)
	}
}

func hasPassword(u *url.URL) bool {
	_, has := u.User.Password()
	return has
}

// encrypted reports an address of plain HTTP, unless the operator allows it.
func (r *reader) encrypted(field, address string) {
	if strings.HasPrefix(strings.ToLower(address), "http://") && !r.AllowPlainHTTP {
		r.add(field, "plain HTTP is not allowed here: promoter.plainHTTP is false")
	}
}

// HeadBranch returns the default head branch of an environment's pull requests. Characters that Git refuses are
// replaced; then a hash keeps the names of two environments apart.
func HeadBranch(namespace, name string, env promotion.EnvName) string {
	plain := strings.TrimSuffix(strings.Join([]string{"promotion", namespace, name, string(env)}, "-"), "-")
	if pipeline.IsBranch(plain) {
		return plain
	}
	sum := sha256.Sum256([]byte(plain))
	safe := strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_' {
			return c
		}
		return '-'
	}, plain)
	return safe[:min(len(safe), 200)] + "-" + hex.EncodeToString(sum[:4])
}

// StageBranch returns the default head branch of the pull requests of a stage of a waybill.yaml.
func StageBranch(pipeline, stage string) string { return HeadBranch(pipeline, stage, "") }

// notification reads a strategy by notification.
func (r *reader) notification(at string, n v1alpha1.Notification) *notification {
	if n.Webhook == nil {
		return &notification{}
	}
	return &notification{r.webhook(at+".webhook", n.Webhook.URL, n.Webhook.SecretRef)}
}

// webhook reads a receiver of CloudEvents.
func (r *reader) webhook(at, address string, secret *v1alpha1.LocalObjectReference) *promotion.Sink {
	r.httpURL(at+".url", address)
	return &promotion.Sink{URL: address, Secret: r.secret(at+".secretRef", secret), Format: "cloudevents"}
}

// sink reads a receiver of notifications.
func (r *reader) sink(at string, s v1alpha1.Sink) Sink {
	out := Sink{capped(r, at+".on", s.On, maxItems), *r.webhook(at+".webhook", s.Webhook.URL, s.Webhook.SecretRef)}
	out.Format = oneOf(r, at+".webhook.format", s.Webhook.Format, "cloudevents", "slack")
	for i, on := range out.On {
		if !slices.Contains(v1alpha1.Occasions(), on) {
			r.add(fmt.Sprintf("%s.on[%d]", at, i), "want one of %s, found %.50q", join(v1alpha1.Occasions()), on)
		}
	}
	return out
}

// autoMerge reads whether and how Waybill merges pull requests; nil: people do.
func (r *reader) autoMerge(at string, a *v1alpha1.AutoMerge, host *promotion.Host) *promotion.AutoMerge {
	if a == nil {
		return nil
	}
	method := oneOf(r, at+".method", a.Method, "merge", "squash", "rebase")
	switch {
	case host == nil:
		r.add(at, "needs the strategy pull-request")
		return nil
	case host.Type == BitbucketCloud && !a.AllowUnguarded:
		r.add(at+".allowUnguarded", "merges of bitbucket-cloud cannot name the head commit, so it must be true")
	case a.Queue && host.Type != GitHub && host.Type != GitLab:
		r.add(at+".queue", "only github and gitlab have merge queues")
	}
	host.Method, host.Queue, host.Unguarded = method, a.Queue, a.AllowUnguarded
	return &promotion.AutoMerge{IgnoreChecks: a.RequireChecks != nil && !*a.RequireChecks}
}
