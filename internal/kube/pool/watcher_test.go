package pool_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/kube/pool"
)

func TestManyNamespacesAreWatchedTogetherIfThatIsAllowed(t *testing.T) {
	for _, allowed := range []bool{true, false} {
		t.Run(fmt.Sprint(allowed), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w := newWorld(t)
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

func TestUnusedWatchesAndClustersEndWithinFiveSeconds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, leaf := connected(t)
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

func TestClustersThatJoinAndLeaveLeaveNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
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

func TestFiguresCountClustersWatchesAndObjects(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, leaf := connected(t)
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

func TestWatchesAreReplacedWithoutAGap(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, leaf := connected(t)
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

func TestLateEventsDoNotReplaceNewerReads(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, leaf := connected(t)
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
