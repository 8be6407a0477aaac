package build

import (
	"regexp"
	"strings"

	d "github.com/waybill-dev/waybill/internal/document"
)

// stableCharts is the archive of the charts that were once Helm's own.
const stableCharts = "https://charts.helm.sh/stable"

var (
	releaseName = regexp.MustCompile(`^[A-Za-z0-9]([-A-Za-z0-9_.]{0,51}[A-Za-z0-9])?$`)
	namespace   = hostName
	chartName   = regexp.MustCompile(`^([A-Za-z0-9_.][^\s\x00-\x1f]*)$`)
	helmList    = regexp.MustCompile(`^\{[^{}\\]*\}$`)
	version     = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9.+-]*$`)
	versions    = regexp.MustCompile(`^[A-Za-z0-9~^<>=*!][A-Za-z0-9~^<>=*!|.,+ -]*$`)
	location    = regexp.MustCompile(`^[A-Za-z0-9./][^\s\x00-\x1f\x7f]*$`)
)

// clusterKey returns the field of the steps that work in a cluster.
func clusterKey() d.Key {
	return d.Key{Name: "cluster", Shape: d.Text, Default: defaultCluster,
		Help: "The ConfigMap whose key config is the kubeconfig. On a laptop --cluster NAME=KUBECONFIG#CONTEXT says what it " +
			"is: the current context is never used."}
}

const defaultCluster = "kubectl-config"

// registrySecretKey returns the field of the steps that read or write a registry of charts.
func registrySecretKey() d.Key {
	return d.Key{Name: "secret", Shape: d.Text, Default: "${HELM_REG_SECRET}, else none",
		Help: "The Secret whose config.json has the credentials for registries of charts. On a laptop the user's own are used."}
}

// helmTable returns the fields of helm.
func helmTable() []d.Key {
	return []d.Key{
		{Name: "chart", Shape: d.Text, Required: true, Help: "The chart: a name in repo, or a path of the workspace, which has a slash."},
		{Name: "name", Shape: d.Text, Required: true, Help: "The release."},
		{Name: "namespace", Shape: d.Text, Required: true, Help: "The namespace."},
		{Name: "repo", Shape: d.Text, Default: "${CHART_REPO}/${REPO_GROUP}", Help: "The repository that has the chart."},
		{Name: "set", Shape: d.ScalarMap, Help: "Values by their paths, such as image.tag. {a,b} is a list."},
		{Name: "files", Shape: d.Texts, Help: "Files of values; the last wins. Variables in them are replaced."},
		{Name: "chartVersion", Shape: d.Text, Default: "the newest", Help: "The chart's version."},
		{Name: "helmVersion", Shape: d.Text, Default: helmVersion, Help: "Helm's version. The default gets no updates, so name one."},
		clusterKey(),
		registrySecretKey(),
	}
}

// helmPackageTable returns the fields of helm-package.
func helmPackageTable() []d.Key {
	return []d.Key{
		{Name: "version", Shape: d.Text, Default: "the chart's own", Help: "The version that the package gets."},
		{Name: "chart-path", Shape: d.Text, Default: "the root", Help: "The folder of the chart."},
		{Name: "destination", Shape: d.Text, Default: "${CHART_REPO}/${REPO_GROUP}",
			Help: "Where it is pushed: a registry, oci://…, or the URL of a ChartMuseum."},
		registrySecretKey(),
	}
}

// helm returns the command that installs or upgrades a release.
func (f fields) helm() Spec {
	spec := Spec{OS: "linux", Image: f.tools.Helm + ":" + f.helmVersion(), ServiceAccount: f.tools.Account, Token: true}
	f.matches("name", "name-invalid", releaseName, "the name of a release: at most 53 letters, digits, dashes, dots and underscores")
	f.matches("namespace", "name-invalid", namespace, "the name of a namespace: at most 63 lower-case letters, digits and dashes")
	f.matches("chart", "name-invalid", chartName, "the name or the path of a chart")
	f.matches("chartVersion", "version-invalid", versions, "a version, or a range of versions")
	chart, repo := f.chart()
	spec.Argv = []string{"helm", "upgrade", "--install", f.text("name", ""), chart}
	if repo != "" {
		spec.Argv = append(spec.Argv, "--repo", repo)
	}
	spec.Argv = append(spec.Argv, "--namespace", f.text("namespace", ""))
	if v := f.text("chartVersion", ""); v != "" {
		spec.Argv = append(spec.Argv, "--version", v)
	}
	spec.Files = f.files("files")
	for _, file := range spec.Files {
		spec.Argv = append(spec.Argv, "--values", file)
	}
	for _, setting := range f.settings() {
		spec.Argv = append(spec.Argv, "--set", setting)
	}
	if f.insecure() && !strings.HasPrefix(f.helmVersion(), "v2") {
		spec.Argv = append(spec.Argv, "--insecure-skip-tls-verify")
	}
	f.cluster(&spec)
	f.registrySecret(&spec)
	spec.Summary = "upgrade " + f.text("name", "") + " -n " + f.text("namespace", "") + " " + chart
	return spec
}

// helmVersion returns the version of Helm that the step runs.
func (f fields) helmVersion() string {
	f.matches("helmVersion", "tag-invalid", imageTag, "a version")
	if v := f.text("helmVersion", ""); v != "" {
		return v
	}
	f.warnOnce("helmVersion", "helm-old", "Helm 2 is the default and gets no updates; set helmVersion, such as "+packageVersion)
	return helmVersion
}

// warnOnce warns at the step type, unless the warning is there already.
func (f fields) warnOnce(name, code, text string) {
	for _, p := range f.Problems {
		if p.Position == f.at && p.Code == code {
			return
		}
	}
	f.warn(f.at, name, code, text)
}

// chart returns the chart and its repository, which is "" for a path and for a registry.
func (f fields) chart() (chart, repo string) {
	chart = f.text("chart", "")
	n := f.settled("chart")
	switch {
	case n == nil, strings.HasPrefix(chart, "oci://"):
		return chart, ""
	case strings.Contains(chart, "/"), chart == ".", chart == "..":
		f.inside(n, f.Join(f.scope, "chart"))
		if cleaned := cleanPath(chart); strings.Contains(cleaned, "/") || cleaned == "." {
			return cleaned, ""
		}
		return "./" + cleanPath(chart), ""
	}
	f.matches("repo", "url-invalid", location, "the URL of a repository")
	switch repo = f.text("repo", ""); {
	case repo == "":
		repo = f.chartRepository("repo")
	case repo == "stage", repo == "stable":
		f.warn(f.node.Get("repo").At, "repo", "repo-archived", repo+" is the archive "+stableCharts+", which gets no updates")
		repo = stableCharts
	}
	if strings.HasPrefix(repo, "oci://") { // Helm wants a chart of a registry as one URL
		return strings.TrimRight(repo, "/") + "/" + chart, ""
	}
	return chart, repo
}

// chartRepository returns where charts of the repository's group are.
func (f fields) chartRepository(field string) string {
	return strings.TrimRight(f.required("CHART_REPO", field), "/") + "/" + f.required("REPO_GROUP", field)
}

// files checks a list of paths that a tool takes apart at commas, and returns it.
func (f fields) files(name string) (files []string) {
	for scope, item := range f.items(name) {
		f.toolPath(item, scope)
	}
	for _, file := range f.node.Strs(name) {
		files = append(files, cleanPath(file))
	}
	return files
}

func (f fields) toolPath(n *d.Node, scope string) {
	f.inside(n, scope)
	switch {
	case strings.TrimSpace(n.Text) == "":
		f.Add(n, "path-invalid", scope, "the path is empty")
	case strings.ContainsAny(n.Text, `,"`):
		f.Add(n, "path-invalid", scope, "the path %q has a comma or a quote, which the tool does not take", n.Text)
	}
}

// settings returns the pairs of set. A value is taken as it is, but for a list in braces.
func (f fields) settings() (pairs []string) {
	n := f.node.Get("set")
	if n == nil {
		return nil
	}
	for _, field := range n.Fields {
		if (field.Key == "" || strings.ContainsAny(field.Key, "=,") || strings.ContainsFunc(field.Key, isControl)) &&
			!strings.Contains(field.Key, "${") {
			f.Add(field.Value, "set-invalid", f.Join(f.Join(f.scope, "set"), field.Key),
				"%q is not the path of a value; want one such as image.tag", field.Key)
		}
		value := scalarText(field.Value)
		if !helmList.MatchString(value) {
			value = strings.NewReplacer(`\`, `\\`, `,`, `\,`).Replace(value)
			if strings.HasPrefix(value, "{") {
				value = `\` + value
			}
		}
		pairs = append(pairs, field.Key+"="+value)
	}
	return pairs
}

// kubeMount is the folder in which tools find access to a cluster.
const kubeMount = "/root/.kube"

// cluster mounts the access to a cluster.
func (f fields) cluster(spec *Spec) {
	f.matches("cluster", "name-invalid", objectName, objectWords)
	name := f.text("cluster", "")
	if name == "" {
		name = defaultCluster
	}
	spec.mount(Mount{Path: kubeMount, Kind: MountConfigMap, Object: name, Variable: KubeconfigVariable}, kubeMount+"/config")
}

// registrySecret mounts the credentials for registries of charts.
func (f fields) registrySecret(spec *Spec) {
	f.matches("secret", "name-invalid", objectName, objectWords)
	secret := f.text("secret", f.variable("HELM_REG_SECRET"))
	if secret == "" {
		return
	}
	spec.mount(Mount{Path: "/mnt/helm", Kind: MountSecret, Object: secret, Key: "config.json", Name: "config.json",
		Variable: "HELM_REGISTRY_CONFIG"}, "/mnt/helm/config.json")
}

// helmPackageScript packs a chart and pushes the package. Its arguments are the chart, the destination, the version or nothing, and
// whether certificates are verified.
const helmPackageScript = `set -e
chart=$1 destination=$2 version=$3 insecure=$4
packages=$(mktemp -d)
trap 'rm -rf "$packages"' EXIT
set -- "$chart" --destination "$packages"
if [ -n "$version" ]; then set -- "$@" --version "$version"; fi
helm package "$@"
case $destination in
oci://*)
	set -- push "$packages"/*.tgz "$destination"
	if [ "$insecure" = true ]; then set -- "$@" --insecure-skip-tls-verify; fi ;;
*)
	set -- cm-push "$packages"/*.tgz "$destination"
	if [ "$insecure" = true ]; then set -- "$@" --insecure; fi ;;
esac
helm "$@"`

// helmPackage returns the commands that pack a chart and push it.
func (f fields) helmPackage() Spec {
	f.matches("version", "version-invalid", version, "a version")
	f.matches("destination", "url-invalid", location, "the URL of a repository")
	destination := f.text("destination", "")
	if destination == "" {
		destination = f.chartRepository("destination")
	}
	insecure := "false"
	if f.insecure() {
		insecure = "true"
	}
	chart := f.path("chart-path", ".")
	spec := Spec{Image: f.tools.Helm + ":" + packageVersion, OS: "linux", ServiceAccount: f.tools.Account,
		Tools: []string{"helm"}, Summary: chart + " to " + destination,
		Argv: []string{"/bin/sh", "-c", helmPackageScript, "helm-package", chart, destination, f.text("version", ""), insecure}}
	f.registrySecret(&spec)
	return spec
}
