package cli_test

import (
	"os"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/waybill-dev/waybill/api/kube/flow/v1alpha1"
	"github.com/waybill-dev/waybill/internal/kube/kubetest"
)

// flowCluster KUBECONFIG FILE... starts an API of Kubernetes in memory with the kinds of EventFlows and of Kyma's application broker, stores
// the objects of each file there, and writes a kubeconfig for it. It ends with the story.
func flowCluster(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) == 0 {
		ts.Fatalf("usage: flowcluster kubeconfig file...")
	}
	kind := func(group, version, resource, name string) kubetest.Kind {
		return kubetest.Kind{GroupVersionResource: schema.GroupVersionResource{Group: group, Version: version, Resource: resource},
			Kind: name, Status: true, Cluster: name == "Namespace" || name == "Application"}
	}
	api := kubetest.Open()
	server := kubetest.ListenServer(api)
	ts.Defer(server.Close)
	resources := map[string]schema.GroupVersionResource{}
	for _, k := range []kubetest.Kind{
		kind(v1alpha1.Group, v1alpha1.Version, "eventflows", v1alpha1.Kind),
		kind("eventing.knative.dev", "v1", "brokers", "Broker"),
		kind("messaging.knative.dev", "v1", "subscriptions", "Subscription"),
		kind("messaging.knative.dev", "v1", "channels", "Channel"),
		kind("servicecatalog.k8s.io", "v1beta1", "serviceinstances", "ServiceInstance"),
		kind("servicecatalog.k8s.io", "v1beta1", "serviceclasses", "ServiceClass"),
		kind("servicecatalog.k8s.io", "v1beta1", "serviceplans", "ServicePlan"),
		kind("servicecatalog.k8s.io", "v1beta1", "servicebrokers", "ServiceBroker"),
		kind("applicationconnector.kyma-project.io", "v1alpha1", "applications", "Application"),
		kind("applicationconnector.kyma-project.io", "v1alpha1", "applicationmappings", "ApplicationMapping"),
		kind("", "v1", "namespaces", "Namespace"),
		kind("apps", "v1", "deployments", "Deployment"),
	} {
		api.Install(k)
		resources[k.Kind] = k.GroupVersionResource
	}
	for _, file := range args[1:] {
		for text := range strings.SplitSeq(ts.ReadFile(file), "\n---\n") {
			object := &unstructured.Unstructured{}
			ts.Check(yaml.Unmarshal([]byte(text), &object.Object))
			api.Add(resources[object.GetKind()], object)
		}
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), server.Kubeconfig(server.Address(), "story"), 0o600))
}
