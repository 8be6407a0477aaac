//go:build services

package testbed_test

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/waybill-dev/waybill/test/testbed"
)

func TestFluxAppliesABranchAndTheChartsItNames(t *testing.T) {
	t.Parallel()
	git := testbed.GitHTTP(t)
	git.AddChart(t, "podinfo", "6.5.4", "6.6.0")
	git.AddBrokenChart(t, "podinfo", "6.7.0")
	cluster := testbed.Kubernetes(t)
	flux := testbed.Flux(t, cluster)
	fleet := git.Repository(t, "fleet")
	clone := testbed.CloneFrom(t, fleet, "", "")
	push := func(version string) (revision string) {
		return "main@sha1:" + clone.Push(t, "main", "Podinfo "+version, map[string]string{"podinfo.yaml": fmt.Sprintf(release, version)})
	}
	first := push("6.5.4")
	cluster.Apply(t, fmt.Sprintf(sources, git.Charts, fleet))
	releases := cluster.Dynamic.Resource(testbed.HelmReleases()).Namespace("podinfo")
	branches := cluster.Dynamic.Resource(testbed.Kustomizations()).Namespace("podinfo")
	await := func(version, revision string) {
		t.Helper()
		cluster.Await(t, branches, "fleet", func(k *unstructured.Unstructured) bool {
			return testbed.Ready(k) == "True" && testbed.AppliedRevision(k) == revision
		})
		cluster.Await(t, releases, "podinfo", func(r *unstructured.Unstructured) bool {
			return testbed.Ready(r) == "True" && testbed.ChartVersion(r) == version
		})
	}
	await("6.5.4", first)

	flux.Kill(t)
	second := push("6.6.0")
	flux.Start(t)
	await("6.6.0", second)

	push("6.7.0")
	cluster.Await(t, releases, "podinfo", func(r *unstructured.Unstructured) bool {
		attempted, _, _ := unstructured.NestedString(r.Object, "status", "lastAttemptedRevision") // absent: not yet
		return testbed.Ready(r) == "False" && attempted == "6.7.0"
	})
}

const sources = `
apiVersion: v1
kind: Namespace
metadata: {name: podinfo}
---
apiVersion: source.toolkit.fluxcd.io/v1
kind: HelmRepository
metadata: {name: charts, namespace: podinfo}
spec: {interval: 1h, url: %q}
---
apiVersion: source.toolkit.fluxcd.io/v1
kind: GitRepository
metadata: {name: fleet, namespace: podinfo}
spec: {interval: 1s, url: %q, ref: {branch: main}}
---
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {name: fleet, namespace: podinfo}
spec: {interval: 1h, path: ./, prune: true, sourceRef: {kind: GitRepository, name: fleet}}
`

const release = `
apiVersion: helm.toolkit.fluxcd.io/v2
kind: HelmRelease
metadata: {name: podinfo, namespace: podinfo}
spec:
  interval: 1h
  chart:
    spec:
      chart: podinfo
      version: %q
      sourceRef: {kind: HelmRepository, name: charts}
`
