// Command eventcluster runs a Kubernetes API server for EventFlows: with their definition, those of Knative Eventing, and the rights of
// config/flow. Once it is ready it prints the paths of two kubeconfigs, the administrator's and the controller's. It ends at the end of
// its standard input, and everything ends with it. Run it in test/testbed.
//
//	eventcluster [knative]
//
// With the argument it also runs Knative's programs, for which it needs root.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	"github.com/waybill-dev/waybill/api/kube/flow/v1alpha1"
	"github.com/waybill-dev/waybill/test/testbed"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil && ctx.Err() == nil {
		fmt.Fprintln(os.Stderr, "eventcluster:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) > 1 || len(args) == 1 && args[0] != "knative" {
		return fmt.Errorf("usage: eventcluster [knative]")
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = io.Copy(io.Discard, os.Stdin) // an error ends it too
		cancel()
	}()
	klog.LogToStderr(false) // klog writes to files otherwise
	klog.SetOutput(io.Discard)
	return testbed.Run(ctx, os.Stderr, func(t testing.TB) {
		serve(t, len(args) == 1)
		<-ended
	})
}

// serve starts the cluster and prints where it is.
func serve(t testing.TB, knative bool) {
	cluster := testbed.Kubernetes(t)
	if knative {
		testbed.Knative(t, cluster)
	} else {
		cluster.InstallKnative(t)
	}
	cluster.InstallReferenceGrants(t)
	cluster.Apply(t, string(v1alpha1.Definition))
	rights, err := os.ReadFile("../../config/flow/rbac.yaml")
	if err != nil {
		t.Fatal(err)
	}
	cluster.Apply(t, string(rights))
	fmt.Println(cluster.Kubeconfig, controllerKubeconfig(t, cluster))
}

// controllerKubeconfig writes a kubeconfig of the controller's account.
func controllerKubeconfig(t testing.TB, cluster *testbed.Cluster) (path string) {
	const namespace = "waybill" // the account and the Lease are there
	config, err := clientcmd.Load([]byte(cluster.Account(t, namespace, "waybill-flow")))
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range config.Contexts {
		one.Namespace = namespace
	}
	path = filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
	return path
}
