package kube_test

import (
	"os"
	"path/filepath"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/kube"
	"github.com/waybill-dev/waybill/internal/kube/kubetest"
)

// serve returns a client of an API server.
func serve(t *testing.T, api *kubetest.API) (*kube.Cluster, *kubetest.Server) {
	t.Helper()
	server := kubetest.ListenServer(api)
	t.Cleanup(server.Close)
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(file, server.Kubeconfig(server.Address(), "token"), 0o600); err != nil {
		t.Fatal(err)
	}
	cluster, err := kube.Open(kube.Config{Kubeconfig: file})
	if err != nil {
		t.Fatal(err)
	}
	return cluster, server
}

func TestTheBestServedVersionOfAKindIsFound(t *testing.T) {
	t.Parallel()
	const group = "eventing.knative.dev"
	var kinds []kubetest.Kind
	for _, version := range []string{"v1alpha1", "v1beta2", "v1beta1"} {
		kinds = append(kinds, kubetest.Kind{GroupVersionResource: schema.GroupVersionResource{Group: group, Version: version, Resource: "brokers"}, Kind: "Broker"})
	}
	kinds = append(kinds, kubetest.Kind{GroupVersionResource: schema.GroupVersionResource{Group: group, Version: "v1", Resource: "triggers"}, Kind: "Trigger"})
	cluster, server := serve(t, kubetest.New(t, kinds...))
	for kind, want := range map[schema.GroupVersionKind]string{
		{Group: group, Kind: "Broker"}:                      "v1beta2",
		{Group: group, Version: "v1alpha1", Kind: "Broker"}: "v1alpha1",
		{Group: group, Kind: "Trigger"}:                     "v1",
		{Group: group, Version: "v1", Kind: "Broker"}:       "",
		{Group: group, Kind: "Channel"}:                     "",
		{Group: "elsewhere", Kind: "Broker"}:                "",
	} {
		got, err := cluster.Served(t.Context(), kind)
		if got.Version != want || fault.Is(err, fault.NotFound) != (want == "") || want != "" && got.Group != group {
			t.Errorf("%s: got %v, %v, want %s", kind, got, err, want)
		}
	}
	server.Close()
	if _, err := cluster.Served(t.Context(), kinds[0].GroupVersionResource.GroupVersion().WithKind("Broker")); err == nil || fault.Is(err, fault.NotFound) {
		t.Errorf("the cluster is away: %v", err)
	}
}
