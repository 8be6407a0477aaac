// Command kube is etcd, kubectl and the Kubernetes components that the tests run, linked
// once: most of their code is the same, and one link is a third of three. The
// first argument names the component, the rest is its command line.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubectl "k8s.io/kubectl/pkg/cmd"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

func main() {
	// Another component is one more line here and its import above; the module knows all of Kubernetes.
	components := map[string]func() *cobra.Command{
		"kubectl":                 kubectl.NewDefaultKubectlCommand,
		"kube-apiserver":          apiserver.NewAPIServerCommand,
		"kube-controller-manager": controllers.NewControllerManagerCommand,
		"kube-proxy":              proxy.NewProxyCommand,
		"kube-scheduler":          func() *cobra.Command { return scheduler.NewSchedulerCommand() },
		"kubelet":                 func() *cobra.Command { return kubelet.NewKubeletCommand(context.Background()) },
	}
	if len(os.Args) < 2 {
		refuse("usage: kube etcd|kube-apiserver|kube-controller-manager|kube-proxy|kube-scheduler|kubelet|kubectl [FLAG]...")
	}
	os.Args = os.Args[1:]
	if os.Args[0] == "etcd" {
		etcdmain.Main(os.Args)
		return
	}
	component, ok := components[os.Args[0]]
	if !ok {
		refuse("kube: unknown component " + os.Args[0])
	}
	os.Exit(cli.Run(component()))
}

func refuse(why string) {
	fmt.Fprintln(os.Stderr, why)
	os.Exit(2)
}
