//go:build services

package promotion_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	gitops "github.com/waybill-dev/waybill/api/kube/gitops/v1alpha1"
	"github.com/waybill-dev/waybill/internal/kube/pool"
	base "github.com/waybill-dev/waybill/internal/promotion"
	"github.com/waybill-dev/waybill/test/testbed"
)

// observed is a pool on real clusters, with one user.
type observed struct {
	*pool.Pool
	wants []pool.Want
	woken chan struct{}
}

func observe(t *testing.T, management *testbed.Cluster, wants []pool.Want) *observed {
	t.Helper()
	o := &observed{wants: wants, woken: make(chan struct{}, 1)}
	wake := func([]string) {
		select {
		case o.woken <- struct{}{}:
		default: // it is awake
		}
	}
	o.Pool = pool.New(pool.Config{Clusters: map[string]*rest.Config{"": management.Config}, Changed: wake, ClustersChanged: wake})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- o.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return o
}

// await waits until the states of all wants are as wanted.
func (o *observed) await(t *testing.T, name string, holds func([]pool.State) bool) {
	t.Helper()
	began, late := time.Now(), time.After(5*time.Minute)
	again := time.NewTicker(time.Second)
	defer again.Stop()
	for {
		states := o.Use("story", o.wants)
		if holds(states) {
			t.Logf("%s: after %s", name, time.Since(began).Round(time.Millisecond))
			return
		}
		select {
		case <-o.woken:
		case <-again.C:
		case <-late:
			t.Fatalf("%s: not so after five minutes: %+v, clusters %+v", name, states, o.Clusters())
		}
	}
}

// released reports whether a state is that of a release which is ready at a version.
func released(s pool.State, version string) bool {
	return s.Unseen == "" && s.App.Ready.Status == "True" &&
		slices.ContainsFunc(s.App.History, func(r base.Release) bool { return r.Status == "deployed" && r.ChartVersion == version })
}

// TestPoolFollowsRealClusters: applications of the management cluster and two leaf clusters are followed while a leaf's API
// server is killed, its credentials change, and an account may read one namespace only.
func TestPoolFollowsRealClusters(t *testing.T) {
	t.Parallel()
	var management, europe, america *testbed.Cluster
	start := func(c **testbed.Cluster) func() {
		return func() {
			*c = testbed.Kubernetes(t)
			(*c).InstallFlux(t)
		}
	}
	testbed.Together(t, start(&management), start(&europe), start(&america))
	management.Apply(t, string(gitops.Definition))
	management.Apply(t, `{apiVersion: v1, kind: Namespace, metadata: {name: apps}}`)
	lead := func(name, kubeconfig string) {
		management.Apply(t, fmt.Sprintf("{apiVersion: v1, kind: Secret, metadata: {name: %s, namespace: apps}, data: {kubeconfig: %s}}", name,
			base64.StdEncoding.EncodeToString([]byte(kubeconfig))))
		management.Apply(t, fmt.Sprintf(
			"{apiVersion: gitops.weave.works/v1alpha1, kind: GitopsCluster, metadata: {name: %[1]s, namespace: apps}, spec: {secretRef: {name: %[1]s}}}", name))
	}
	america.Apply(t, fmt.Sprintf(readerOf, "podinfo-prod"))
	lead("leaf-eu", europe.PortableKubeconfig(t))
	lead("leaf-us", america.Account(t, "waybill", "reader"))
	apps := []*testbed.Application{management.HelmRelease(t, "podinfo-dev", "podinfo"), europe.HelmRelease(t, "podinfo-prod", "podinfo"),
		america.HelmRelease(t, "podinfo-prod", "podinfo"), america.HelmRelease(t, "secret", "podinfo")}
	for _, app := range apps {
		app.Succeed(t, "6.5.4")
	}
	kind := schema.GroupVersionKind{Group: "helm.toolkit.fluxcd.io", Version: "v2beta1", Kind: "HelmRelease"} // not served any more
	o := observe(t, management, []pool.Want{
		{GVK: kind, Namespace: "podinfo-dev", Name: "podinfo"},
		{Cluster: "apps/leaf-eu", GVK: kind, Namespace: "podinfo-prod", Name: "podinfo"},
		{Cluster: "apps/leaf-us", GVK: kind, Namespace: "podinfo-prod", Name: "podinfo"},
		{Cluster: "apps/leaf-us", GVK: kind, Namespace: "secret", Name: "podinfo"},
	})
	o.await(t, "all are known but the one that the account may not read", func(s []pool.State) bool {
		return released(s[0], "6.5.4") && released(s[1], "6.5.4") && released(s[2], "6.5.4") && s[3].Unseen == base.Forbidden
	})

	apps[2].Succeed(t, "6.6.0")
	o.await(t, "a change is seen", func(s []pool.State) bool { return released(s[2], "6.6.0") })

	europe.Kill(t)
	o.await(t, "a dead leaf is unreachable, and others are followed", func(s []pool.State) bool {
		return s[1].Unseen == base.ClusterUnreachable && s[1].Last != nil && released(s[0], "6.5.4") && released(s[2], "6.6.0")
	})
	europe.Start(t)
	apps[1].Succeed(t, "6.6.0")
	o.await(t, "the leaf is followed again", func(s []pool.State) bool { return released(s[1], "6.6.0") })

	lead("leaf-us", america.PortableKubeconfig(t))
	o.await(t, "new credentials are used", func(s []pool.State) bool { return released(s[2], "6.6.0") && released(s[3], "6.5.4") })

	lead("leaf-eu", america.PortableKubeconfig(t))
	apps[2].Succeed(t, "6.7.0")
	o.await(t, "the name leads to another server", func(s []pool.State) bool { return released(s[1], "6.7.0") && released(s[2], "6.7.0") })

	management.Kill(t)
	apps[2].Succeed(t, "6.8.0")
	o.await(t, "leaves are followed without the management cluster", func(s []pool.State) bool {
		return released(s[1], "6.8.0") && released(s[2], "6.8.0")
	})
	management.Start(t)
	o.await(t, "all are known again", func(s []pool.State) bool { return released(s[0], "6.5.4") })

	clusters := management.Dynamic.Resource(gitops.Resource()).Namespace("apps")
	if err := clusters.Delete(t.Context(), "leaf-eu", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	o.await(t, "a removed cluster is unknown", func(s []pool.State) bool { return s[1].Unseen == base.ClusterNotFound })
}

// readerOf lets the account waybill/reader read the releases of one namespace.
const readerOf = `
apiVersion: v1
kind: Namespace
metadata: {name: %[1]s}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: reader, namespace: %[1]s}
rules:
- {apiGroups: [helm.toolkit.fluxcd.io], resources: [helmreleases], verbs: [get, list, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: reader, namespace: %[1]s}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: reader}
subjects: [{kind: ServiceAccount, name: reader, namespace: waybill}]
`
