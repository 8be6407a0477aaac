package pool_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/kube/kubetest"
	"github.com/waybill-dev/waybill/internal/kube/pool"
	"github.com/waybill-dev/waybill/internal/promotion"
)

// euApp is the application of most tests.
var euApp = want("apps/eu", "prod", "podinfo")

// connected returns a world with the leaf cluster eu, in which euApp is seen at 1.0.0.
func connected(t *testing.T) (*world, *kubetest.Server) {
	w := newWorld(t)
	leaf := w.leaf("eu")
	add(leaf, app("prod", "podinfo", "1.0.0"))
	w.pool.Use("podinfo", []pool.Want{euApp})
	pass(time.Second)
	w.see(euApp, "1.0.0")
	w.wakes()
	return w, leaf
}

func TestAClusterThatVanishesIsUnreachableUntilItReturns(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, leaf := connected(t)
		defer w.stop()
		leaf.Stop()
		pass(20 * time.Second)
		w.see(euApp, "1.0.0") // less than five probes have failed
		pass(time.Minute)
		w.see(euApp, "ClusterUnreachable")
		if s := w.pool.State(euApp); s.Last == nil || s.Last.Applied != "1.0.0" || !strings.Contains(s.Message, "refused") {
			t.Errorf("got %+v", s)
		}
		pass(2 * time.Hour)
		dialed := leaf.Dialed()
		pass(time.Hour)
		if n := leaf.Dialed() - dialed; n < 25 || n > 45 {
			t.Errorf("%d attempts in an hour, want one every 2 minutes", n)
		}
		add(leaf, app("prod", "podinfo", "2.0.0"))
		leaf.Start()
		w.wakes()
		pass(2*time.Minute + time.Second)
		w.see(euApp, "2.0.0")
		if w.wakes()["podinfo"] == 0 {
			t.Error("the user was not woken")
		}
	})
}

func TestAClusterThatNeverAnswersIsNotSyncedThenUnreachable(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.stop()
		w.leaf("eu").Stop()
		w.pool.Use("podinfo", []pool.Want{euApp})
		pass(3 * time.Second)
		w.see(euApp, "NotSynced")
		pass(time.Minute)
		w.see(euApp, "ClusterUnreachable")
	})
}

func TestAFrozenClusterIsUnreachableAndDelaysNoOther(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, leaf := connected(t)
		defer w.stop()
		other := w.leaf("us")
		leaf.Freeze()
		pass(time.Second)
		usApp := want("apps/us", "prod", "podinfo")
		add(other, app("prod", "podinfo", "1.0.0"))
		w.pool.Use("podinfo", []pool.Want{euApp, usApp})
		pass(time.Second)
		w.see(usApp, "1.0.0")
		pass(2 * time.Minute)
		w.see(euApp, "ClusterUnreachable")
		w.see(usApp, "1.0.0")
		leaf.Thaw()
		pass(2*time.Minute + time.Second)
		w.see(euApp, "1.0.0")
	})
}

func TestASlowClusterIsSeenLate(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.stop()
		leaf := w.leaf("eu")
		leaf.Slow(4 * time.Second)
		add(leaf, app("prod", "podinfo", "1.0.0"))
		w.pool.Use("podinfo", []pool.Want{euApp})
		pass(time.Second)
		w.see(euApp, "NotSynced")
		pass(20 * time.Second)
		w.see(euApp, "1.0.0")
		pass(time.Hour)
		w.see(euApp, "1.0.0")
	})
}

func TestRefusedCredentialsDropAClusterAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, leaf := connected(t)
		defer w.stop()
		leaf.Require("new")
		leaf.Cut() // an API server checks the token of each request
		pass(11 * time.Second)
		w.see(euApp, "ClusterUnreachable")
		if s := w.pool.State(euApp); !strings.Contains(s.Message, "401") {
			t.Errorf("message %q", s.Message)
		}
		w.secret("eu", leaf.Kubeconfig("eu", "new"))
		pass(time.Second)
		w.see(euApp, "1.0.0")
	})
}

func TestRotationLeavesNoGap(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, leaf := connected(t)
		defer w.stop()
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
		defer w.stop()
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
		defer w.stop()
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

func TestForbiddenKindsAreForbidden(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.stop()
		leaf := w.leaf("eu")
		add(leaf, app("prod", "podinfo", "1.0.0"))
		path := "/apis/kustomize.toolkit.fluxcd.io/v1/namespaces/prod/kustomizations"
		leaf.Refuse(path, http.StatusForbidden)
		w.pool.Use("podinfo", []pool.Want{euApp})
		pass(time.Second)
		w.see(euApp, "Forbidden")
		if s := w.pool.Clusters(); s[1].Phase != pool.Connected {
			t.Errorf("got %+v", s)
		}
		leaf.Refuse(path, 0)
		pass(2 * time.Minute)
		w.see(euApp, "1.0.0")
	})
}

func TestManyNamespacesAreWatchedTogetherIfThatIsAllowed(t *testing.T) {
	for _, allowed := range []bool{true, false} {
		t.Run(fmt.Sprint(allowed), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w := newWorld(t)
				defer w.stop()
				leaf := w.leaf("eu")
				all := "/apis/kustomize.toolkit.fluxcd.io/v1/kustomizations"
				if !allowed {
					leaf.Refuse(all, http.StatusForbidden)
				}
				var wants []pool.Want
				for i := range 10 {
					namespace := fmt.Sprint("n", i)
					add(leaf, app(namespace, "podinfo", "1.0.0"))
					wants = append(wants, want("apps/eu", namespace, "podinfo"))
				}
				w.pool.Use("podinfo", wants[:8])
				pass(time.Minute)
				if heard := strings.Join(leaf.Heard(), " "); strings.Contains(heard, all) {
					t.Errorf("all namespaces are watched for 8: %s", heard)
				}
				w.pool.Use("podinfo", wants)
				pass(time.Minute)
				for _, one := range wants {
					w.see(one, "1.0.0")
				}
				if heard := strings.Join(leaf.Heard(), " "); !strings.Contains(heard, all) {
					t.Errorf("all namespaces are not watched for 10: %s", heard)
				}
				add(leaf, app("n3", "podinfo", "2.0.0"))
				add(leaf, app("n9", "podinfo", "2.0.0"))
				synctest.Wait()
				w.see(wants[3], "2.0.0")
				w.see(wants[9], "2.0.0")
				w.pool.Use("podinfo", wants[:2])
				pass(time.Minute)
				w.see(wants[0], "1.0.0")
				w.wakes()
				add(leaf, app("n0", "podinfo", "2.0.0"))
				pass(time.Second)
				w.see(wants[0], "2.0.0")
			})
		})
	}
}

func TestUnknownKindsAreSearchedAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.stop()
		leaf := w.leaf("eu")
		leaf.Refuse("/apis/kustomize.toolkit.fluxcd.io*", http.StatusNotFound)
		add(leaf, app("prod", "podinfo", "1.0.0"))
		w.pool.Use("podinfo", []pool.Want{euApp})
		pass(time.Second)
		w.see(euApp, "NotSynced")
		if s := w.pool.State(euApp); !strings.Contains(s.Message, "Kustomization") {
			t.Errorf("message %q", s.Message)
		}
		leaf.Refuse("/apis/kustomize.toolkit.fluxcd.io*", 0)
		pass(31 * time.Second)
		w.see(euApp, "1.0.0")
		leaf.Refuse("/apis/kustomize.toolkit.fluxcd.io*", http.StatusNotFound) // the definition is deleted
		leaf.Forget()
		pass(time.Minute)
		w.see(euApp, "NotSynced")
		leaf.Refuse("/apis/kustomize.toolkit.fluxcd.io*", 0)
		pass(31 * time.Second)
		w.see(euApp, "1.0.0")
	})
}

func TestAVersionThatIsNotServedIsReplaced(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, helmReleases)
		defer w.stop()
		w.management.Add(helmReleases.GroupVersionResource, object(helmReleases, "dev", "podinfo", map[string]any{
			"status": map[string]any{"lastAppliedRevision": "6.5.4"},
		}))
		old := pool.Want{GVK: gvk(helmReleases), Namespace: "dev", Name: "podinfo"}
		old.GVK.Version = "v2beta1"
		w.pool.Use("old", []pool.Want{old})
		pass(time.Second)
		w.see(old, "6.5.4")
		now := old
		now.GVK.Version = "v2"
		w.pool.Use("new", []pool.Want{now})
		w.see(now, "6.5.4")
		pass(time.Minute)
		w.see(now, "6.5.4")
	})
}

func TestAListThatFailsForAMinuteIsNotSynced(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, leaf := connected(t)
		defer w.stop()
		path := "/apis/kustomize.toolkit.fluxcd.io/v1/*"
		leaf.Refuse(path, http.StatusInternalServerError)
		leaf.Forget()
		pass(30 * time.Second)
		w.see(euApp, "1.0.0")
		pass(2 * time.Minute)
		w.see(euApp, "NotSynced")
		if s := w.pool.State(euApp); s.Last == nil {
			t.Error("the last state is gone")
		}
		leaf.Refuse(path, 0)
		pass(time.Minute)
		w.see(euApp, "1.0.0")
	})
}

func TestTheManagementClusterAwayLeavesLeavesConnected(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, leaf := connected(t)
		defer w.stop()
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
		defer w.stop()
		usApp := want("apps/us", "prod", "podinfo")
		w.pool.Use("podinfo", []pool.Want{usApp, want("nonsense", "a", "b")})
		pass(time.Second)
		w.see(usApp, "ClusterNotFound")
		w.see(want("nonsense", "a", "b"), "ClusterNotFound")

		leaf := w.serve("us", kustomizations)
		add(leaf, app("prod", "podinfo", "1.0.0"))
		cluster := object(gitopsClusters, "apps", "us", map[string]any{
			"spec": map[string]any{"capiClusterRef": map[string]any{"name": "us"}},
		})
		w.management.Add(gitopsClusters.GroupVersionResource, cluster)
		pass(time.Second)
		w.see(usApp, "ClusterNotReady")
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

func TestUnusedWatchesAndClustersEndWithinFiveSeconds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, leaf := connected(t)
		defer w.stop()
		w.pool.Use("podinfo", nil)
		pass(5 * time.Second)
		if n := leaf.Watches(); n != 0 {
			t.Errorf("%d watches, want 0", n)
		}
		if n := w.management.Watches(); n != 0 {
			t.Errorf("%d watches of the management cluster, want 0", n)
		}
		if s := w.pool.Clusters(); len(s) != 0 {
			t.Errorf("got %+v", s)
		}
		if n := leaf.Open(); n != 0 {
			t.Errorf("%d open connections, want 0", n)
		}
	})
}

func TestEditsOfAPipelineReplaceWatches(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, leaf := connected(t)
		defer w.stop()
		before := len(leaf.Heard())
		for i := range 100 {
			w.pool.Use("podinfo", []pool.Want{euApp, want("apps/eu", fmt.Sprint("n", i%2), "podinfo")})
			pass(100 * time.Millisecond)
			w.see(euApp, "1.0.0")
		}
		if n := leaf.Watches(); n > 3 {
			t.Errorf("%d watches, want 3", n)
		}
		if n := len(leaf.Heard()) - before; n > 6 {
			t.Errorf("%d requests, want 2 watches and some probes", n)
		}
	})
}

func TestObjectsThatAreNamedLaterAreRead(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, leaf := connected(t)
		defer w.stop()
		var wants []pool.Want
		for i := range 100 {
			name := fmt.Sprint("app-", i)
			one := app("prod", name, "1.0.0")
			one.SetLabels(map[string]string{"version": "7"})
			add(leaf, one)
			wants = append(wants, want("apps/eu", "prod", name))
		}
		pass(time.Minute) // they are reduced to their keys
		before := len(leaf.Heard())
		w.pool.Use("one", wants[:1])
		w.see(wants[0], "NotSynced")
		pass(time.Second)
		w.see(wants[0], "1.0.0")
		w.pool.Use("all", wants)
		pass(2 * time.Second)
		for _, one := range wants {
			w.see(one, "1.0.0")
		}
		if n := len(leaf.Heard()) - before; n > 10 {
			t.Errorf("%d requests, want one, and one for all", n)
		}
		labeled := wants[5]
		labeled.Label = "version"
		w.pool.Use("label", []pool.Want{labeled})
		pass(time.Second)
		if s := w.pool.State(labeled); s.Unseen != "" || s.App.Value != "7" {
			t.Errorf("got %+v", s)
		}
		if s := w.pool.State(wants[5]); s.App.Value != "" {
			t.Errorf("got %+v", s)
		}
	})
}

func TestObjectsAreReadLive(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, leaf := connected(t)
		defer w.stop()
		got, err := w.pool.Get(t.Context(), euApp)
		if err != nil || got.GetName() != "podinfo" {
			t.Errorf("%v, %v", got, err)
		}
		if _, err := w.pool.Get(t.Context(), want("apps/eu", "prod", "typo")); !fault.Is(err, fault.NotFound) {
			t.Errorf("an object that does not exist: %v", err)
		}
		if _, err := w.pool.Get(t.Context(), want("apps/us", "prod", "podinfo")); !fault.Is(err, fault.Unavailable) {
			t.Errorf("a cluster that is not in use: %v", err)
		}
		leaf.Freeze()
		if _, err := w.pool.Get(t.Context(), euApp); !fault.Is(err, fault.Unavailable) {
			t.Errorf("a frozen cluster: %v", err)
		}
	})
}

func TestRolledBackClustersAreReadAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, leaf := connected(t)
		defer w.stop()
		leaf.Stop()
		restored := w.serve("eu", kustomizations) // its versions are lower
		add(restored, app("prod", "podinfo", "0.5.0"))
		w.secret("eu", restored.Kubeconfig("eu", "secret"))
		pass(2 * time.Minute)
		w.see(euApp, "0.5.0")
	})
}

func TestClustersThatJoinAndLeaveLeaveNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.stop()
		leaf := w.leaf("eu")
		add(leaf, app("prod", "podinfo", "1.0.0"))
		for i := range 50 {
			w.pool.Use("podinfo", []pool.Want{euApp})
			if i%2 == 0 {
				pass(time.Second)
				w.see(euApp, "1.0.0")
			}
			w.pool.Forget("podinfo")
			pass(5 * time.Second)
			if n := leaf.Open() + leaf.Watches() + w.management.Watches() + w.management.Open(); n != 0 {
				t.Fatalf("%d connections and watches are left", n)
			}
		}
		if n := testutil.CollectAndCount(w.pool, "waybill_kube_clusters"); n != 0 {
			t.Errorf("%d states of clusters, want 0", n)
		}
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

func TestFiguresCountClustersWatchesAndObjects(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, leaf := connected(t)
		defer w.stop()
		want := `
# HELP waybill_kube_clusters Clusters in use, by their state.
# TYPE waybill_kube_clusters gauge
waybill_kube_clusters{state="Connected"} 2
# HELP waybill_kube_objects Objects that are kept in memory.
# TYPE waybill_kube_objects gauge
waybill_kube_objects 3
# HELP waybill_kube_watches Open watches.
# TYPE waybill_kube_watches gauge
waybill_kube_watches 3
`
		if err := testutil.CollectAndCompare(w.pool, strings.NewReader(want)); err != nil {
			t.Error(err)
		}
		leaf.Require("new")
		leaf.Cut()
		pass(time.Second)
		want = `
# HELP waybill_kube_reconnects_total Connections to clusters that ended or were replaced, by the cause.
# TYPE waybill_kube_reconnects_total counter
waybill_kube_reconnects_total{cause="unauthorized"} 1
`
		err := testutil.CollectAndCompare(w.pool, strings.NewReader(want), "waybill_kube_reconnects_total")
		if err != nil {
			t.Error(err)
		}
	})
}

func TestNamesOfTenantsSelectNoOtherObjects(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, leaf := connected(t)
		defer w.stop()
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

func TestWatchesAreReplacedWithoutAGap(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, leaf := connected(t)
		defer w.stop()
		var wants []pool.Want
		for i := range 60 {
			namespace := fmt.Sprint("n", i%10)
			add(leaf, app(namespace, fmt.Sprint("app-", i), "1.0.0"))
			wants = append(wants, want("apps/eu", namespace, fmt.Sprint("app-", i)))
		}
		leaf.Slow(4 * time.Second)
		w.pool.Use("many", wants[:10]) // all namespaces are watched now
		for range 30 {
			pass(time.Second)
			w.see(euApp, "1.0.0")
		}
		w.see(wants[0], "1.0.0")
		pass(time.Minute)              // the other objects are reduced to their keys
		w.pool.Use("more", wants[10:]) // the list is read again
		for i := range 10 {
			add(leaf, app("prod", "podinfo", fmt.Sprint("2.0.", i)))
			pass(time.Second)
			w.see(euApp, fmt.Sprint("2.0.", i))
		}
		w.see(wants[59], "1.0.0")
	})
}

func TestMissedDeletionsAreSeen(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, leaf := connected(t)
		defer w.stop()
		leaf.Stop()
		remove(t, leaf, "prod", "podinfo")
		leaf.Forget()
		leaf.Start()
		pass(time.Minute)
		w.see(euApp, "TargetNotFound")
	})
}

func TestLateEventsDoNotReplaceNewerReads(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, leaf := connected(t)
		defer w.stop()
		add(leaf, app("prod", "other", "1.0.0"))
		pass(time.Minute) // it is reduced to its key
		leaf.Hold()
		add(leaf, app("prod", "other", "2.0.0"))
		add(leaf, app("prod", "other", "3.0.0"))
		other := want("apps/eu", "prod", "other")
		w.pool.Use("other", []pool.Want{other})
		pass(time.Second)
		w.see(other, "3.0.0")
		w.wakes()
		leaf.Release()
		pass(time.Second)
		w.see(other, "3.0.0")
		if woken := w.wakes(); len(woken) > 0 {
			t.Errorf("late events woke %v", woken)
		}
	})
}

func TestAKindThatFailsDelaysNoOther(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.stop()
		leaf := w.leaf("eu", helmReleases)
		add(leaf, app("prod", "podinfo", "1.0.0"))
		leaf.Refuse("/apis/helm.toolkit.fluxcd.io/v2/*", http.StatusInternalServerError)
		release := euApp
		release.GVK = gvk(helmReleases)
		w.pool.Use("podinfo", []pool.Want{euApp, release})
		pass(time.Second)
		w.see(euApp, "1.0.0")
		pass(time.Hour)
		w.see(euApp, "1.0.0")
		w.see(release, "NotSynced")
		if s := w.pool.Clusters(); s[1].Phase != pool.Connected {
			t.Errorf("got %+v", s[1])
		}
	})
}

func TestListsThatNeverEndAreReadAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.stop()
		leaf := w.leaf("eu")
		add(leaf, app("prod", "podinfo", "1.0.0"))
		leaf.Mute("/apis/kustomize.toolkit.fluxcd.io/v1/namespaces/prod/kustomizations")
		w.pool.Use("podinfo", []pool.Want{euApp})
		pass(time.Minute)
		w.see(euApp, "NotSynced")
		pass(5 * time.Minute)
		if n := leaf.Dialed(); n != 2 {
			t.Errorf("%d connections, want 2: one is made again", n)
		}
		leaf.Mute("")
		pass(5 * time.Minute)
		w.see(euApp, "1.0.0")
	})
}
