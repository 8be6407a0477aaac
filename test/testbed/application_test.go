//go:build services

package testbed_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/waybill-dev/waybill/test/testbed"
)

func TestApplicationsReportTheStatusOfTheirController(t *testing.T) {
	t.Parallel()
	cluster := testbed.Kubernetes(t)
	cluster.InstallFlux(t)
	releases := cluster.Dynamic.Resource(testbed.HelmReleases()).Namespace("podinfo")
	want := func(version, ready string, settled bool) {
		t.Helper()
		got, err := releases.Get(t.Context(), "podinfo", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if testbed.ChartVersion(got) != version || testbed.Ready(got) != ready || testbed.Settled(got) != settled {
			t.Errorf("release: got version %s, ready %s, settled %t, want %s, %s, %t", testbed.ChartVersion(got), testbed.Ready(got),
				testbed.Settled(got), version, ready, settled)
		}
	}
	release := cluster.HelmRelease(t, "podinfo", "podinfo")
	want("", "", false)
	release.Begin(t, "6.5.4")
	want("", "Unknown", false)
	release.Succeed(t, "6.5.4")
	want("6.5.4", "True", true)
	release.Edit(t)
	want("6.5.4", "True", false)
	release.Begin(t, "6.6.0")
	want("6.5.4", "Unknown", false)
	release.Fail(t, "6.6.0")
	want("6.5.4", "False", true)
	release.Succeed(t, "6.6.1")
	want("6.6.1", "True", true)

	kustomization := cluster.Kustomization(t, "podinfo", "podinfo")
	kustomization.Succeed(t, "main@sha1:1")
	kustomization.Begin(t, "main@sha1:1")
	kustomization.Suspend(t, true)
	got, err := cluster.Dynamic.Resource(testbed.Kustomizations()).Namespace("podinfo").Get(t.Context(), "podinfo", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if testbed.AppliedRevision(got) != "main@sha1:1" || testbed.Ready(got) != "Unknown" || testbed.Settled(got) {
		t.Errorf("kustomization: got %v", got.Object["status"])
	}
	kustomization.Delete(t)
}
