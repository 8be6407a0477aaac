package gate

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/conductor"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/kube"
	"github.com/waybill-dev/waybill/internal/promotion"
)

// The annotations of a gate's Job. They are for people, and not labels since an environment's name may be none.
const (
	annotationPipeline   = "waybill.dev/pipeline"
	annotationRun        = "waybill.dev/run"
	annotationEnv        = "waybill.dev/environment"
	annotationGate       = "waybill.dev/gate"
	annotationOfRevision = "waybill.dev/revision"
)

// jobTTL is the time in seconds for which an ended Job stays, unless its template names another.
const jobTTL = int64(24 * time.Hour / time.Second)

// Job creates the Jobs of gates in the namespaces of their pipelines. A Job has the name of its action, so that creating it twice is
// once. The promoter observes its end. Safe for concurrent use.
type Job struct {
	Management *kube.Cluster // the cluster of the pipelines
}

var _ conductor.HandOff = Job{}

// Do creates the Job; Done reports that the cluster has it.
func (h Job) Do(ctx context.Context, a conductor.Attempt) action.Outcome {
	w, err := workOf(a, func(g *promotion.GateWork) bool { return g.Job != nil })
	if err != nil {
		return action.Outcome{Kind: action.Fatal, Code: string(fault.Invalid), Error: err.Error()}
	}
	ref := w.Namespace + "/" + a.Action.ID.String()
	_, err = h.jobs(w).Create(ctx, jobOf(a.Action, w), metav1.CreateOptions{FieldManager: "waybill"})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return refused(fmt.Errorf("create the Job %s: %w", ref, err))
	}
	return action.Outcome{Kind: action.Done, Ref: ref}
}

// Stop deletes the Job with its pods. One that does not exist needs nothing.
func (h Job) Stop(ctx context.Context, a conductor.Attempt) action.Outcome {
	w, err := workOf(a, func(g *promotion.GateWork) bool { return g.Job != nil })
	if err != nil {
		return action.Outcome{Kind: action.Fatal, Code: string(fault.Invalid), Error: err.Error()}
	}
	background := metav1.DeletePropagationBackground
	err = h.jobs(w).Delete(ctx, a.Action.ID.String(), metav1.DeleteOptions{PropagationPolicy: &background})
	if err != nil && !apierrors.IsNotFound(err) {
		return refused(fmt.Errorf("delete the Job %s/%s: %w", w.Namespace, a.Action.ID, err))
	}
	return action.Outcome{Kind: action.Done}
}

func (h Job) jobs(w promotion.Work) dynamic.ResourceInterface {
	return h.Management.Resource(kube.Jobs()).Namespace(w.Namespace)
}

// jobOf returns the Job to create. The template decides its spec, labels and annotations, and nothing else of its metadata. It belongs
// to the pipeline's object, so it is deleted with that.
func jobOf(a action.Action, w promotion.Work) *unstructured.Unstructured {
	template := unstructured.Unstructured{Object: w.Gate.Job}
	job := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "batch/v1", "kind": "Job"}}
	if spec, found, _ := unstructured.NestedMap(template.Object, "spec"); found {
		if _, limited := spec["ttlSecondsAfterFinished"]; !limited {
			spec["ttlSecondsAfterFinished"] = jobTTL
		}
		if _, limited := spec["activeDeadlineSeconds"]; !limited && w.Gate.Timeout >= time.Second {
			spec["activeDeadlineSeconds"] = int64(w.Gate.Timeout / time.Second)
		}
		job.Object["spec"] = spec
	}
	labels, annotations := map[string]string{}, map[string]string{}
	maps.Copy(labels, template.GetLabels())
	maps.Copy(annotations, template.GetAnnotations())
	labels[promotion.LabelGate] = a.ID.String()
	maps.Copy(annotations, map[string]string{annotationPipeline: w.Pipeline, annotationRun: strconv.FormatInt(w.Run, 10),
		annotationEnv: string(w.Env), annotationGate: w.Gate.Name, annotationOfRevision: string(w.Revision)})
	job.SetName(a.ID.String())
	job.SetNamespace(w.Namespace)
	job.SetLabels(labels)
	job.SetAnnotations(annotations)
	job.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "pipelines.weave.works/v1alpha1", Kind: "Pipeline",
		Name: w.Pipeline, UID: types.UID(w.UID)}})
	return job
}

// refused judges an error of the API server about a Job.
func refused(err error) action.Outcome {
	o, code := kube.Outcome(err)
	switch code {
	case http.StatusBadRequest, http.StatusNotFound, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity:
		o.Kind = action.Fatal
	}
	return o
}
