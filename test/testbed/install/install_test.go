//go:build services

// Package install_test applies the manifests of waybill pipeline install to a real API server, and uses the account that
// they make.
package install_test

import (
	"context"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	pipelines "github.com/waybill-dev/waybill/api/kube/v1alpha1"
	"github.com/waybill-dev/waybill/internal/cli/pipeline/install"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/promoter/resource"
	"github.com/waybill-dev/waybill/internal/promotion"
	"github.com/waybill-dev/waybill/test/testbed"
)

// world is a management cluster whose users have had the original controllers, after the installation.
type world struct {
	*testbed.Cluster
	account dynamic.Interface // the rights of the Deployment, and no others
}

// account is the user name of the Deployment's service account.
const account = "system:serviceaccount:waybill:waybill"

// groups returns the groups of the account.
func groups() []string {
	return []string{"system:serviceaccounts", "system:serviceaccounts:waybill", "system:authenticated"}
}

func TestInstallation(t *testing.T) {
	t.Parallel()
	w := &world{Cluster: testbed.Kubernetes(t)}
	for _, name := range []string{"pipelines", "gitopsclusters"} {
		w.Apply(t, read(t, "../../../api/kube/testdata/"+name+".yaml"))
	}
	for _, namespace := range []string{"shop", "clusters"} {
		w.Apply(t, "{apiVersion: v1, kind: Namespace, metadata: {name: "+namespace+"}}")
	}
	w.Apply(t, read(t, "../../../internal/promoter/resource/testdata/original/pipelines.yaml"))

	w.install(t, install.Options{Namespace: "waybill", Image: "waybill:1"})
	config := rest.CopyConfig(w.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: account, Groups: groups()}
	var err error
	if w.account, err = dynamic.NewForConfig(config); err != nil {
		t.Fatal(err)
	}

	t.Run("is repeated", func(t *testing.T) {
		w.install(t, install.Options{Namespace: "waybill", Image: "waybill:2", Frozen: true})
	})
	t.Run("is printed", w.printed)
	t.Run("takes over the Service of the original controller", w.takesOverService)
	t.Run("reports conflicts", w.conflicts)
	t.Run("keeps stored objects valid", w.stored)
	t.Run("gives exactly its rights", w.rights)
	t.Run("has a status", w.status)
	t.Run("shows columns", w.columns)
	t.Run("refuses bad fields", w.refused)
	t.Run("suffices to run", w.run)
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// objects returns the objects of the manifests.
func objects(t *testing.T, o install.Options) []*unstructured.Unstructured {
	t.Helper()
	manifests, err := install.Manifests(o)
	if err != nil {
		t.Fatal(err)
	}
	list, err := install.Objects(manifests)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func (w *world) install(t *testing.T, o install.Options) {
	t.Helper()
	list, applied := objects(t, o), 0
	a := install.Applier{To: w.Dynamic, Done: func(string) { applied++ }}
	if err := a.Apply(t.Context(), list); err != nil || applied != len(list) {
		t.Fatalf("applied %d of %d: %v", applied, len(list), err)
	}
}

// printed applies the printed manifests as kubectl does, with every option and in another namespace, and goes back.
func (w *world) printed(t *testing.T) {
	for _, o := range []install.Options{
		{Namespace: "123", Image: "registry.example.org/waybill@sha256:" + strings.Repeat("a", 64), Frozen: true,
			Ledger: `postgres://waybill:a"b@db/waybill`, URL: "https://waybill.example.org",
			OldService: &types.NamespacedName{Namespace: "shop", Name: "pipeline-promotion"}},
		{Namespace: "waybill", Image: "waybill:3"},
	} {
		manifests, err := install.Manifests(o)
		if err != nil {
			t.Fatal(err)
		}
		w.Apply(t, string(manifests))
	}
	w.install(t, install.Options{Namespace: "waybill", Image: "waybill:3"}) // equal values do not conflict
}

// originalService is the Service of the original controller as its chart makes it, after its hooks' clients have been given its address.
const originalService = `
apiVersion: v1
kind: Service
metadata: {name: pipeline-controller-promotion, namespace: clusters, labels: {control-plane: controller}}
spec:
  type: ClusterIP
  selector: {app.kubernetes.io/name: pipeline-controller}
  ports: [{name: promotion, port: 8082, targetPort: promotion, protocol: TCP}]
`

// takesOverService has the original controller's Service lead to Waybill's, which has the same port.
func (w *world) takesOverService(t *testing.T) {
	services := w.Dynamic.Resource(schema.GroupVersionResource{Version: "v1", Resource: "services"})
	w.Apply(t, originalService)
	o := install.Options{Namespace: "waybill", Image: "waybill:3", Frozen: true,
		OldService: &types.NamespacedName{Namespace: "clusters", Name: "pipeline-controller-promotion"}}
	a := install.Applier{To: w.Dynamic, Done: func(string) {}, Force: true}
	if err := a.Apply(t.Context(), objects(t, o)); err != nil {
		t.Fatal(err)
	}
	old, err := services.Namespace("clusters").Get(t.Context(), "pipeline-controller-promotion", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	kind, _, _ := unstructured.NestedString(old.Object, "spec", "type")
	to, _, _ := unstructured.NestedString(old.Object, "spec", "externalName")
	if kind != "ExternalName" || to != "pipeline-promotion.waybill.svc.cluster.local" {
		t.Errorf("the original Service is of type %s and leads to %q", kind, to)
	}
	own, err := services.Namespace("waybill").Get(t.Context(), "pipeline-promotion", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ports, _, _ := unstructured.NestedSlice(own.Object, "spec", "ports")
	if !slices.ContainsFunc(ports, func(p any) bool { return p.(map[string]any)["port"] == int64(8082) }) {
		t.Errorf("ports of Waybill's Service: got %v, want 8082 among them", ports)
	}
}

// conflicts shows that an operator's own setting is kept, unless --force is set.
func (w *world) conflicts(t *testing.T) {
	deployments := w.Dynamic.Resource(schema.GroupVersionResource{Group: "apps", Version: "v1",
		Resource: "deployments"}).Namespace("waybill")
	patch := []byte(`{"spec": {"replicas": 0}}`)
	if _, err := deployments.Patch(t.Context(), "waybill", types.MergePatchType, patch,
		metav1.PatchOptions{FieldManager: "ana"}); err != nil {
		t.Fatal(err)
	}
	list := objects(t, install.Options{Namespace: "waybill", Image: "waybill:3"})
	a := install.Applier{To: w.Dynamic, Done: func(string) {}}
	err := a.Apply(t.Context(), list)
	if fault.CodeOf(err) != fault.Conflict || !strings.Contains(err.Error(), "Deployment waybill/waybill") || fault.HintOf(err) == "" {
		t.Errorf("got %v", err)
	}
	a.Force = true
	if err := a.Apply(t.Context(), list); err != nil {
		t.Error(err)
	}
	stranger := rest.CopyConfig(w.Config)
	stranger.Impersonate = rest.ImpersonationConfig{UserName: "bob"}
	a.To, err = dynamic.NewForConfig(stranger)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Apply(t.Context(), list); fault.CodeOf(err) != fault.Forbidden || !strings.Contains(fault.HintOf(err), "--print") {
		t.Errorf("a stranger: got %v", err)
	}
}

// stored changes and reads each object that the original definitions had accepted.
func (w *world) stored(t *testing.T) {
	list, err := w.Dynamic.Resource(pipelines.Resource()).Namespace("shop").List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) != 6 {
		t.Fatalf("%d pipelines: %v", len(list.Items), err)
	}
	label := []byte(`{"metadata": {"labels": {"seen": "yes"}}}`)
	for _, obj := range list.Items {
		_, err := w.Dynamic.Resource(pipelines.Resource()).Namespace("shop").Patch(t.Context(), obj.GetName(), types.MergePatchType, label,
			metav1.PatchOptions{})
		if err != nil {
			t.Error(err)
		}
		_, faults := resource.Parse(&obj, resource.Options{Now: time.Now()})
		if (len(faults) > 0) != (obj.GetName() == "invalid") {
			t.Errorf("%s: %v", obj.GetName(), faults)
		}
		if got := resource.StatusOf(&obj).ObservedGeneration; got != -1 {
			t.Errorf("%s: observedGeneration is %d before it was seen", obj.GetName(), got)
		}
	}
}

// request is one request of the account.
type request struct {
	verb, group, version, resource, subresource string
	object                                      string // to create, or to patch with
}

// rights makes each request that the account needs, and some that it must not make.
func (w *world) rights(t *testing.T) {
	core := func(verb, resource string) request { return request{verb: verb, version: "v1", resource: resource} }
	in := func(verb, group, version, resource string) request {
		return request{verb, group, version, resource, "", ""}
	}
	const pipelineGroup, gitops = "pipelines.weave.works", "gitops.weave.works"
	allowed := []request{
		in("list", pipelineGroup, "v1alpha1", "pipelines"), in("get", pipelineGroup, "v1alpha1", "pipelines"),
		in("watch", pipelineGroup, "v1alpha1", "pipelines"), {"patch", pipelineGroup, "v1alpha1", "pipelines", "status", `{"status": {}}`},
		in("list", gitops, "v1alpha1", "gitopsclusters"), in("watch", gitops, "v1alpha1", "gitopsclusters"),
		{"update", gitops, "v1alpha1", "gitopsclusters", "status", `{"apiVersion": "gitops.weave.works/v1alpha1", "kind": "GitopsCluster",
			"metadata": {"name": "none", "namespace": "shop"}}`},
		core("list", "secrets"), core("watch", "secrets"), core("get", "secrets"),
		{"create", "", "v1", "events", "", `{"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e", "namespace": "shop"},
			"involvedObject": {"namespace": "shop", "kind": "Pipeline", "name": "shown"}}`},
		{"create", "authentication.k8s.io", "v1", "tokenreviews", "", `{"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview",
			"spec": {"token": "x"}}`},
		{"create", "authorization.k8s.io", "v1", "subjectaccessreviews", "", `{"apiVersion": "authorization.k8s.io/v1",
			"kind": "SubjectAccessReview", "spec": {"user": "ana", "resourceAttributes": {"verb": "approve", "resource": "pipelines"}}}`},
		{"create", "batch", "v1", "jobs", "", `{"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j", "namespace": "shop"},
			"spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": "a"}]}}}}`},
		in("get", "batch", "v1", "jobs"), in("list", "batch", "v1", "jobs"), in("watch", "batch", "v1", "jobs"),
		in("delete", "batch", "v1", "jobs"),
		in("list", "kustomize.toolkit.fluxcd.io", "v1", "kustomizations"), in("watch", "helm.toolkit.fluxcd.io", "v2", "helmreleases"),
	}
	denied := []request{
		{"patch", pipelineGroup, "v1alpha1", "pipelines", "", `{"spec": {}}`}, in("delete", pipelineGroup, "v1alpha1", "pipelines"),
		{"patch", gitops, "v1alpha1", "gitopsclusters", "", `{"spec": {}}`}, core("delete", "secrets"),
		{"patch", "", "v1", "secrets", "", `{"data": {}}`}, core("list", "configmaps"), core("list", "pods"), core("list", "namespaces"),
		{"patch", "helm.toolkit.fluxcd.io", "v2", "helmreleases", "", `{"spec": {}}`}, in("list", "apps", "v1", "deployments"),
		in("list", "rbac.authorization.k8s.io", "v1", "clusterroles"),
	}
	for _, r := range allowed {
		if err := w.try(t, r); apierrors.IsForbidden(err) {
			t.Errorf("%s %s: %v", r.verb, r.resource, err)
		}
	}
	for _, r := range denied {
		if err := w.try(t, r); !apierrors.IsForbidden(err) {
			t.Errorf("%s %s: got %v, want it forbidden", r.verb, r.resource, err)
		}
	}
}

// try makes a request as the account. Its object need not exist: rights are checked first.
func (w *world) try(t *testing.T, r request) (err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	in := schema.GroupVersionResource{Group: r.group, Version: r.version, Resource: r.resource}
	var client dynamic.ResourceInterface = w.account.Resource(in).Namespace("shop")
	if strings.HasSuffix(r.resource, "reviews") || slices.Contains([]string{"list", "watch"}, r.verb) {
		client = w.account.Resource(in) // all namespaces
	}
	sub := []string{}
	if r.subresource != "" {
		sub = append(sub, r.subresource)
	}
	switch r.verb {
	case "get":
		_, err = client.Get(ctx, "none", metav1.GetOptions{}, sub...)
	case "list":
		_, err = client.List(ctx, metav1.ListOptions{Limit: 1})
	case "watch":
		events, watchErr := client.Watch(ctx, metav1.ListOptions{})
		if err = watchErr; err == nil {
			events.Stop()
		}
	case "delete":
		err = client.Delete(ctx, "none", metav1.DeleteOptions{})
	case "patch":
		_, err = client.Patch(ctx, "none", types.MergePatchType, []byte(r.object), metav1.PatchOptions{}, sub...)
	case "update":
		obj := &unstructured.Unstructured{}
		if err := obj.UnmarshalJSON([]byte(r.object)); err != nil {
			t.Fatal(err)
		}
		_, err = client.UpdateStatus(ctx, obj, metav1.UpdateOptions{})
	case "create":
		obj := &unstructured.Unstructured{}
		if err := obj.UnmarshalJSON([]byte(r.object)); err != nil {
			t.Fatal(err)
		}
		if _, err = client.Create(ctx, obj, metav1.CreateOptions{}); err != nil && !apierrors.IsForbidden(err) {
			t.Errorf("create %s: %v", r.resource, err)
		}
	}
	return err
}

// status writes the status of a pipeline as the account does, twice.
func (w *world) status(t *testing.T) {
	list := w.account.Resource(pipelines.Resource()).Namespace("shop")
	obj, err := list.Get(t.Context(), "many-clusters", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	p, faults := resource.Parse(obj, resource.Options{Now: time.Now()})
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	o := resource.Observed{Pipeline: p, Input: promotion.Input{Now: time.Now()}, Plan: promotion.Plan{Latest: "6.6.0"}}
	for _, e := range p.Environments {
		o.Plan.Verdicts = append(o.Plan.Verdicts, promotion.Verdict{Env: e.Name, Want: "6.6.0", Phase: promotion.PhaseBlocked,
			Since: time.Now(),
			Why:   []promotion.Reason{{Code: promotion.WhyWindowClosed, Message: "closed", Until: time.Now().Add(time.Hour)}}})
	}
	o.Input.Proposals = map[promotion.EnvName]promotion.Proposal{"prod": {Number: 4, State: promotion.Open}}
	o.Plan.Runs = []promotion.RunChange{{Run: promotion.Run{Number: 7, Revision: "6.6.0", StartedAt: time.Now()}}}
	s, changed := resource.Settle(resource.StatusOf(obj), resource.Status(o), time.Now())
	if !changed {
		t.Fatal("nothing to write")
	}
	write := func() *unstructured.Unstructured {
		t.Helper()
		options := metav1.ApplyOptions{FieldManager: resource.FieldManager, Force: true}
		obj, err := list.ApplyStatus(t.Context(), p.Name, resource.Apply(p, s), options)
		if err != nil {
			t.Fatal(err)
		}
		return obj
	}
	first := write()
	if _, changed := resource.Settle(resource.StatusOf(first), resource.Status(o), time.Now().Add(time.Hour)); changed {
		t.Errorf("the stored status differs from the one that was written: %+v", resource.StatusOf(first))
	}
	if second := write(); second.GetResourceVersion() != first.GetResourceVersion() {
		t.Error("the same status was written again")
	}
}

// columns reads the table that kubectl get prints.
func (w *world) columns(t *testing.T) {
	config := rest.CopyConfig(w.Config)
	config.GroupVersion, config.APIPath = &schema.GroupVersion{Group: pipelines.Group, Version: pipelines.Version}, "/apis"
	config.NegotiatedSerializer = unstructuredSerializer()
	client, err := rest.RESTClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	text, err := client.Get().Namespace("shop").Resource("pipelines").Name("many-clusters").
		SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").Do(t.Context()).Raw()
	if err != nil {
		t.Fatal(err)
	}
	table := &unstructured.Unstructured{}
	if err := table.UnmarshalJSON(text); err != nil {
		t.Fatal(err)
	}
	var names []string
	columns, _, _ := unstructured.NestedSlice(table.Object, "columnDefinitions")
	for _, c := range columns {
		name, _, _ := unstructured.NestedString(c.(map[string]any), "name")
		names = append(names, name)
	}
	if want := []string{"Name", "App Kind", "App Name", "Age", "Ready", "Status", "Revision", "Waiting"}; !slices.Equal(names, want) {
		t.Errorf("got %q, want %q", names, want)
	}
	rows, _, _ := unstructured.NestedSlice(table.Object, "rows")
	cells, _, _ := unstructured.NestedSlice(rows[0].(map[string]any), "cells")
	if len(cells) != 8 || cells[4] != "False" || cells[6] != "6.6.0" || cells[7] != "WindowClosed" {
		t.Errorf("got %v", cells)
	}
}

// refused sends fields that the definition forbids. The added ones are checked before they are stored.
func (w *world) refused(t *testing.T) {
	list := w.Dynamic.Resource(pipelines.Resource()).Namespace("shop")
	for _, patch := range []string{
		`{"spec": {"onNewRevision": "Later"}}`, `{"spec": {"settle": 5}}`, `{"spec": {"windows": [{"kind": "Maybe"}]}}`,
		`{"spec": {"promotion": {"strategy": {"pull-request": {"type": "svn"}}}}}`, `{"spec": {"notify": [{"on": ["Never"]}]}}`,
		`{"spec": {"appRef": null}}`,
	} {
		if _, err := list.Patch(t.Context(), "by-github", types.MergePatchType, []byte(patch),
			metav1.PatchOptions{}); !apierrors.IsInvalid(err) {
			t.Errorf("%s: got %v", patch, err)
		}
	}
	job := `{"spec": {"environments": [{"name": "dev", "targets": [{"namespace": "a"}], "minReady": "60%", "gates": [{"name": "a", "job":
		{"template": {"spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": "b"}]}}}}}}]}]}}`
	obj, err := list.Patch(t.Context(), "by-github", types.MergePatchType, []byte(job), metav1.PatchOptions{FieldValidation: "Strict"})
	if err != nil {
		t.Fatal(err)
	}
	p, faults := resource.Parse(obj, resource.Options{Now: time.Now()})
	if len(faults) > 0 || !strings.Contains(string(p.Environments[0].Gates[0].Job), `"image":"b"`) {
		t.Errorf("the template of a Job was not kept: %v %+v", faults, p.Environments)
	}
}

// secretOf returns a Secret in the namespace shop.
func secretOf(t *testing.T, name string, texts map[string]string) string {
	t.Helper()
	text, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "Secret",
		"metadata":   map[string]any{"name": name, "namespace": "shop"},
		"stringData": texts})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
