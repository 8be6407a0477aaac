package testbed

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/waybill-dev/waybill/test/testbed/binary"
)

// Cluster is a Kubernetes control plane: etcd and the API server. Unless Node made it, it has no
// nodes and no controllers, so pods stay pending, namespaces are not emptied and
// owners' dependants are not collected; custom resources behave as everywhere.
type Cluster struct {
	Kubeconfig string            // path of an administrator's kubeconfig
	Config     *rest.Config      // the same for clients in this process; no client-side rate limit
	Dynamic    dynamic.Interface // a client made of it

	folder  string
	store   *service // etcd
	server  *service
	machine *service   // a real node, and with it Kubernetes' own controllers; nil: none
	network *service   // holds the network that the cluster is in; nil: this computer's
	broken  chan error // holds why, when a part of the cluster ended on its own
}

// Tokens that clients of the cluster identify with.
const (
	token     = "administrator"
	nodeToken = "node" // has the rights of the node's kubelet
)

// Kubernetes starts a control plane of its own for the test; about five seconds.
func Kubernetes(t testing.TB) *Cluster {
	t.Helper()
	at := addresses(t, 3)
	c := &Cluster{folder: t.TempDir()}
	c.startServer(t, program(t, binary.Kube()), "http://"+at[0], "http://"+at[1], at[2])
	return c
}

// startServer starts etcd, which serves clients and peers at the given URLs, and the API server.
func (c *Cluster) startServer(t testing.TB, kube, store, peers, server string) {
	t.Helper()
	c.broken = make(chan error, 1)
	c.Config = &rest.Config{
		Host: "https://" + server, BearerToken: token, QPS: -1,
		TLSClientConfig: rest.TLSClientConfig{CAFile: filepath.Join(c.folder, "pki", "apiserver.crt")},
	}
	client := http.DefaultClient
	if c.network != nil {
		c.Config.Dial = c.Dial
		client = &http.Client{Transport: &http.Transport{DialContext: c.Dial}}
	}
	c.store = &service{
		name: "etcd", dir: c.folder, died: c.fail,
		argv: c.Inside(
			kube, "etcd", "--data-dir="+filepath.Join(c.folder, "etcd"), "--log-level=warn",
			"--listen-client-urls="+store, "--advertise-client-urls="+store,
			"--listen-peer-urls="+peers, "--initial-advertise-peer-urls="+peers, "--initial-cluster=default="+peers,
			"--unsafe-no-fsync", // the data must outlive processes, not the machine
		),
		ready: answers(client, store+"/health"),
	}
	c.store.manage(t)

	c.prepare(t)
	c.server = &service{name: "apiserver", dir: c.folder, died: c.fail,
		argv: c.Inside(c.serverCommand(kube, store, server)...), ready: c.ready}
	c.server.manage(t)

	var err error
	if c.Dynamic, err = dynamic.NewForConfig(c.Config); err != nil {
		t.Fatalf("testbed: make a client of the cluster: %v", err)
	}
}

// Kill kills the API server without warning. Clients see refused connections until Start.
func (c *Cluster) Kill(t testing.TB) {
	t.Helper()
	c.server.kill(t)
}

// Start starts the API server again after Kill, at the same address with the same data.
func (c *Cluster) Start(t testing.TB) {
	t.Helper()
	c.server.start(t)
}

// Collect runs those of Kubernetes' own controllers that delete the dependants of deleted owners and empty deleted namespaces. They
// notice new resource definitions only twice a minute, so install these first.
func (c *Cluster) Collect(t testing.TB) {
	t.Helper()
	run := &service{name: "collector", dir: t.TempDir(), died: c.fail, argv: c.Inside(program(t, binary.Kube()), "kube-controller-manager",
		"--controllers=garbage-collector-controller,namespace-controller", "--kubeconfig="+c.Kubeconfig,
		"--leader-elect=false", "--profiling=false", "--secure-port=0", "--kube-api-qps=1000", "--kube-api-burst=1000")}
	run.manage(t)
}

// fail makes every wait for the cluster return the error.
func (c *Cluster) fail(why error) {
	select {
	case c.broken <- why:
	default: // one reason is enough
	}
}

// ownersAdmission refuses owners that block their deletion to accounts without a right to do so, as some distributions of Kubernetes do.
const ownersAdmission = "OwnerReferencesPermissionEnforcement"

// serverCommand lets the API server sign its own certificate on first start and
// know one user by a token, which needs no certificate authority.
func (c *Cluster) serverCommand(kube, store, address string) []string {
	host, port := splitAddress(address)
	argv := []string{
		kube, "kube-apiserver",
		"--etcd-servers=" + store,
		"--bind-address=" + host, "--advertise-address=" + host, "--secure-port=" + port,
		"--service-cluster-ip-range=10.96.0.0/16",
		"--cert-dir=" + filepath.Join(c.folder, "pki"),
		"--token-auth-file=" + filepath.Join(c.folder, "tokens.csv"),
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + filepath.Join(c.folder, "accounts.key"),
		"--service-account-signing-key-file=" + filepath.Join(c.folder, "accounts.key"),
		"--profiling=false",
	}
	if c.network != nil { // it has a node
		return append(argv, "--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction,"+ownersAdmission,
			"--kubelet-preferred-address-types=InternalIP")
	}
	return append(argv, "--authorization-mode=RBAC", "--enable-admission-plugins="+ownersAdmission,
		"--endpoint-reconciler-type=none",            // refuses loopback addresses
		"--disable-admission-plugins=ServiceAccount", // the accounts it requests come from a controller
	)
}

// prepare writes what the API server and its clients read.
func (c *Cluster) prepare(t testing.TB) {
	t.Helper()
	c.Kubeconfig = filepath.Join(c.folder, "kubeconfig")
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatalf("testbed: make a key for service accounts: %v", err)
	}
	der, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		t.Fatalf("testbed: make a key for service accounts: %v", err)
	}
	key := pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})
	for name, content := range map[string][]byte{
		"accounts.key": key,
		"tokens.csv": []byte(token + `,admin,admin,"system:masters"` + "\n" + nodeToken + `,system:node:` + nodeName +
			`,node,"system:nodes"` + "\n"),
	} {
		if err := os.WriteFile(filepath.Join(c.folder, name), content, 0o600); err != nil {
			t.Fatalf("testbed: prepare the API server: %v", err)
		}
	}
	if err := clientcmd.WriteToFile(c.kubeconfig(token), c.Kubeconfig); err != nil {
		t.Fatalf("testbed: write a kubeconfig: %v", err)
	}
}

// PortableKubeconfig returns an administrator's kubeconfig that names no files.
func (c *Cluster) PortableKubeconfig(t testing.TB) string {
	t.Helper()
	return c.portable(t, token)
}

func (c *Cluster) portable(t testing.TB, token string) string {
	t.Helper()
	config := c.kubeconfig(token)
	if err := clientcmdapi.FlattenConfig(&config); err != nil {
		t.Fatalf("testbed: write a kubeconfig: %v", err)
	}
	content, err := clientcmd.Write(config)
	if err != nil {
		t.Fatalf("testbed: write a kubeconfig: %v", err)
	}
	return string(content)
}

func (c *Cluster) kubeconfig(token string) clientcmdapi.Config {
	const name = "testbed"
	return clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{name: {Server: c.Config.Host, CertificateAuthority: c.Config.CAFile}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{name: {Token: token}},
		Contexts:       map[string]*clientcmdapi.Context{name: {Cluster: name, AuthInfo: name}},
		CurrentContext: name,
	}
}

// ready asks the API server; its certificate appears while it starts.
func (c *Cluster) ready(ctx context.Context) error {
	client, err := rest.HTTPClientFor(c.Config)
	if err != nil {
		return err
	}
	return answers(client, c.Config.Host+"/readyz")(ctx)
}

// answers returns a readiness check: the URL answers 200.
func answers(client *http.Client, url string) func(context.Context) error {
	return func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		response, err := client.Do(request)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusOK {
			body, _ := io.ReadAll(io.LimitReader(response.Body, 4096)) // only to explain
			return fmt.Errorf("%s: %s: %s", url, response.Status, body)
		}
		return nil
	}
}
