// Package kube reaches Kubernetes: a client for objects of any kind, found by
// kubeconfig or from inside a cluster.
package kube

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/waybill-dev/waybill/internal/fault"
)

// Config names a cluster.
type Config struct {
	Kubeconfig string // a file; "": the cluster that this process runs in
	Context    string // in the file; "": its current one
	Namespace  string // ""; the context's, else default
	Rate       int    // most requests a second; 0: unbounded

	Hint string // what to do without a Kubeconfig outside of a cluster
	// Search has an empty Kubeconfig mean the same as for kubectl: the files of KUBECONFIG, else ~/.kube/config, else
	// the cluster that this process runs in.
	Search bool
}

// Cluster is a client of one cluster.
type Cluster struct {
	dynamic.Interface
	Namespace string // where workflows and pods are made and watched

	config    *rest.Config
	discovery *discovery.DiscoveryClient
	inside    bool // this process runs in the cluster, so it reaches pods by their addresses
}

// Open makes a client; it does not ask the cluster anything. A file that is not there or wrong is
// fault.Invalid.
func Open(c Config) (*Cluster, error) {
	config, namespace, inside, err := restConfig(c)
	if err != nil {
		return nil, err
	}
	config.QPS = -1 // the API server and the lanes' limits keep order among clients
	if c.Rate > 0 {
		config.QPS, config.Burst = float32(c.Rate), c.Rate
	}
	config.UserAgent = "waybill"
	config.WarningHandler = rest.NoWarnings{} // they would be printed
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make a client of Kubernetes: %w", err)
	}
	kinds, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make a client of Kubernetes: %w", err)
	}
	return &Cluster{Interface: client, Namespace: namespace, config: config, discovery: kinds, inside: inside}, nil
}

// Pods returns the pods of the cluster's namespace.
func (c *Cluster) Pods() dynamic.ResourceInterface { return c.core("pods") }

// Secrets returns the Secrets of the cluster's namespace.
func (c *Cluster) Secrets() dynamic.ResourceInterface { return c.core("secrets") }

// Events returns the events of the cluster's namespace.
func (c *Cluster) Events() dynamic.ResourceInterface { return c.core("events") }

// Jobs returns the resource of Jobs.
func Jobs() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "batch", Version: "v1", Resource: "jobs"}
}

func (c *Cluster) core(resource string) dynamic.ResourceInterface {
	return c.Resource(schema.GroupVersionResource{Version: "v1", Resource: resource}).Namespace(c.Namespace)
}

// Host returns the address of the API server.
func (c *Cluster) Host() string { return c.config.Host }

// Config returns the configuration of the client, for other clients of the same cluster.
func (c *Cluster) Config() *rest.Config { return rest.CopyConfig(c.config) }

func restConfig(c Config) (config *rest.Config, namespace string, inside bool, err error) {
	rules := &clientcmd.ClientConfigLoadingRules{ExplicitPath: c.Kubeconfig}
	if c.Search {
		rules = clientcmd.NewDefaultClientConfigLoadingRules()
		rules.ExplicitPath = c.Kubeconfig
	}
	overrides := &clientcmd.ConfigOverrides{CurrentContext: c.Context}
	overrides.Context.Namespace = c.Namespace
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides)
	named, hint := c.Kubeconfig != "", c.Hint
	if c.Search && !named {
		hint = "name a file: --kubeconfig"
		found, err := loader.RawConfig()
		if err != nil {
			return nil, "", false, fault.New(fault.Invalid, "kubeconfig: %w", err)
		}
		named = len(found.Clusters) > 0
	}
	if !named {
		config, err := rest.InClusterConfig()
		if errors.Is(err, rest.ErrNotInCluster) {
			return nil, "", false, fault.New(fault.Invalid, "no kubeconfig is named, and this process runs in no cluster").WithHint("%s", hint)
		}
		if err != nil {
			return nil, "", false, fault.New(fault.Invalid, "no kubeconfig is named, and this process runs in no cluster: %w", err).
				WithHint("%s", hint)
		}
		namespace, _, err := loader.Namespace() // namespace of this process's service account
		return config, namespace, true, err
	}
	config, err = loader.ClientConfig()
	if err != nil {
		return nil, "", false, fault.New(fault.Invalid, "%s: %w", strings.TrimSpace("kubeconfig "+c.Kubeconfig), err)
	}
	namespace, _, err = loader.Namespace()
	return config, namespace, false, err
}

// maxSecret bounds the bytes of a Secret that Secret reads.
const maxSecret = 1 << 20

// Secret reads the data of a Secret in the cluster's namespace, and its resource version. An absent one is fault.NotFound.
func (c *Cluster) Secret(ctx context.Context, name string) (data map[string][]byte, version string, err error) {
	found, err := c.Secrets().Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, "", fault.New(fault.NotFound, "Secret %s/%s not found", c.Namespace, name)
	}
	if err != nil {
		return nil, "", fmt.Errorf("read Secret %s/%s: %w", c.Namespace, name, err)
	}
	texts, _, err := unstructured.NestedStringMap(found.Object, "data")
	if err != nil {
		return nil, "", fault.New(fault.Invalid, "Secret %s/%s: data: want texts", c.Namespace, name)
	}
	data = make(map[string][]byte, len(texts))
	size := 0
	for key, text := range texts {
		value, err := base64.StdEncoding.DecodeString(text)
		if size += len(value); err != nil || size > maxSecret {
			return nil, "", fault.New(fault.Invalid, "Secret %s/%s: key %s is not base64, or the Secret is larger than 1 MiB",
				c.Namespace, name, key)
		}
		data[key] = value
	}
	return data, found.GetResourceVersion(), nil
}
