//go:build services

package testbed_test

import (
	"testing"

	"github.com/waybill-dev/waybill/internal/kube"
	"github.com/waybill-dev/waybill/internal/kube/kubetest"
	"github.com/waybill-dev/waybill/test/testbed"
)

// TestTheServerBehavesAsItsDouble: tests of the product use kubetest instead of an API server.
func TestTheServerBehavesAsItsDouble(t *testing.T) {
	t.Parallel()
	cluster := testbed.Kubernetes(t)
	cluster.Apply(t, kubetest.ThingDefinition)
	t.Run("suite", func(t *testing.T) {
		kubetest.Run(t, func(t *testing.T) *kube.Cluster {
			return &kube.Cluster{Interface: cluster.Dynamic, Namespace: cluster.Namespace(t)}
		})
	})
}
