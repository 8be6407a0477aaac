// Package promotion has the world of promotion's worked example, made of real systems: a management cluster and two leaf
// clusters, each with Flux, a Git host with the fleet repository, a Helm repository, and Waybill. Tests and the
// demonstration share it.
package promotion

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/waybill-dev/waybill/test/testbed"
)

// Names of the worked example.
const (
	Namespace = "apps" // where the pipeline is
	App       = "podinfo"
	Dev       = "dev"
	Staging   = "staging"
	Prod      = "prod"
)

// Site is a cluster with Flux.
type Site struct {
	*testbed.Cluster
	Name string // its GitopsCluster; "": the management cluster
	Flux *testbed.FluxControllers
}

// Target is a namespace of a cluster in which an environment runs.
type Target struct {
	Site      *Site
	Namespace string
}

// World is the worked example before Waybill is there: 6.5.4 runs everywhere.
type World struct {
	Project
	Central, Europe, America Site // Central is the management cluster
	Host                     *testbed.GitHost
	Charts                   *testbed.GitServer
	Smoke                    *Probe // answers staging's gate
}

// New starts everything at the same time and waits until the first version runs everywhere; about a minute.
func New(t testing.TB) *World {
	t.Helper()
	w := &World{Project: Project{Namespace: Namespace}, Europe: Site{Name: "leaf-eu"}, America: Site{Name: "leaf-us"}, Smoke: StartProbe(t)}
	starts := []func(){func() { w.startHost(t) }}
	for _, site := range w.sites() {
		starts = append(starts, func() {
			site.Cluster = testbed.Kubernetes(t)
			site.Flux = testbed.Flux(t, site.Cluster)
		})
	}
	testbed.Together(t, starts...)
	w.Project.Management = w.Central.Cluster
	w.Project.start(t)
	var follow []func()
	for _, site := range w.sites() {
		follow = append(follow, func() { w.follow(t, site) })
	}
	testbed.Together(t, follow...)
	for _, environment := range []string{Dev, Staging, Prod} {
		w.AwaitVersion(t, environment, firstVersion)
	}
	return w
}

// firstVersion is the version that runs before the story begins; Versions follow.
const firstVersion = "6.5.4"

// Versions returns the versions of the chart, oldest first.
func Versions() []string { return []string{firstVersion, "6.6.0", "6.6.1", "6.7.0", "6.8.0"} }

func (w *World) startHost(t testing.TB) {
	t.Helper()
	w.Charts = testbed.GitHTTP(t)
	w.Charts.AddChart(t, App, Versions()...)
	w.Host = testbed.Gitea(t)
	w.Host.Organisation(t, "apps")
	w.Repository = w.Host.Repository(t, "apps", "fleet")
}

func (w *World) sites() []*Site { return []*Site{&w.Central, &w.Europe, &w.America} }

// Targets returns the targets of an environment.
func (w *World) Targets(environment string) []Target {
	namespace := App + "-" + environment
	switch environment {
	case Dev:
		return []Target{{&w.Central, namespace}}
	case Staging:
		return []Target{{&w.Europe, namespace}}
	default:
		return []Target{{&w.Europe, namespace}, {&w.America, namespace}}
	}
}

// follow makes the Flux of a cluster apply the folders of its environments.
func (w *World) follow(t testing.TB, site *Site) {
	t.Helper()
	site.Apply(t, fmt.Sprintf(sourcesManifest, w.Charts.Charts, w.Repository.URL))
	for _, environment := range []string{Dev, Staging, Prod} {
		for _, target := range w.Targets(environment) {
			if target.Site == site {
				site.Apply(t, fmt.Sprintf(followManifest, environment))
			}
		}
	}
}

// AwaitVersion waits until every target of an environment is ready at a version.
func (w *World) AwaitVersion(t testing.TB, environment, version string) {
	t.Helper()
	for _, target := range w.Targets(environment) {
		releases := target.Site.Dynamic.Resource(testbed.HelmReleases()).Namespace(target.Namespace)
		target.Site.Await(t, releases, App, func(release *unstructured.Unstructured) bool {
			return testbed.Settled(release) && testbed.Ready(release) == "True" && testbed.ChartVersion(release) == version
		})
	}
}

// AwaitCommit waits until the Kustomization of every target of an environment is ready at a commit of main.
func (w *World) AwaitCommit(t testing.TB, environment, commit string) {
	t.Helper()
	for _, target := range w.Targets(environment) {
		branches := target.Site.Dynamic.Resource(testbed.Kustomizations()).Namespace("flux-system")
		target.Site.Await(t, branches, environment, func(branch *unstructured.Unstructured) bool {
			return testbed.Settled(branch) && testbed.Ready(branch) == "True" && testbed.AppliedRevision(branch) == "main@sha1:"+commit
		})
	}
}
