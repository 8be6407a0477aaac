package provisioner

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	provisionerv1 "github.com/waybill-dev/waybill/api/provisioner/v1"
	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/kube"
	"github.com/waybill-dev/waybill/internal/loop"
	"github.com/waybill-dev/waybill/internal/obs"
)

// Times between two looks at the pods.
const (
	soonPause = time.Second      // while one has not begun that waits for a snapshot
	restPause = 15 * time.Second // else: what is found then is of a provisioner that died
)

// Run sends the workers their snapshots. It returns when ctx ends; the workers run on.
func (k *Kubernetes) Run(ctx context.Context) error {
	defer k.Snapshots.Wait()
	away := loop.Backoff{First: soonPause, Most: restPause}
	known := map[types.UID]Target{}
	for {
		waiting, err := k.send(ctx, known)
		pause := restPause
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			pause = away.Next()
			k.Log.Warn("snapshots cannot be sent", obs.Error(err), obs.KeyRetryIn, pause.String())
		case waiting:
			pause = soonPause
			fallthrough
		default:
			away.Reset()
		}
		pauseUntil(ctx, pause, k.started)
	}
}

// send begins to send snapshots to all workers that serve. known has the targets of earlier calls, by the UIDs of their
// pods; waiting reports that a worker which needs a snapshot has not begun.
func (k *Kubernetes) send(ctx context.Context, known map[types.UID]Target) (waiting bool, err error) {
	asked, cancel := asking(ctx)
	defer cancel()
	var targets []Target
	err = k.each(asked, func(pod *unstructured.Unstructured) error {
		if pod.GetAnnotations()[annotationSnapshot] == "" {
			return nil
		}
		w, err := workerOf(pod)
		switch {
		case err != nil:
			return err
		case w.Status == string(build.WorkerPending):
			waiting = true
			return nil
		case w.Status != string(build.WorkerRunning):
			return nil
		}
		t, found := known[pod.GetUID()]
		if !found {
			if t, err = k.target(asked, pod, w); err != nil { // other workers get their snapshots all the same
				k.Log.Warn("the snapshot cannot be sent", obs.KeyWorkerID, w.WorkerID, obs.Error(err))
				return nil
			}
			known[pod.GetUID()] = t
		}
		targets = append(targets, t)
		return nil
	})
	if err != nil {
		return waiting, err
	}
	k.Snapshots.Send(ctx, targets)
	maps.DeleteFunc(known, func(_ types.UID, t Target) bool {
		return !slices.ContainsFunc(targets, func(listed Target) bool { return listed.ID == t.ID })
	})
	return waiting, nil
}

// target describes a worker that waits for its snapshot. Its token is in the pod's Secret: the provisioner that made it may have died.
func (k *Kubernetes) target(ctx context.Context, pod *unstructured.Unstructured, w provisionerv1.Worker) (t Target, err error) {
	address, err := kube.ParsePodAddress(w.Address)
	if err != nil {
		return t, err
	}
	secret, err := k.Cluster.Secrets().Get(ctx, pod.GetName(), metav1.GetOptions{})
	if err != nil {
		return t, refused(ctx, "read the Secret of worker "+pod.GetName(), err)
	}
	encoded, _, _ := unstructured.NestedString(secret.Object, "data", launchKey) // absent: an error below
	text, err := base64.StdEncoding.DecodeString(encoded)
	var launch provisionerv1.Launch
	if err == nil {
		err = json.Unmarshal(text, &launch)
	}
	if err != nil {
		return t, fmt.Errorf("read the Secret of worker %s: %w", pod.GetName(), err)
	}
	return Target{ID: string(pod.GetUID()), Address: "http://" + address.UID, Token: launch.Token, Snapshot: launch.Sent(),
		Dial: func(ctx context.Context, _, _ string) (net.Conn, error) { return k.Cluster.DialPod(ctx, address) }}, nil
}
