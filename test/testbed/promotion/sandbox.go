package promotion

import (
	"cmp"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/waybill-dev/waybill/test/testbed"
)

// Sandbox is a small world for many stories at the same time: one API server, which is the management cluster and all leaf
// clusters, a Git host, and Waybill. Followers do the work of Flux.
type Sandbox struct {
	Cluster *testbed.Cluster
	Host    *testbed.GitHost
	Waybill *Waybill

	bot *testbed.GitHost // the user that Waybill uses
}

// NewSandbox starts a sandbox; about ten seconds. Waybill runs from its first story on.
func NewSandbox(t testing.TB) *Sandbox {
	t.Helper()
	s := &Sandbox{}
	testbed.Together(t,
		func() {
			s.Cluster = testbed.Kubernetes(t)
			s.Cluster.InstallFlux(t)
			installDefinitions(t, s.Cluster)
		},
		func() {
			s.Host = testbed.Gitea(t)
			s.bot = s.Host.As(t, Bot)
		})
	return s
}

// Start starts a Waybill program in the sandbox. settings are further keys of the section promoter of its server.yaml, such as
// "frozen: true".
func (s *Sandbox) Start(t testing.TB, program string, settings ...string) {
	t.Helper()
	l := launch{management: s.Cluster, program: program, arguments: Roles()}
	for _, setting := range settings {
		l.settings += ", " + setting
	}
	s.Waybill = l.start(t)
}

// Scene is one story in a sandbox: a pipeline as in the worked example in a namespace of its own, with its repository.
type Scene struct {
	Project
	*Sandbox
	Follower *Follower
	Apps     map[string][]*testbed.Application // by environment
}

// Extra has YAML that is added to the spec, and to its environments, of a scene's pipeline. Without it every environment waits
// for a person to merge.
type Extra struct {
	Spec, Dev, Staging, Prod string
}

// Scene makes a scene in which the first version runs everywhere. Its Follower must be closed before the test ends.
func (s *Sandbox) Scene(t testing.TB, name string, extra Extra) *Scene {
	t.Helper()
	scene := &Scene{Sandbox: s, Project: Project{Management: s.Cluster, Namespace: name}}
	s.Cluster.Apply(t, fmt.Sprintf("{apiVersion: v1, kind: Namespace, metadata: {name: %s}}", name))
	s.Host.Organisation(t, name)
	scene.Repository = s.Host.Repository(t, name, "fleet")
	scene.Project.start(t)
	scene.admit(t, s.bot)
	for _, leaf := range []string{"leaf-eu", "leaf-us"} {
		scene.connect(t, leaf, s.Cluster)
	}
	scene.Apps = map[string][]*testbed.Application{}
	for environment, namespaces := range map[string][]string{Dev: {"dev"}, Staging: {"staging"}, Prod: {"prod-eu", "prod-us"}} {
		for _, namespace := range namespaces {
			scene.Apps[environment] = append(scene.Apps[environment], s.Cluster.HelmRelease(t, name+"-"+namespace, App))
		}
	}
	scene.Follower = Follow(t, s.Host, scene.Repository, scene.Apps)
	scene.awaitFirst(t)
	s.Cluster.Apply(t, scene.manifestOf(extra))
	return scene
}

// Team makes the namespace and the repository of a team that brings its own pipeline of that name, whose Secret is secret.
func (s *Sandbox) Team(t testing.TB, name, secret string) *Project {
	t.Helper()
	p := &Project{Management: s.Cluster, Namespace: name, Name: name}
	s.Cluster.Apply(t, fmt.Sprintf("{apiVersion: v1, kind: Namespace, metadata: {name: %s}}", name))
	s.Host.Organisation(t, name)
	p.Repository = s.Host.Repository(t, name, "fleet")
	p.Repository.Allow(t, s.bot.User, "write")
	p.secret(t, secret, map[string]string{"username": s.bot.User, "password": s.bot.Token, "token": s.bot.Token})
	p.secret(t, "prod-kubeconfig", map[string]string{"kubeconfig": s.Cluster.PortableKubeconfig(t)})
	return p
}

// awaitFirst waits until the first version runs everywhere.
func (s *Scene) awaitFirst(t testing.TB) {
	t.Helper()
	for _, apps := range s.Apps {
		for _, app := range apps {
			releases := s.Cluster.Dynamic.Resource(testbed.HelmReleases()).Namespace(app.Namespace)
			s.Cluster.Await(t, releases, App, func(release *unstructured.Unstructured) bool {
				return testbed.Ready(release) == "True" && testbed.ChartVersion(release) == firstVersion
			})
		}
	}
}

// manifestOf returns the scene's pipeline.
func (s *Scene) manifestOf(extra Extra) string {
	return strings.NewReplacer(
		"{namespace}", s.Namespace, "{url}", s.Repository.URL,
		"{spec}", indent("  ", extra.Spec), "{dev}", indent("    ", extra.Dev),
		"{staging}", indent("    ", extra.Staging), "{prod}", indent("    ", extra.Prod),
	).Replace(sceneManifest)
}

// Credentials stores a token for the pipeline's requests to the Git host; "" is the right one.
func (s *Scene) Credentials(t testing.TB, token string) {
	t.Helper()
	token = cmp.Or(token, s.bot.Token)
	s.secret(t, "fleet-git", map[string]string{"username": s.bot.User, "password": token, "token": token})
}

// Change replaces the YAML that was added to the pipeline.
func (s *Scene) Change(t testing.TB, extra Extra) {
	t.Helper()
	s.Cluster.Apply(t, s.manifestOf(extra))
}

func indent(by, text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(by + line)
	}
	return b.String()
}

const sceneManifest = `
apiVersion: pipelines.weave.works/v1alpha1
kind: Pipeline
metadata: {name: podinfo, namespace: {namespace}}
spec:
  appRef: {apiVersion: helm.toolkit.fluxcd.io/v2, kind: HelmRelease, name: podinfo}
  promotion:
    strategy:
      pull-request: {type: gitea, url: "{url}", baseBranch: main, secretRef: {name: fleet-git}}
{spec}
  environments:
  - name: dev
    targets: [{namespace: {namespace}-dev}]
{dev}
  - name: staging
    targets: [{namespace: {namespace}-staging, clusterRef: {kind: GitopsCluster, name: leaf-eu}}]
{staging}
  - name: prod
    targets:
    - {namespace: {namespace}-prod-eu, clusterRef: {kind: GitopsCluster, name: leaf-eu}}
    - {namespace: {namespace}-prod-us, clusterRef: {kind: GitopsCluster, name: leaf-us}}
{prod}
`

// AwaitRunning waits until Flux has begun to roll out a version in an environment.
func (s *Scene) AwaitRunning(t testing.TB, environment, version string) {
	t.Helper()
	s.Await(t, Step{Name: environment + " has " + version, Holds: func() bool { return s.Follower.Running(environment) == version }})
}
