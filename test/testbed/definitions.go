package testbed

import (
	"fmt"
	"testing"

	"github.com/waybill-dev/waybill/test/testbed/binary"
)

// InstallReferenceGrants installs the definition of the Gateway API's ReferenceGrant.
func (c *Cluster) InstallReferenceGrants(t testing.TB) {
	t.Helper()
	c.applyFiles(t, binary.GatewayModule, "config/crd/standard/gateway.networking.k8s.io_referencegrants.yaml")
}

// InstallPeerAuthentications installs a definition of Istio's PeerAuthentication, whose objects may have any content.
func (c *Cluster) InstallPeerAuthentications(t testing.TB) {
	t.Helper()
	c.define(t, definition{"security.istio.io", "v1", "PeerAuthentication", "peerauthentications", "Namespaced"})
}

// InstallKyma installs definitions of the resources by which Kyma brought the events of applications to namespaces. Their objects may
// have any content, and a status.
func (c *Cluster) InstallKyma(t testing.TB) {
	t.Helper()
	const connector, sources, version = "applicationconnector.kyma-project.io", "sources.kyma-project.io", "v1alpha1"
	c.define(t,
		definition{connector, version, "Application", "applications", "Cluster"},
		definition{connector, version, "ApplicationMapping", "applicationmappings", "Namespaced"},
		definition{connector, version, "EventActivation", "eventactivations", "Namespaced"},
		definition{sources, version, "HTTPSource", "httpsources", "Namespaced"},
	)
}

// InstallServiceCatalog installs definitions of the resources by which the Service Catalog brought service instances to namespaces.
func (c *Cluster) InstallServiceCatalog(t testing.TB) {
	t.Helper()
	const group, version = "servicecatalog.k8s.io", "v1beta1"
	c.define(t,
		definition{group, version, "ServiceInstance", "serviceinstances", "Namespaced"},
		definition{group, version, "ServiceClass", "serviceclasses", "Namespaced"},
		definition{group, version, "ServicePlan", "serviceplans", "Namespaced"},
		definition{group, version, "ServiceBroker", "servicebrokers", "Namespaced"},
	)
}

// definition names a resource.
type definition struct{ group, version, kind, plural, scope string }

func (c *Cluster) define(t testing.TB, definitions ...definition) {
	t.Helper()
	for _, d := range definitions {
		c.Apply(t, fmt.Sprintf(openDefinition, d.group, d.version, d.kind, d.plural, d.scope))
	}
}

// openDefinition defines a resource whose objects may have any content.
const openDefinition = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: %[4]s.%[1]s
  annotations: {api-approved.kubernetes.io: "unapproved, only for tests"} # demanded of groups of k8s.io
spec:
  group: %[1]s
  scope: %[5]s
  names: {kind: %[3]s, plural: %[4]s}
  versions:
  - name: %[2]s
    served: true
    storage: true
    subresources: {status: {}}
    schema:
      openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}
`
