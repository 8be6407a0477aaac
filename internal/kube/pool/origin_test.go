package pool_test

import (
	"context"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/waybill-dev/waybill/internal/kube/kubetest"
	"github.com/waybill-dev/waybill/internal/kube/pool"
	"github.com/waybill-dev/waybill/internal/promotion"
)

func TestRotationLeavesNoGap(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, leaf := connected(t)
		leaf.Require("new") // watches that are open stay open
		leaf.Slow(3 * time.Second)
		w.secret("eu", leaf.Kubeconfig("eu", "new"))
		pass(time.Second)
		w.see(euApp, "1.0.0")
		pass(time.Minute)
		w.see(euApp, "1.0.0")
		if woken := w.wakes(); len(woken) > 0 {
			t.Errorf("an equal state woke %v", woken)
		}
		leaf.Slow(0)
		add(leaf, app("prod", "podinfo", "2.0.0"))
		pass(time.Second)
		w.see(euApp, "2.0.0")
		if n := leaf.Dialed(); n != 2 {
			t.Errorf("%d connections, want 2", n)
		}
	})
}

func TestRotationToWrongCredentialsKeepsTheOldConnection(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, leaf := connected(t)
		w.secret("eu", leaf.Kubeconfig("nowhere", "secret"))
		pass(time.Hour)
		w.see(euApp, "1.0.0")
		add(leaf, app("prod", "podinfo", "2.0.0"))
		synctest.Wait()
		w.see(euApp, "2.0.0")
		w.secret("eu", leaf.Kubeconfig("eu", "secret"))
		pass(time.Minute)
		w.see(euApp, "2.0.0")
	})
}

func TestABadKubeconfigIsRefusedUntilItChanges(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, leaf := connected(t)
		good := leaf.Kubeconfig("eu", "secret")
		w.secret("eu", []byte(strings.Replace(string(good), "token: ", "tokenFile: ", 1)))
		pass(time.Second)
		w.see(euApp, "ClusterNotReady")
		if s := w.pool.State(euApp); !strings.Contains(s.Message, "tokenFile") {
			t.Errorf("message %q", s.Message)
		}
		w.secret("eu", good)
		pass(time.Second)
		w.see(euApp, "1.0.0")
	})
}

func TestTheManagementClusterAwayLeavesLeavesConnected(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, leaf := connected(t)
		w.management.Stop()
		pass(time.Hour)
		w.see(euApp, "1.0.0")
		add(leaf, app("prod", "podinfo", "2.0.0"))
		synctest.Wait()
		w.see(euApp, "2.0.0")
		w.wakes()
		w.management.Start()
		pass(5 * time.Minute)
		w.see(euApp, "2.0.0")
		if woken := w.wakes(); len(woken) > 0 {
			t.Errorf("woken: %v", woken)
		}
		if n := leaf.Dialed(); n != 1 {
			t.Errorf("%d connections, want 1", n)
		}
	})
}

func TestGitopsClustersLeadToClusters(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		usApp := want("apps/us", "prod", "podinfo")
		w.pool.Use("podinfo", []pool.Want{usApp, want("nonsense", "a", "b")})
		pass(time.Second)
		w.see(usApp, "ClusterNotFound")
		if got, want := w.pool.State(usApp).Message, "GitopsCluster apps/us not found"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		w.see(want("nonsense", "a", "b"), "ClusterNotFound")

		leaf := w.serve("us", kustomizations)
		add(leaf, app("prod", "podinfo", "1.0.0"))
		cluster := object(gitopsClusters, "apps", "us", map[string]any{
			"spec": map[string]any{"capiClusterRef": map[string]any{"name": "us"}},
		})
		w.management.Add(gitopsClusters.GroupVersionResource, cluster)
		pass(time.Second)
		w.see(usApp, "ClusterNotReady")
		if got, want := w.pool.State(usApp).Message, "Secret apps/us-kubeconfig not found"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		secret := object(kubetest.Kind{GroupVersionResource: secrets, Kind: "Secret"}, "apps", "us-kubeconfig",
			map[string]any{"data": map[string]any{"value": base64Of(leaf.Kubeconfig("us", ""))}})
		w.management.Add(secrets, secret)
		pass(time.Second)
		w.see(usApp, "1.0.0")
		if s := w.pool.Clusters(); len(s) != 3 || !s[1].SetReady || s[1].Unseen != "" {
			t.Errorf("got %+v", s)
		}

		ready := func(status, manager string) {
			cluster := cluster.DeepCopy()
			cluster.Object["status"] = map[string]any{"conditions": []any{
				map[string]any{"type": "Ready", "status": status, "message": "upgrading"}}}
			if manager != "" {
				cluster.SetManagedFields([]metav1.ManagedFieldsEntry{{
					Manager: manager, Subresource: "status", Operation: metav1.ManagedFieldsOperationApply,
					FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:status":{"f:conditions":{"k:{\"type\":\"Ready\"}":{}}}}`)},
				}})
			}
			w.management.Add(gitopsClusters.GroupVersionResource, cluster)
			pass(3 * time.Second)
		}
		ready("False", "waybill") // its own view never locks a cluster out
		w.see(usApp, "1.0.0")
		ready("False", "cluster-controller")
		w.see(usApp, "ClusterNotReady")
		if s := w.pool.State(usApp); !strings.Contains(s.Message, "upgrading") {
			t.Errorf("message %q", s.Message)
		}
		ready("True", "")
		w.see(usApp, "1.0.0")
		if s := w.pool.Clusters(); s[1].SetReady {
			t.Errorf("got %+v", s)
		}
		err := w.management.Resource(gitopsClusters.GroupVersionResource).Namespace("apps").
			Delete(t.Context(), "us", metav1.DeleteOptions{})
		if err != nil {
			t.Fatal(err)
		}
		pass(time.Second)
		w.see(usApp, "ClusterNotFound")
	})
}

func TestClustersOfTheOperatorNeedNoGitopsCluster(t *testing.T) {
	bubble(t, func(t *testing.T) {
		server := kubetest.OpenServer(kubetest.Open(kustomizations))
		defer server.Close()
		add(server, app("prod", "podinfo", "1.0.0"))
		config, err := pool.ParseKubeconfig(server.Kubeconfig("edge", "secret"))
		if err != nil {
			t.Fatal(err)
		}
		p := pool.New(pool.Config{
			Clusters: map[string]*rest.Config{"edge": config},
			Dial:     func(ctx context.Context, _, _ string) (net.Conn, error) { return server.Dial(ctx) },
		})
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- p.Run(ctx) }()
		p.Use("podinfo", []pool.Want{want("edge", "prod", "podinfo"), want("apps/eu", "prod", "podinfo")})
		pass(time.Second)
		if s := p.State(want("edge", "prod", "podinfo")); s.App.Applied != "1.0.0" {
			t.Errorf("got %+v", s)
		}
		if s := p.State(want("apps/eu", "prod", "podinfo")); s.Unseen != promotion.ClusterNotFound {
			t.Errorf("without a management cluster: got %+v", s)
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func TestNamesOfTenantsSelectNoOtherObjects(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, leaf := connected(t)
		add(leaf, app("other", "podinfo", "9.9.9"))
		secret := euApp
		secret.GVK = schema.GroupVersionKind{Version: "v1", Kind: "Secret"}
		bad := []pool.Want{want("apps/eu", "..", "podinfo"), want("apps/eu", "../../x", "podinfo"), want("apps/eu", "prod", "../x"), secret}
		for _, group := range []string{"..", "a/../b", "%2e"} {
			one := euApp
			one.GVK.Group = group
			bad = append(bad, one)
		}
		version := euApp
		version.GVK = schema.GroupVersionKind{Group: "example.org", Version: "../v1", Kind: "Thing"}
		bad = append(bad, version)
		before := len(leaf.Heard())
		w.pool.Use("bad", bad)
		pass(time.Minute)
		for _, one := range bad {
			if s := w.pool.State(one); s.Unseen != promotion.NotSynced && s.Unseen != promotion.TargetNotFound {
				t.Errorf("%+v: got %+v", one, s)
			}
			if _, err := w.pool.Get(t.Context(), one); err == nil {
				t.Errorf("%+v is read", one)
			}
		}
		for _, path := range leaf.Heard()[before:] {
			if !strings.HasPrefix(path, "GET /apis/kustomize.toolkit.fluxcd.io/v1/namespaces/") && path != "GET /version" &&
				path != "GET /api/v1" {
				t.Errorf("request %s", path)
			}
		}
		w.see(euApp, "1.0.0")
	})
}

func TestPluginsOfTheOperatorAreRun(t *testing.T) {
	t.Parallel()
	server := kubetest.ListenServer(kubetest.Open(kustomizations))
	defer server.Close()
	server.Require("secret")
	add(server, app("prod", "podinfo", "1.0.0"))
	config, err := pool.ParseKubeconfig(server.Kubeconfig(server.Address(), ""))
	if err != nil {
		t.Fatal(err)
	}
	config.ExecProvider = &api.ExecConfig{
		Command: "echo", APIVersion: "client.authentication.k8s.io/v1", InteractiveMode: api.NeverExecInteractiveMode,
		Args: []string{`{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {"token": "secret"}}`},
	}
	woken := make(chan struct{}, 100)
	p := pool.New(pool.Config{
		Clusters: map[string]*rest.Config{"edge": config},
		Changed:  func([]string) { woken <- struct{}{} },
	})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- p.Run(ctx) }()
	for p.Use("podinfo", []pool.Want{want("edge", "prod", "podinfo")})[0].App.Applied != "1.0.0" {
		<-woken
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
