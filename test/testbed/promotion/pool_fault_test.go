//go:build services

package promotion_test

import (
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	gitops "github.com/waybill-dev/waybill/api/kube/gitops/v1alpha1"
	"github.com/waybill-dev/waybill/internal/kube/pool"
	base "github.com/waybill-dev/waybill/internal/promotion"
	"github.com/waybill-dev/waybill/test/testbed"
)

// TestPoolSurvivesFaultsOfRealClusters: a frozen server, a network that passes nothing, an account that is deleted, and
// a cluster that is restored from a backup. Each fault leaves the other ways to the same cluster as they are.
func TestPoolSurvivesFaultsOfRealClusters(t *testing.T) {
	t.Parallel()
	var management, europe, america *testbed.Cluster
	start := func(c **testbed.Cluster) func() {
		return func() {
			*c = testbed.Kubernetes(t)
			(*c).InstallFlux(t)
		}
	}
	testbed.Together(t, start(&management), start(&europe), start(&america))
	management.Apply(t, string(gitops.Definition))
	management.Apply(t, `{apiVersion: v1, kind: Namespace, metadata: {name: apps}}`)
	lead := func(name, kubeconfig string) {
		t.Helper()
		management.Apply(t, fmt.Sprintf(ledByManifest, name, base64.StdEncoding.EncodeToString([]byte(kubeconfig))))
	}
	europe.Apply(t, fmt.Sprintf(readerOf, "podinfo-prod"))
	wire := newWire(t, europe.Config.Host)
	lead("direct", europe.PortableKubeconfig(t))
	lead("by-wire", strings.Replace(europe.PortableKubeconfig(t), europe.Config.Host, "https://"+wire.address(), 1))
	lead("account", europe.Account(t, "waybill", "reader"))
	lead("america", america.PortableKubeconfig(t))
	app, far := europe.HelmRelease(t, "podinfo-prod", "podinfo"), america.HelmRelease(t, "podinfo-prod", "podinfo")
	app.Succeed(t, "6.5.4")
	far.Succeed(t, "6.5.4")
	restore := europe.Backup(t)

	kind := schema.GroupVersionKind{Group: "helm.toolkit.fluxcd.io", Version: "v2", Kind: "HelmRelease"}
	var wants []pool.Want
	for _, name := range []string{"direct", "by-wire", "account", "america"} {
		wants = append(wants, pool.Want{Cluster: "apps/" + name, GVK: kind, Namespace: "podinfo-prod", Name: "podinfo"})
	}
	o := observe(t, management, wants)
	o.await(t, "all are known", func(s []pool.State) bool {
		return released(s[0], "6.5.4") && released(s[1], "6.5.4") && released(s[2], "6.5.4") && released(s[3], "6.5.4")
	})

	america.Freeze(t)
	wire.cut(true)
	accounts := europe.Dynamic.Resource(schema.GroupVersionResource{Version: "v1", Resource: "serviceaccounts"}).Namespace("waybill")
	if err := accounts.Delete(t.Context(), "reader", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	app.Succeed(t, "6.6.0")
	o.await(t, "the direct way is open", func(s []pool.State) bool { return released(s[0], "6.6.0") })
	o.await(t, "the deleted account, the cut wire and the frozen server are unreachable", func(s []pool.State) bool {
		for _, one := range s[1:] {
			if one.Unseen != base.ClusterUnreachable || one.Last == nil {
				return false
			}
		}
		return released(s[0], "6.6.0")
	})

	america.Thaw(t)
	wire.cut(false)
	lead("account", europe.Account(t, "waybill", "reader"))
	o.await(t, "all are known again", func(s []pool.State) bool {
		return released(s[0], "6.6.0") && released(s[1], "6.6.0") && released(s[2], "6.6.0") && released(s[3], "6.5.4")
	})

	for _, version := range []string{"6.6.1", "6.7.0"} {
		app.Succeed(t, version)
	}
	o.await(t, "newer versions are seen", func(s []pool.State) bool { return released(s[0], "6.7.0") })
	restore(t)
	o.await(t, "the restored state is seen", func(s []pool.State) bool { return newest(s[0], "6.5.4") && newest(s[1], "6.5.4") })
}

// newest reports whether a version is that of the newest release.
func newest(s pool.State, version string) bool {
	return s.Unseen == "" && len(s.App.History) > 0 && s.App.History[0].ChartVersion == version
}

// ledByManifest is a GitopsCluster with its Secret.
const ledByManifest = `
{apiVersion: v1, kind: Secret, metadata: {name: %[1]s, namespace: apps}, data: {kubeconfig: %[2]s}}
---
{apiVersion: gitops.weave.works/v1alpha1, kind: GitopsCluster, metadata: {name: %[1]s, namespace: apps}, spec: {secretRef: {name: %[1]s}}}
`

// wire forwards connections to a server. While it is cut nothing passes, and connections stay open.
type wire struct {
	listener net.Listener
	server   string

	mutex sync.Mutex
	whole *sync.Cond
	lost  bool
	ended bool
}

func newWire(t *testing.T, server string) *wire {
	t.Helper()
	to, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{server: to.Host}
	w.whole = sync.NewCond(&w.mutex)
	if w.listener, err = (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	var copying sync.WaitGroup
	copying.Go(func() { w.accept(&copying) })
	t.Cleanup(func() {
		w.mutex.Lock()
		w.ended = true
		w.whole.Broadcast()
		w.mutex.Unlock()
		_ = w.listener.Close()
		copying.Wait()
	})
	return w
}

func (w *wire) address() string { return w.listener.Addr().String() }

func (w *wire) cut(lost bool) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.lost = lost
	w.whole.Broadcast()
}

func (w *wire) accept(copying *sync.WaitGroup) {
	for {
		here, err := w.listener.Accept()
		if err != nil {
			return
		}
		there, err := net.Dial("tcp", w.server)
		if err != nil {
			_ = here.Close()
			continue
		}
		copying.Go(func() { w.copy(here, there) })
		copying.Go(func() { w.copy(there, here) })
	}
}

// copy forwards one direction, and holds data back while the wire is cut.
func (w *wire) copy(to, from net.Conn) {
	defer to.Close()
	defer from.Close()
	_, _ = io.Copy(holding{w, to}, from) // a closed connection ends it
}

type holding struct {
	wire *wire
	to   io.Writer
}

func (h holding) Write(p []byte) (int, error) {
	h.wire.mutex.Lock()
	for h.wire.lost && !h.wire.ended {
		h.wire.whole.Wait()
	}
	h.wire.mutex.Unlock()
	return h.to.Write(p)
}
