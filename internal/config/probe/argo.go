package probe

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"

	"github.com/waybill-dev/waybill/internal/argo"
	"github.com/waybill-dev/waybill/internal/config"
	"github.com/waybill-dev/waybill/internal/kube"
)

// Cluster returns a client of the cluster that a handler names. A handler works with the client that its probe had.
func Cluster(cfg config.Handler) (*kube.Cluster, error) {
	cluster, err := kube.Open(kube.Config{Kubeconfig: cfg.Argo.Kubeconfig, Context: cfg.Argo.Context, Namespace: cfg.Argo.Namespace,
		Hint: "name a file: argoConf.k8sOptions.kubeconfig"})
	if err != nil {
		return nil, fmt.Errorf("handler %s: %w", cfg.Name, err)
	}
	return cluster, nil
}

// cluster lists a cluster's workflows, and searches for each template that a process of the handler names.
func (l *looker) cluster(ctx context.Context, at []string, cfg config.Config, h config.Handler) {
	cluster, err := Cluster(h)
	if err != nil {
		l.look(ctx, append(at, "argoConf", "k8sOptions", "kubeconfig"), func(context.Context) error { return absent(err) })
		return
	}
	l.look(ctx, append(at, "argoConf"), func(ctx context.Context) error {
		_, err := cluster.Resource(argo.Workflows()).Namespace(cluster.Namespace).List(ctx, metav1.ListOptions{Limit: 1})
		return refusedBy(err, "list the workflows in "+cluster.Namespace)
	})
	for process, o := range cfg.ArgoProcesses(h.Name) {
		l.look(ctx, []string{"workflows", process, "argoOpts", "template"}, func(ctx context.Context) error {
			return template(ctx, cluster, o.Template)
		})
	}
}

// template searches for a workflow template in its namespace, or in the cluster.
func template(ctx context.Context, cluster *kube.Cluster, path string) error {
	kind, name, _ := strings.Cut(path, "/")
	var templates dynamic.ResourceInterface = cluster.Resource(argo.ClusterWorkflowTemplates())
	if kind == "workflowtemplate" {
		templates = cluster.Resource(argo.WorkflowTemplates()).Namespace(cluster.Namespace)
	}
	_, err := templates.Get(ctx, name, metav1.GetOptions{})
	return refusedBy(err, "look for "+path+" in "+cluster.Namespace)
}

// refusedBy separates a cluster's refusal, which is notThere, from the lack of an answer.
func refusedBy(err error, doing string) error {
	if err == nil {
		return nil
	}
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) {
		return notThere{fmt.Errorf("%s: %w", doing, err)}
	}
	return fmt.Errorf("%s: %w", doing, err)
}
