package pool_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/kube/pool"
)

func TestAClusterThatVanishesIsUnreachableUntilItReturns(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, leaf := connected(t)
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

func TestForbiddenKindsAreForbidden(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
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

func TestAListThatFailsForAMinuteIsNotSynced(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, leaf := connected(t)
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

func TestRolledBackClustersAreReadAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, leaf := connected(t)
		leaf.Stop()
		restored := w.serve("eu", kustomizations) // its versions are lower
		add(restored, app("prod", "podinfo", "0.5.0"))
		w.secret("eu", restored.Kubeconfig("eu", "secret"))
		pass(2 * time.Minute)
		w.see(euApp, "0.5.0")
	})
}

func TestMissedDeletionsAreSeen(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, leaf := connected(t)
		leaf.Stop()
		remove(t, leaf, "prod", "podinfo")
		leaf.Forget()
		leaf.Start()
		pass(time.Minute)
		w.see(euApp, "TargetNotFound")
	})
}

func TestAKindThatFailsDelaysNoOther(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
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
