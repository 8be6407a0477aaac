package testbed

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/waybill-dev/waybill/test/testbed/binary"
)

// Eventing is Knative Eventing beside a cluster: brokers of the class MTChannelBasedBroker and in-memory channels. It has no webhook, so
// no object gets defaults, and no change is refused: a Broker names its class and config, a Channel its template.
type Eventing struct {
	// Proxy is the URL of an HTTP proxy at which this computer's programs reach the addresses of Knative objects and Services.
	Proxy string

	Controller, BrokerController, ChannelController *Controller
	Ingress, Filter, Dispatcher                     *Controller

	cluster *Cluster
	proxy   *serviceProxy
}

// Knative installs Knative Eventing's resource definitions and settings, and runs its six programs on a cluster without a node; about
// ten seconds. It needs root, since each program listens on fixed ports and so gets a network of its own, in which it reaches
// nothing but the API server and, through a proxy, Services: Knative's own and those that Expose and Sink make.
func Knative(t testing.TB, cluster *Cluster) *Eventing {
	t.Helper()
	if cluster.machine != nil {
		t.Fatal("testbed: Knative runs beside a cluster without a node: controllers of Deployments would wait for its pods")
	}
	programs := make(map[string]string)
	for _, command := range binary.KnativeCommands() {
		programs[command] = program(t, binary.Knative(command))
	}
	cluster.InstallKnative(t)
	cluster.configureKnative(t)
	k := &Eventing{cluster: cluster, proxy: &serviceProxy{services: make(map[string]http.Handler)}}
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("testbed: start a proxy for Services: %v", err)
	}
	k.Proxy = "http://" + listener.Addr().String()
	k.proxy.serve(t, listener)

	var starts []func()
	for command, field := range map[string]**Controller{
		"controller": &k.Controller, "mtchannel_broker": &k.BrokerController, "in_memory/channel_controller": &k.ChannelController,
		"broker/ingress": &k.Ingress, "broker/filter": &k.Filter, "in_memory/channel_dispatcher": &k.Dispatcher,
	} {
		starts = append(starts, func() { *field = k.run(t, command, programs[command]) })
	}
	Together(t, starts...)
	return k
}

// InstallKnative installs Knative Eventing's resource definitions and nothing that acts on them.
func (c *Cluster) InstallKnative(t testing.TB) {
	t.Helper()
	c.applyFiles(t, binary.KnativeModule, "config/core/resources/*.yaml", "config/channels/in-memory-channel/resources/*.yaml")
}

// applyFiles applies files of a module that Knative's programs are made of, by the patterns of their names.
func (c *Cluster) applyFiles(t testing.TB, module string, patterns ...string) {
	t.Helper()
	source, err := binary.Knative("controller").ModuleDir(t.Context(), module)
	if err != nil {
		t.Fatalf("testbed: %v", err)
	}
	var documents bytes.Buffer // together: Apply then reads the list of served resources once
	for _, pattern := range patterns {
		files, err := filepath.Glob(filepath.Join(source, pattern))
		if err != nil || len(files) == 0 {
			t.Fatalf("testbed: no files %s in %s (%v)", pattern, source, err)
		}
		for _, file := range files {
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatalf("testbed: apply %s: %v", file, err)
			}
			fmt.Fprintf(&documents, "%s\n---\n", content)
		}
	}
	c.Apply(t, documents.String())
}

// configureKnative makes the settings of the programs, and the objects by which their controllers see that pods are ready.
func (c *Cluster) configureKnative(t testing.TB) {
	t.Helper()
	c.applyFiles(t, binary.KnativeModule, "config/core/100-namespace.yaml", "config/core/configmaps/*.yaml",
		"config/channels/in-memory-channel/configmaps/*.yaml", "config/channels/in-memory-channel/webhooks/secret.yaml")
	objects := dispatcherDeployment
	for _, service := range []string{"broker-ingress", "broker-filter", "imc-dispatcher"} {
		objects += "---" + fmt.Sprintf(knativeService, service)
	}
	c.Apply(t, objects)
	deployments := c.Dynamic.Resource(schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"})
	status := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apps/v1", "kind": "Deployment", "metadata": map[string]any{"name": "imc-dispatcher"},
		"status": map[string]any{"conditions": []any{map[string]any{"type": "Available", "status": "True"}}},
	}}
	_, err := deployments.Namespace(knativeNamespace).ApplyStatus(t.Context(), "imc-dispatcher", status,
		metav1.ApplyOptions{FieldManager: "testbed", Force: true})
	if err != nil {
		t.Fatalf("testbed: make the dispatcher available: %v", err)
	}
}

// knativeProgram describes one of Knative's programs.
type knativeProgram struct {
	service string   // the Service that it serves; "": none
	health  string   // path that answers when it is ready
	flags   []string // beyond those of all
	env     []string // beyond those of all
}

func knativeProgramOf(command string) knativeProgram {
	alone := []string{"--disable-ha"} // a program that is started again does not wait for the lease of its former life
	switch command {
	case "broker/ingress":
		return knativeProgram{service: "broker-ingress", health: "/healthz"}
	case "broker/filter":
		return knativeProgram{service: "broker-filter", health: "/healthz", env: []string{"NAMESPACE=" + knativeNamespace}}
	case "in_memory/channel_dispatcher":
		return knativeProgram{service: "imc-dispatcher", health: "/healthz", flags: alone,
			env: []string{"MAX_IDLE_CONNS=1000", "MAX_IDLE_CONNS_PER_HOST=1000"}}
	default:
		return knativeProgram{health: "/readiness", flags: alone,
			env: []string{"APISERVER_RA_IMAGE=none", "AUTH_PROXY_IMAGE=none", "DISPATCHER_IMAGE=none", "WEBHOOK_NAME=inmemorychannel-webhook"}}
	}
}

const (
	knativeNamespace = "knative-eventing"
	innerProxy       = "127.0.0.1:3128" // the proxy, as Knative's programs see it
	knativePort      = "127.0.0.1:8080" // each program answers there, in its own network
)

// run runs one of Knative's programs in a network of its own.
func (k *Eventing) run(t testing.TB, command, file string) *Controller {
	t.Helper()
	server, err := url.Parse(k.cluster.Config.Host)
	if err != nil {
		t.Fatalf("testbed: run Knative: %v", err)
	}
	network := newOwnNetwork(t)
	network.relay(t, server.Host)
	k.proxy.serve(t, network.listen(t, innerProxy))
	p, name := knativeProgramOf(command), binary.Knative(command).Name
	if p.service != "" {
		handler := forwardTo(&url.URL{Scheme: "http", Host: knativePort}, network.dial)
		k.proxy.expose(serviceHost(knativeNamespace, p.service), handler)
		if p.service == "imc-dispatcher" {
			k.proxy.exposeChannels(handler)
		}
	}
	client := &http.Client{Transport: &http.Transport{DialContext: network.dial, DisableKeepAlives: true}}
	run := &service{
		name: name, dir: t.TempDir(), died: k.cluster.fail,
		argv:  network.inside(append([]string{file, "--kube-api-qps=1000", "--kube-api-burst=1000"}, p.flags...)),
		ready: probe(client, "http://"+knativePort+p.health),
		env: append([]string{"KUBECONFIG=" + k.cluster.Kubeconfig, "HTTP_PROXY=http://" + innerProxy, "CLUSTER_DOMAIN=cluster.local",
			"SYSTEM_NAMESPACE=" + knativeNamespace, "POD_NAME=" + name, "CONTAINER_NAME=" + name,
			"CONFIG_LOGGING_NAME=config-logging", "CONFIG_OBSERVABILITY_NAME=config-observability"}, p.env...),
	}
	run.manage(t)
	return &Controller{run}
}

// probe returns a readiness check: the program answers a kubelet's probe with success, which may have no content.
func probe(client *http.Client, url string) func(context.Context) error {
	return func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		request.Header.Set("User-Agent", "kube-probe/1.36")
		response, err := client.Do(request)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if response.StatusCode/100 != 2 {
			return fmt.Errorf("%s: %s", url, response.Status)
		}
		return nil
	}
}

// knativeService is a Service that looks as if it had a pod.
const knativeService = `
apiVersion: v1
kind: Service
metadata: {name: %[1]s, namespace: knative-eventing}
spec: {ports: [{name: http, port: 80, targetPort: 8080}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: %[1]s, namespace: knative-eventing, labels: {kubernetes.io/service-name: %[1]s}}
addressType: IPv4
endpoints: [{addresses: [192.0.2.1], conditions: {ready: true}}]
ports: [{name: http, port: 8080}]
`

const dispatcherDeployment = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: imc-dispatcher, namespace: knative-eventing}
spec:
  selector: {matchLabels: {app: imc-dispatcher}}
  template:
    metadata: {labels: {app: imc-dispatcher}}
    spec: {containers: [{name: dispatcher, image: none}]}
`
