//go:build services

// Package flow_test runs EventFlows on a real API server.
package flow_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/waybill-dev/waybill/api/kube/flow/v1alpha1"
	"github.com/waybill-dev/waybill/test/testbed"
)

// ruleCase is a flow that is made, or changed into.
type ruleCase struct {
	Name   string
	Before map[string]any // spec of the flow before the change; nil: the flow is made
	Spec   map[string]any
	Want   string // part of the refusal; "": accepted
}

// TestTheAPIServerRefusesFaultyFlows: the rules are those of the definition, so no webhook is involved.
func TestTheAPIServerRefusesFaultyFlows(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile("testdata/rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var cases []ruleCase
	if err := yaml.UnmarshalStrict(content, &cases); err != nil {
		t.Fatal(err)
	}
	cluster := testbed.Kubernetes(t)
	cluster.Apply(t, string(v1alpha1.Definition))
	flows := cluster.Dynamic.Resource(v1alpha1.Resource()).Namespace(cluster.Namespace(t))
	for i, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			err := c.write(t.Context(), flows, fmt.Sprintf("flow-%d", i))
			switch {
			case c.Want == "" && err != nil:
				t.Errorf("got %v, want it accepted", err)
			case c.Want != "" && err == nil:
				t.Errorf("accepted, want %q", c.Want)
			case c.Want != "" && !strings.Contains(err.Error(), c.Want):
				t.Errorf("got %v, want %q", err, c.Want)
			}
		})
	}
}

// write makes the flow, and changes it if there was one before.
func (c ruleCase) write(ctx context.Context, flows dynamic.ResourceInterface, name string) error {
	first := c.Before
	if first == nil {
		first = c.Spec
	}
	flow := &unstructured.Unstructured{Object: map[string]any{"apiVersion": v1alpha1.APIVersion, "kind": v1alpha1.Kind,
		"metadata": map[string]any{"name": name}, "spec": first}}
	made, err := flows.Create(ctx, flow, metav1.CreateOptions{})
	if err != nil || c.Before == nil {
		return err
	}
	made.Object["spec"] = c.Spec
	_, err = flows.Update(ctx, made, metav1.UpdateOptions{})
	return err
}

// TestAFlowWithoutASinkHasTheBrokerDefault: readers find the defaults of the sink in the stored flow.
func TestAFlowWithoutASinkHasTheBrokerDefault(t *testing.T) {
	t.Parallel()
	cluster := testbed.Kubernetes(t)
	cluster.Apply(t, string(v1alpha1.Definition))
	flows := cluster.Dynamic.Resource(v1alpha1.Resource()).Namespace(cluster.Namespace(t))
	flow := &unstructured.Unstructured{Object: map[string]any{"apiVersion": v1alpha1.APIVersion, "kind": v1alpha1.Kind,
		"metadata": map[string]any{"name": "orders"}, "spec": map[string]any{"source": map[string]any{"application": "commerce"}}}}
	made, err := flows.Create(t.Context(), flow, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"broker": map[string]any{"name": "default", "provisioning": "Managed", "deletionPolicy": "WhenUnused"}}
	got, _, err := unstructured.NestedMap(made.Object, "spec", "sink")
	if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %v (%v), want %v", got, err, want)
	}
}
