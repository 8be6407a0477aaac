package provisioner_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	provisionerv1 "github.com/waybill-dev/waybill/api/provisioner/v1"
	"github.com/waybill-dev/waybill/internal/blob"
	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/builder/provisioner"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/kube/kubetest"
)

// cluster is a back end on a cluster that stores objects and runs nothing. test/testbed has a real one.
type cluster struct {
	*provisioner.Kubernetes
	t     *testing.T
	api   *kubetest.API
	blobs *blob.Dir
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	api := kubetest.New(t)
	blobs, err := blob.OpenDir(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	credentials := filepath.Join(t.TempDir(), "github")
	if err := os.WriteFile(credentials, []byte("https://ana:swordfish@git.example.org\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	return &cluster{t: t, api: api, blobs: blobs, Kubernetes: provisioner.NewKubernetes(provisioner.KubernetesConfig{
		Cluster: api.Cluster("builds"), Image: "waybill:1", Accounts: []string{"deployer"}, Credentials: map[string]string{"github": credentials},
		Snapshots: &provisioner.Snapshots{Blobs: blobs, Log: log}, Log: log})}
}

// podLaunch returns the inputs of a pod that clones a repository.
func podLaunch(id int64) provisioner.Launch {
	return provisioner.Launch{Token: "k1.the-workers-own", Key: 1, Digest: "the digest", Trace: "the trace", CreateWorker: provisionerv1.CreateWorker{
		BuildID: id, Project: "shop/web", Instance: "main", Nonce: "mYoP3hQWq0JbUuV2", Inputs: map[string]string{"password": "hunter22"},
		Repository: &provisionerv1.Repository{URL: "https://git.example.org/shop.git", Commit: strings.Repeat("a", 40),
			Branch: "x$(y)", Credential: "github"}}}
}

func (c *cluster) object(resource, name string) *unstructured.Unstructured {
	c.t.Helper()
	o, err := c.api.Resource(schema.GroupVersionResource{Version: "v1", Resource: resource}).Namespace("builds").
		Get(c.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	return o
}

// change merges a patch into a pod.
func (c *cluster) change(name, patch string, subresources ...string) {
	c.t.Helper()
	if _, err := c.Cluster.Pods().Patch(c.t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{},
		subresources...); err != nil {
		c.t.Fatal(err)
	}
}

// bind gives a pod to a node, which has to end it before it is gone.
func (c *cluster) bind(name string) { c.change(name, `{"spec": {"nodeName": "node"}}`) }

func text(t *testing.T, value any) string {
	t.Helper()
	out, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func TestAWorkerIsAPodWithItsSecrets(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	w, created, err := c.Create(t.Context(), podLaunch(41))
	if err != nil || !created || w.WorkerID != "waybill-worker-main-41" || w.BuildID != 41 || w.Project != "shop/web" ||
		w.Instance != "main" || w.Key != 1 ||
		w.Status != "Pending" || w.CreatedAt.IsZero() {
		t.Fatalf("%+v, %t, %v", w, created, err)
	}
	pod := text(t, c.object("pods", w.WorkerID).Object)
	for _, secret := range []string{"hunter22", "swordfish", "k1.the", "mYoP3hQWq0JbUuV2"} {
		if strings.Contains(pod, secret) {
			t.Errorf("the pod has %s: %s", secret, pod)
		}
	}
	for _, want := range []string{`"automountServiceAccountToken":false`, `"terminationGracePeriodSeconds":600`,
		`"restartPolicy":"Never"`, `"serviceAccountName":"waybill-worker"`,
		`"WHARF_KUBERNETES_OWNER_ENABLE","value":"true"`, `x$$(y)`, `"readOnlyRootFilesystem":true`, `"runAsNonRoot":true`,
		`"--service-accounts","default,deployer"`} {
		if !strings.Contains(pod, want) && !strings.Contains(pod, strings.Replace(want, `"WHARF`, `"name":"WHARF`, 1)) {
			t.Errorf("the pod lacks %s: %s", want, pod)
		}
	}
	clone := text(t, c.object("pods", w.WorkerID).Object["spec"].(map[string]any)["initContainers"])
	if strings.Contains(clone, "serviceaccount") || strings.Contains(clone, "launch") || !strings.Contains(clone, "/mnt/credentials") {
		t.Errorf("the container that clones is %s", clone)
	}
	if launch := text(t, c.object("secrets", w.WorkerID).Object); !strings.Contains(launch, "hunter22") ||
		!strings.Contains(launch, "k1.the") ||
		!strings.Contains(launch, `\"clone\":\"/mnt/work/clone\"`) || strings.Contains(launch, "swordfish") {
		t.Errorf("the Secret is %s", launch)
	}
	if credentials := text(t, c.object("secrets", w.WorkerID+"-credentials").Object); !strings.Contains(credentials, "swordfish") {
		t.Errorf("the Secret is %s", credentials)
	}
}

func TestABuildHasOnePod(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	first, _, err := c.Create(t.Context(), podLaunch(41))
	if err != nil {
		t.Fatal(err)
	}
	// A provisioner died before it made the Secret.
	if err := c.Cluster.Secrets().Delete(t.Context(), first.WorkerID, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if again, created, err := c.Create(t.Context(), podLaunch(41)); err != nil || created || again.WorkerID != first.WorkerID {
		t.Errorf("%+v, %t, %v", again, created, err)
	}
	c.object("secrets", first.WorkerID)
	other := podLaunch(41)
	other.Digest = "another digest"
	if _, _, err := c.Create(t.Context(), other); !fault.Is(err, fault.Conflict) {
		t.Errorf("another request: %v", err)
	}
	c.bind(first.WorkerID)
	if err := c.Cluster.Pods().Delete(t.Context(), first.WorkerID, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := c.Create(t.Context(), podLaunch(41)); !fault.Is(err, fault.Conflict) || !strings.Contains(err.Error(), "was deleted") {
		t.Errorf("one that is being deleted: %v", err)
	}
	c.change(first.WorkerID, `{"metadata": {"labels": null}}`)
	if _, _, err := c.Create(t.Context(), podLaunch(41)); !fault.Is(err, fault.Conflict) || !strings.Contains(err.Error(), "is not a worker") {
		t.Errorf("another pod of the name: %v", err)
	}
	if err := c.Delete(t.Context(), first.WorkerID, true); !fault.Is(err, fault.Conflict) {
		t.Errorf("delete another pod of the name: %v", err)
	}
}

// TestAPodKeepsTheKeyThatItWasMadeWith: its annotation names it, and readers make its token of that one.
func TestAPodKeepsTheKeyThatItWasMadeWith(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	w, _, err := c.Create(t.Context(), podLaunch(41))
	if err == nil { // a provisioner died before it made the Secret
		err = c.Cluster.Secrets().Delete(t.Context(), w.WorkerID, metav1.DeleteOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
	rotated := podLaunch(41)
	rotated.Key, rotated.Token = 2, "k2.the-workers-own"
	if _, _, err := c.Create(t.Context(), rotated); !fault.Is(err, fault.Conflict) ||
		!strings.Contains(err.Error(), "builder key k1, which was withdrawn") {
		t.Errorf("without the old key: %v", err)
	}
	rotated.Keys = append(build.BuilderKeys{{Number: 2, Secret: []byte("fedcba9876543210")}}, keys...)
	if again, created, err := c.Create(t.Context(), rotated); err != nil || created || again.Key != 1 {
		t.Errorf("%+v, %t, %v", again, created, err)
	}
	want := keys[0].WorkerToken("main", 41, rotated.Nonce)
	if launch := text(t, c.object("secrets", w.WorkerID).Object); !strings.Contains(launch, want) || strings.Contains(launch, "k2.") {
		t.Errorf("want the token %s: %s", want, launch)
	}
}

// TestASecretOfAnEarlierPodIsReplaced: the cluster had not removed it yet.
func TestASecretOfAnEarlierPodIsReplaced(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	w, _, err := c.Create(t.Context(), podLaunch(41))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Cluster.Pods().Delete(t.Context(), w.WorkerID, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := c.Create(t.Context(), podLaunch(41)); err != nil {
		t.Fatal(err)
	}
	if owner := c.object("secrets", w.WorkerID).GetOwnerReferences()[0].UID; owner != c.object("pods", w.WorkerID).GetUID() {
		t.Errorf("the Secret belongs to the pod %q", owner)
	}
}

func TestASnapshotIsAnnounced(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	key, _, _, err := c.blobs.Put(t.Context(), "snapshots/1", strings.NewReader("0123456789"))
	if err != nil {
		t.Fatal(err)
	}
	launch := podLaunch(42)
	launch.Repository, launch.Snapshot = nil, key
	if _, _, err := c.Create(t.Context(), launch); err != nil {
		t.Fatal(err)
	}
	pod := c.object("pods", "waybill-worker-main-42")
	if got := pod.GetAnnotations()["waybill.dev/snapshot"]; got != key {
		t.Errorf("the annotation is %q", got)
	}
	if _, found, _ := unstructured.NestedSlice(pod.Object, "spec", "initContainers"); found {
		t.Error("the pod clones something")
	}
	sum := sha256.Sum256([]byte("0123456789"))
	if secret := text(t, c.object("secrets", pod.GetName()).Object); !strings.Contains(secret, hex.EncodeToString(sum[:])) {
		t.Errorf("the Secret is %s", secret)
	}
	launch.Snapshot, launch.BuildID = "missing", 43
	if _, _, err := c.Create(t.Context(), launch); !fault.Is(err, fault.NotFound) {
		t.Errorf("a missing snapshot: %v", err)
	}
}

// TestABundleOfAnEarlierBuildIsAnnounced: the pod clones its repository, and is sent the bundle as others are sent a snapshot.
func TestABundleOfAnEarlierBuildIsAnnounced(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	key, digest, size, err := c.blobs.Put(t.Context(), "build/42/earlier/", strings.NewReader("what it has left"))
	if err != nil {
		t.Fatal(err)
	}
	launch := podLaunch(42)
	launch.Earlier = &provisionerv1.Earlier{BuildID: 41, Bundle: key}
	if _, _, err := c.Create(t.Context(), launch); err != nil {
		t.Fatal(err)
	}
	pod := c.object("pods", "waybill-worker-main-42")
	if got := pod.GetAnnotations()["waybill.dev/snapshot"]; got != key {
		t.Errorf("the annotation is %q", got)
	}
	if _, found, _ := unstructured.NestedSlice(pod.Object, "spec", "initContainers"); !found {
		t.Error("the pod clones nothing")
	}
	given, _, err := unstructured.NestedString(c.object("secrets", pod.GetName()).Object, "stringData", "launch.json")
	var launched provisionerv1.Launch
	if err := errors.Join(err, json.Unmarshal([]byte(given), &launched)); err != nil {
		t.Fatal(err)
	}
	if launched.Push == nil || *launched.Push != (provisionerv1.Push{Size: size, SHA256: digest}) ||
		launched.Check() != nil || launched.Trace != "the trace" {
		t.Errorf("the worker is given %+v, %v", launched.Push, launched.Check())
	}
	launch.Earlier.Bundle, launch.BuildID = "missing", 43
	if _, _, err := c.Create(t.Context(), launch); !fault.Is(err, fault.NotFound) {
		t.Errorf("a missing bundle: %v", err)
	}
}

func TestWhatNoPodCanBeIsInvalid(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	for name, change := range map[string]func(*provisioner.Launch){
		"instance":    func(l *provisioner.Launch) { l.Instance = "Main_1" },
		"credentials": func(l *provisioner.Launch) { l.Repository.Credential = "gitlab" },
		"URL":         func(l *provisioner.Launch) { l.Repository.URL = "https://ana:pw@git.example.org/a" },
		"size":        func(l *provisioner.Launch) { l.Inputs = map[string]string{"a": strings.Repeat("x", 1<<20)} },
	} {
		launch := podLaunch(41)
		change(&launch)
		if _, _, err := c.Create(t.Context(), launch); !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestWhatTheClusterRefusesCanPass: a quota, missing rights, and silence cost no attempt; a list is then incomplete.
func TestWhatTheClusterRefusesCanPass(t *testing.T) {
	t.Parallel()
	pods := schema.GroupResource{Resource: "pods"}
	for want, refusal := range map[string]error{
		"the namespace has no room":                apierrors.NewForbidden(pods, "w", errors.New("exceeded quota: builds")),
		"cannot create":                            apierrors.NewForbidden(pods, "w", errors.New("cannot create")),
		"connection refused":                       errors.New("connection refused"),
		"the server is currently unable to handle": apierrors.NewServiceUnavailable("the server is currently unable to handle it"),
	} {
		c := newCluster(t)
		c.api.Before(func(r kubetest.Request) error {
			if r.Resource != "pods" {
				return nil
			}
			return refusal
		})
		if _, _, err := c.Create(t.Context(), podLaunch(41)); !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), want) {
			t.Errorf("create: %v, want %s", err, want)
		}
		if _, err := c.List(t.Context()); !fault.Is(err, fault.Unavailable) {
			t.Errorf("list: %v", err)
		}
		if err := c.Delete(t.Context(), "waybill-worker-main-41", false); !fault.Is(err, fault.Unavailable) {
			t.Errorf("delete: %v", err)
		}
	}
}

func TestPodsAreListedAsWorkers(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	w, _, err := c.Create(t.Context(), podLaunch(41))
	if err != nil {
		t.Fatal(err)
	}
	other := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{
		"name": "waybill-worker-x-1", "namespace": "builds",
		"labels": map[string]any{"app.kubernetes.io/managed-by": "waybill", "app.kubernetes.io/component": "build-worker",
			"waybill.dev/build": "none"}}}}
	if _, err := c.Cluster.Pods().Create(t.Context(), other, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct{ status, wantStatus, wantReason string }{
		{
			`{"phase": "Pending", "containerStatuses": [{"name": "worker", "state": {"waiting": {"reason": "ErrImagePull", "message": "not\u001b found"}}}]}`, "Pending", "ImagePull: notound"},
		{`{"phase": "Running", "podIP": "10.1.2.3", "containerStatuses": [{"name": "worker", "state": {"running": {}}}]}`, "Pending", ""},
		{
			`{"phase": "Running", "podIP": "10.1.2.3", "containerStatuses": [{"name": "worker", "ready": true, "state": {"running": {}}}]}`,
			"Running", ""},
		{
			`{"phase": "Running", "conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager", "message": "gone"}]}`, "Unknown", "NodeLost: gone"},
		{`{"phase": "Failed", "reason": "Evicted", "message": "low"}`, "Ended", "Evicted: low"},
	} {
		c.change(w.WorkerID, `{"status": null}`, "status")
		c.change(w.WorkerID, `{"status": `+step.status+`}`, "status")
		workers, err := c.List(t.Context())
		if err != nil || len(workers) != 1 || workers[0].Status != step.wantStatus || workers[0].Reason != step.wantReason {
			t.Errorf("%s: %+v, %v", step.status, workers, err)
		}
		if step.wantStatus == "Running" && !strings.HasPrefix(workers[0].Address, "pod://builds/waybill-worker-main-41:5010?ip=10.1.2.3") {
			t.Errorf("the address is %s", workers[0].Address)
		}
	}
}

// TestDeletingLeavesTimeForResults unless the pod's node is lost, or by force.
func TestDeletingLeavesTimeForResults(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]struct {
		force bool
		lost  bool
		now   bool
	}{"asked": {}, "forced": {force: true, now: true}, "lost": {lost: true, now: true}} {
		c := newCluster(t)
		w, _, err := c.Create(t.Context(), podLaunch(41))
		if err != nil {
			t.Fatal(err)
		}
		c.bind(w.WorkerID)
		if want.lost {
			c.change(w.WorkerID, `{"status": {"phase": "Unknown"}}`, "status")
		}
		for range 2 {
			if err := c.Delete(context.WithoutCancel(t.Context()), w.WorkerID, want.force); err != nil {
				t.Fatal(err)
			}
		}
		left, err := c.Cluster.Pods().Get(t.Context(), w.WorkerID, metav1.GetOptions{})
		if now := apierrors.IsNotFound(err); now != want.now || !now && *left.GetDeletionGracePeriodSeconds() == 0 {
			t.Errorf("%s: %v, %v", name, left, err)
		}
	}
}
