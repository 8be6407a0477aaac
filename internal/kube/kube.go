// Package kube reaches Kubernetes: a client for objects of any kind, found by
// kubeconfig or from inside a cluster, and what Waybill's workflows carry there.
package kube

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/waybill-dev/waybill/internal/fault"
)

// What workflows that Waybill created carry.
const (
	Finalizer   = "waybill.dev/archive" // kept until the workflow is archived and its end is recorded
	LabelAction = "waybill.dev/action"  // the action's id, which is the workflow's name too
)

// ArchivedWorkflow is the file of an action in the blob store that has its workflow as it was when
// it had ended.
const ArchivedWorkflow = "workflow.json"

// Config says which cluster.
type Config struct {
	Kubeconfig string // a file; "": the cluster that this process runs in
	Context    string // in the file; "": its current one
	Namespace  string // ""; the context's, else default
}

// Cluster is a client of one cluster.
type Cluster struct {
	dynamic.Interface
	Namespace string // where workflows are made and watched
}

// Open makes a client; it does not ask the cluster anything. A file that is not there or wrong is
// fault.Invalid.
func Open(c Config) (*Cluster, error) {
	config, namespace, err := restConfig(c)
	if err != nil {
		return nil, err
	}
	config.QPS = -1 // the API server and the lanes' limits keep order among clients
	config.UserAgent = "waybill"
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make a client of Kubernetes: %w", err)
	}
	return &Cluster{Interface: client, Namespace: namespace}, nil
}

func restConfig(c Config) (*rest.Config, string, error) {
	rules := &clientcmd.ClientConfigLoadingRules{ExplicitPath: c.Kubeconfig}
	overrides := &clientcmd.ConfigOverrides{CurrentContext: c.Context}
	overrides.Context.Namespace = c.Namespace
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides)
	if c.Kubeconfig == "" {
		config, err := rest.InClusterConfig()
		if err != nil {
			return nil, "", fault.New(fault.Invalid, "no kubeconfig is named, and this process runs in no cluster: %w", err).
				WithHint("name a file: argoConf.k8sOptions.kubeconfig")
		}
		namespace, _, err := loader.Namespace() // of this process's service account
		return config, namespace, err
	}
	config, err := loader.ClientConfig()
	if err != nil {
		return nil, "", fault.New(fault.Invalid, "kubeconfig %s: %w", c.Kubeconfig, err)
	}
	namespace, _, err := loader.Namespace()
	return config, namespace, err
}

// Workflows returns Argo's resource.
func Workflows() schema.GroupVersionResource { return argoproj("workflows") }

// WorkflowTemplates returns Argo's templates of one namespace.
func WorkflowTemplates() schema.GroupVersionResource { return argoproj("workflowtemplates") }

// ClusterWorkflowTemplates returns Argo's templates of a whole cluster.
func ClusterWorkflowTemplates() schema.GroupVersionResource {
	return argoproj("clusterworkflowtemplates")
}

func argoproj(resource string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "argoproj.io", Version: "v1alpha1", Resource: resource}
}
