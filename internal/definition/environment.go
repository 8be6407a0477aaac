package definition

import (
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/document"
	"github.com/waybill-dev/waybill/internal/pipeline"
)

// Bounds of an environment.
const (
	maxTargets = 1_000
	maxPaths   = 100
	maxObject  = 253 // bytes of the name of an object of Kubernetes, or of a cluster
)

// environmentPolicy is the policy of a promotion. It has no deadline, since a proposal may wait for a person.
//
//nolint:gochecknoglobals // a constant
var environmentPolicy = action.Policy{Retries: 2, Initial: action.Duration(2 * time.Second), Factor: 2, Max: action.Duration(2 * time.Minute),
	Jitter: 0.1, AttemptTimeout: action.Duration(time.Minute)}

// gitHosts are the kinds of Git hosts.
//
//nolint:gochecknoglobals // a constant list
var gitHosts = []string{"github", "gitlab", "bitbucket-server", "gitea", "forgejo", "bitbucket-cloud", "azure-devops"}

// versionSources are the types of versionSource.
//
//nolint:gochecknoglobals // a constant list
var versionSources = []string{"revision", "tag", "digest", "chartVersion", "ociDigest", "appVersion", "originRevision", "label",
	"annotation", "marker"}

// environmentStage reads a stage that promotes to an environment.
func (r *reader) environmentStage(s pipeline.Stage, n *document.Node, at string) pipeline.Stage {
	s.Kind = pipeline.EnvironmentStage
	s.Vars = r.vars(n.Get("vars"), at+".vars")
	node, here := n.Get("environment"), at+".environment"
	v := &pipeline.Environment{Policy: environmentPolicy}
	s.Environment = v
	if node.Kind != document.Map {
		return s // reported
	}
	app := node.Get("app")
	v.App = pipeline.App{APIVersion: app.Str("apiVersion"), Kind: app.Str("kind"), Name: app.Str("name")}
	for _, key := range []string{"apiVersion", "kind", "name"} {
		r.objectName(app.Get(key), here+".app."+key)
	}
	v.Targets = r.targets(node, here)
	v.Source = r.versionSource(node.Get("versionSource"), here+".versionSource")
	v.MinReady = r.minReady(node.Get("minReady"), here+".minReady", len(v.Targets))
	v.Soak = r.duration(node.Get("soak"), here+".soak", 0)
	v.Rollout = r.positive(node.Get("rolloutTimeout"), here+".rolloutTimeout", action.Duration(30*time.Minute))
	v.Strategy = r.strategy(node.Get("strategy"), here+".strategy")
	v.Merge = r.autoMerge(node.Get("autoMerge"), here+".autoMerge", v.Strategy.PullRequest)
	if v.Source.Type == "marker" && v.Strategy.PullRequest == nil {
		r.Add(node.Get("versionSource"), "bad-value", here+".versionSource", "the version source marker needs the strategy pull-request")
	}
	return s
}

// objectName reports a text that does not name an object.
func (r *reader) objectName(n *document.Node, at string) {
	if n != nil && n.Kind == document.String && (n.Text == "" || len(n.Text) > maxObject || hasControl(n.Text) || strings.ContainsAny(n.Text, " ")) {
		r.Add(n, "bad-name", at, "%s: %.100q is not a name", at, n.Text)
	}
}

// targets reads the places of the application.
func (r *reader) targets(n *document.Node, at string) []pipeline.Target {
	list := []pipeline.Target{}
	node := n.Get("targets")
	for i, item := range items(node) {
		here := document.Index(at+".targets", i)
		t := pipeline.Target{Cluster: item.Str("cluster"), Namespace: item.Str("namespace")}
		r.objectName(item.Get("cluster"), here+".cluster")
		r.objectName(item.Get("namespace"), here+".namespace")
		if slices.Contains(list, t) {
			r.Add(item, "name-repeated", here, "target %s is named twice", t)
		}
		list = append(list, t)
	}
	if len(list) > maxTargets {
		r.Add(node, "too-many", at+".targets", "the environment has %d targets, at most %d", len(list), maxTargets)
	}
	return list
}

// versionSource reads where the revision of an application is.
func (r *reader) versionSource(n *document.Node, at string) pipeline.Source {
	s := pipeline.Source{Type: orDefault(n.Str("type"), "revision"), Key: n.Str("key"), KeepBuild: isTrue(n.Get("keepBuild"))}
	needsKey := s.Type == "label" || s.Type == "annotation"
	switch {
	case n == nil || n.Kind != document.Map:
	case needsKey && s.Key == "":
		r.Add(n, "field-missing", at, "%s: type %s needs key", at, s.Type)
	case !needsKey && s.Key != "":
		r.Add(n.Get("key"), "misplaced", at, "key belongs to the types label and annotation")
	}
	return s
}

// minReady reads how many targets must be ready: more than half, so that two revisions never both qualify.
func (r *reader) minReady(n *document.Node, at string, targets int) pipeline.Limit {
	all := pipeline.Limit{N: 100, Percent: true}
	l := r.limit(n, at, all, 1)
	if count := l.Of(targets, true); l.Percent && l.N <= 50 || !l.Percent && targets > 0 && (2*count <= targets || count > targets) {
		r.Add(n, "out-of-range", at, "%s: want more than half of the %d targets and at most all", at, targets)
		return all
	}
	return l
}

// strategy reads the way of promoting: one of two, or none.
func (r *reader) strategy(n *document.Node, at string) (s pipeline.Strategy) {
	if n == nil || n.Kind != document.Map {
		return s
	}
	pull, notify := n.Get("pull-request"), n.Get("notification")
	if (pull == nil) == (notify == nil) {
		r.Add(n, "bad-value", at, "%s: want one of pull-request and notification; without a strategy the stage waits for others", at)
	}
	s.PullRequest = r.pullRequest(pull, at+".pull-request")
	if hook := notify.Get("webhook"); hook != nil && hook.Kind == document.Map {
		s.Notification = &pipeline.Notification{URL: hook.Str("url"), Secret: hook.Get("secretRef").Str("name")}
		if address := hook.Get("url"); address != nil && !isHTTP(s.Notification.URL) {
			r.Add(address, "bad-url", at+".notification.webhook.url", "url: want a URL such as https://ci.example.com/promote")
		}
	}
	return s
}

// pullRequest reads a strategy by pull request; nil without one.
func (r *reader) pullRequest(n *document.Node, at string) *pipeline.PullRequest {
	if n == nil || n.Kind != document.Map {
		return nil
	}
	p := &pipeline.PullRequest{Type: n.Str("type"), URL: n.Str("url"), APIURL: n.Str("apiURL"), Base: n.Str("baseBranch"), Branch: n.Str("branch"),
		Secret: n.Get("secretRef").Str("name"), Paths: n.Strs("paths"), Labels: n.Strs("labels"), Reviewers: n.Strs("reviewers"),
		Assignees: n.Strs("assignees"), Draft: isTrue(n.Get("draft")), Close: n.Str("supersede") == "Close"}
	r.repository(n.Get("url"), at+".url")
	if api := n.Get("apiURL"); api != nil && !isHTTP(p.APIURL) {
		r.Add(api, "bad-url", at+".apiURL", "apiURL: want a URL such as https://git.example.com/api/v1")
	}
	for _, key := range []string{"baseBranch", "branch"} {
		if field := n.Get(key); field != nil && !pipeline.IsBranch(field.Text) {
			r.Add(field, "bad-name", at+"."+key, "%s: %.100q is not the name of a branch", key, field.Text)
		}
	}
	if p.Branch != "" && p.Branch == p.Base {
		r.Add(n.Get("branch"), "bad-value", at+".branch", "branch is the base branch too")
	}
	if len(p.Paths) > maxPaths {
		r.Add(n.Get("paths"), "too-many", at+".paths", "paths has %d globs, at most %d", len(p.Paths), maxPaths)
	}
	r.globs(n.Get("paths"), p.Paths, at+".paths")
	return p
}

// globs reports patterns that do not name files of a repository.
func (r *reader) globs(n *document.Node, list []string, at string) {
	for _, glob := range list {
		if glob == "" || hasControl(glob) || path.IsAbs(glob) || strings.HasPrefix(glob, ":") || !inside(path.Clean(glob)) {
			r.Add(n, "bad-path", at, "paths: want globs of files in the repository such as clusters/*/*.yaml, found %.100q", glob)
		}
	}
}

// repository reports an address that is not one of a Git repository: HTTPS, SSH, or SSH in the form user@host:path.
func (r *reader) repository(n *document.Node, at string) {
	if n == nil || n.Kind != document.String {
		return
	}
	u, err := url.Parse(n.Text)
	before, rest, found := strings.Cut(n.Text, ":")
	if found && !strings.HasPrefix(rest, "//") && !strings.Contains(before, "/") {
		u, err = url.Parse("ssh://" + before + "/" + strings.TrimPrefix(rest, "/"))
	}
	switch {
	case err != nil, !slices.Contains([]string{"https", "http", "ssh"}, u.Scheme), u.Hostname() == "", strings.HasPrefix(u.Hostname(), "-"),
		strings.Trim(u.Path, "/") == "", hasControl(n.Text):
		r.Add(n, "bad-url", at, "url: want the address of a repository such as https://git.example.com/apps/fleet")
	case u.Scheme != "ssh" && u.User != nil:
		r.Add(n, "bad-url", at, "url: a user or password does not belong in an address; the secret has them")
	}
}

// isHTTP reports whether an address is one of HTTP.
func isHTTP(address string) bool {
	u, err := url.Parse(address)
	return err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.Host != "" && u.User == nil && !hasControl(address)
}

// autoMerge reads how Waybill merges pull requests; nil: people do.
func (r *reader) autoMerge(n *document.Node, at string, by *pipeline.PullRequest) *pipeline.Merge {
	if n == nil || n.Kind != document.Map {
		return nil
	}
	m := &pipeline.Merge{Method: orDefault(n.Str("method"), "merge"), Unguarded: isTrue(n.Get("allowUnguarded")), Queue: isTrue(n.Get("queue"))}
	if checks := n.Get("requireChecks"); checks != nil {
		m.IgnoreChecks = !isTrue(checks)
	}
	switch {
	case by == nil:
		r.Add(n, "misplaced", at, "autoMerge needs the strategy pull-request")
	case by.Type == "bitbucket-cloud" && !m.Unguarded:
		r.Add(n, "bad-value", at, "merges of bitbucket-cloud cannot name the head commit, so allowUnguarded must be true")
	case m.Queue && by.Type != "github" && by.Type != "gitlab":
		r.Add(n.Get("queue"), "bad-value", at, "only github and gitlab have merge queues")
	}
	return m
}

// environment are the keys of an environment.
//
//nolint:gochecknoglobals // a constant table
var environment = []document.Key{
	{Name: "app", Shape: document.Object, Keys: environmentApp, Required: true, Help: "The application: it has one kind and name in every target."},
	{Name: "targets", Shape: document.Objects, Keys: environmentTarget, Required: true, Help: "Where the application runs."},
	{Name: "strategy", Shape: document.Object, Keys: environmentStrategy,
		Help: "How the revision gets there; without it the stage waits until someone else has brought it."},
	{Name: "versionSource", Shape: document.Object, Keys: environmentSource, Help: "Where the application reports its revision."},
	{Name: "minReady", Shape: document.Scalar, Default: "100%", Help: "Targets that must be ready at the revision: a count or percentage above half."},
	{Name: "soak", Shape: document.Duration, Default: "0s", Help: "How long the environment must stay ready."},
	{Name: "rolloutTimeout", Shape: document.Duration, Default: "30m", Help: "How long a promoted revision may take to become ready."},
	{Name: "autoMerge", Shape: document.Object, Keys: environmentMerge, Help: "Waybill merges the pull request; without it a person does."},
}

//nolint:gochecknoglobals // constant tables
var (
	environmentApp = []document.Key{
		{Name: "apiVersion", Shape: document.Text, Required: true, Help: "Such as helm.toolkit.fluxcd.io/v2."},
		{Name: "kind", Shape: document.Text, Required: true, Help: "Such as HelmRelease."},
		{Name: "name", Shape: document.Text, Required: true, Help: "Name of the object."},
	}
	environmentTarget = []document.Key{
		{Name: "cluster", Shape: document.Text, Required: true,
			Help: "A name in promoter.clusters of server.yaml; on one machine also a context of kubectl's kubeconfig."},
		{Name: "namespace", Shape: document.Text, Required: true, Help: "Namespace of the object."},
	}
	environmentStrategy = []document.Key{
		{Name: "pull-request", Shape: document.Object, Keys: environmentPull,
			Help: `A pull request that changes the values marked # {"$promotion": "waybill.yaml:PIPELINE:STAGE"}.`},
		{Name: "notification", Shape: document.Object, Keys: environmentNotification,
			Help: "A request that announces the revision; its receiver makes the change."},
	}
	environmentNotification = []document.Key{
		{Name: "webhook", Shape: document.Object, Keys: environmentWebhook, Required: true, Help: "The receiver."},
	}
	environmentWebhook = []document.Key{
		{Name: "url", Shape: document.Text, Required: true, Help: "The receiver's address."},
		{Name: "secretRef", Shape: document.Object, Keys: environmentSecret, Help: "Signs the requests, as Standard Webhooks do."},
	}
	environmentPull = []document.Key{
		{Name: "type", Shape: document.Text, Values: gitHosts, Required: true, Help: "Kind of the Git host."},
		{Name: "url", Shape: document.Text, Required: true, Help: "Address of the repository."},
		{Name: "apiURL", Shape: document.Text, Help: "Address of the host's API, where it is not that of the repository."},
		{Name: "baseBranch", Shape: document.Text, Required: true, Help: "Branch that the targets follow."},
		{Name: "branch", Shape: document.Text, Default: "promotion-PIPELINE-STAGE", Help: "Head branch of the pull request."},
		{Name: "secretRef", Shape: document.Object, Keys: environmentSecret, Help: "The credentials."},
		{Name: "paths", Shape: document.Texts, Help: "Globs of the files that are searched; default: all."},
		{Name: "labels", Shape: document.Texts, Help: "Labels of the pull request."},
		{Name: "reviewers", Shape: document.Texts, Help: "Users, and team:NAME, who are requested to review it."},
		{Name: "assignees", Shape: document.Texts, Help: "Users whom it is assigned to."},
		{Name: "draft", Shape: document.Flag, Default: "false", Help: "Whether it is opened as a draft."},
		{Name: "supersede", Shape: document.Text, Values: []string{"Update", "Close"}, Default: "Update",
			Help: "Whether one for another revision is edited, or closed and replaced."},
	}
	environmentSecret = []document.Key{
		{Name: "name", Shape: document.Text, Required: true, Help: "A name in promoter.secrets of server.yaml."},
	}
	environmentSource = []document.Key{
		{Name: "type", Shape: document.Text, Values: versionSources, Default: "revision", Help: "Field of the application."},
		{Name: "key", Shape: document.Text, Help: "Key of the label or annotation."},
		{Name: "keepBuild", Shape: document.Flag, Default: "false", Help: "Whether chart versions keep their build metadata."},
	}
	environmentMerge = []document.Key{
		{Name: "method", Shape: document.Text, Values: []string{"merge", "squash", "rebase"}, Default: "merge", Help: "How it is merged."},
		{Name: "requireChecks", Shape: document.Flag, Default: "true", Help: "Whether the host's checks must have passed."},
		{Name: "allowUnguarded", Shape: document.Flag, Default: "false", Help: "Whether a host that cannot check the head commit may merge."},
		{Name: "queue", Shape: document.Flag, Default: "false", Help: "Whether it is added to the host's merge queue."},
	}
)
