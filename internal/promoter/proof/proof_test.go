package proof_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/waybill-dev/waybill/api/kube/v1alpha1"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/kube/kubetest"
	"github.com/waybill-dev/waybill/internal/promoter/proof"
)

// newChecker returns a checker of a cluster with the pipeline apps:podinfo. Tokens are names of users. ana may approve in prod, ben may read
// the pipeline.
func newChecker(t *testing.T) (proof.Checker, *kubetest.API) {
	t.Helper()
	token := func(spec map[string]any) map[string]any {
		name, _ := spec["token"].(string)
		if name == "bad" {
			return map[string]any{"authenticated": false, "error": "expired"}
		}
		return map[string]any{"authenticated": true, "user": map[string]any{"username": name, "uid": "u1", "groups": []any{"ops", "system:authenticated"},
			"extra": map[string]any{"scopes": []any{"a"}}}}
	}
	access := func(spec map[string]any) map[string]any {
		a, _ := spec["resourceAttributes"].(map[string]any)
		right := fmt.Sprintf("%s %s %s.%s/%s %s/%s", spec["user"], a["verb"], a["resource"], a["group"], a["subresource"], a["namespace"], a["name"])
		allowed := slices.Contains([]string{
			"ana approve pipelines.pipelines.weave.works/prod apps/podinfo", "key:apps/fleet approve pipelines.pipelines.weave.works/prod apps/podinfo",
			"group:ops approve pipelines.pipelines.weave.works/prod apps/podinfo", "ben get pipelines.pipelines.weave.works/ apps/podinfo",
			"ana get pipelines.pipelines.weave.works/ apps/podinfo",
		}, right)
		groups, _ := spec["groups"].([]any)
		return map[string]any{"allowed": allowed && len(groups) == 2 && spec["uid"] == "u1" && spec["extra"] != nil}
	}
	api := kubetest.New(t, kubetest.Kind{GroupVersionResource: v1alpha1.Resource(), Kind: "Pipeline", Status: true},
		kubetest.Kind{GroupVersionResource: schema.GroupVersionResource{Group: "authentication.k8s.io", Version: "v1", Resource: "tokenreviews"},
			Kind: "TokenReview", Answer: token},
		kubetest.Kind{GroupVersionResource: schema.GroupVersionResource{Group: "authorization.k8s.io", Version: "v1", Resource: "subjectaccessreviews"},
			Kind: "SubjectAccessReview", Answer: access})
	add(t, api, v1alpha1.Resource(), `{apiVersion: pipelines.weave.works/v1alpha1, kind: Pipeline, metadata: {name: podinfo, namespace: apps}, spec: {
		appRef: {apiVersion: helm.toolkit.fluxcd.io/v2, kind: HelmRelease, name: podinfo},
		promotion: {strategy: {notification: {}, secretRef: {name: approvals}}},
		environments: [{name: dev, targets: [{namespace: dev}]}, {name: prod, targets: [{namespace: prod}]},
			{name: free, targets: [{namespace: free}], promotion: {strategy: {notification: {}}}},
			{name: own, targets: [{namespace: own}], promotion: {strategy: {notification: {}, secretRef: {name: absent}}}}]}}`)
	encode := base64.StdEncoding.EncodeToString
	add(t, api, schema.GroupVersionResource{Version: "v1", Resource: "secrets"}, `{apiVersion: v1, kind: Secret,
		metadata: {name: approvals, namespace: apps}, data: {hmac-key: `+encode([]byte("secret"))+`, hmac-key-2: `+encode([]byte("new"))+
		`, hmac-key-3: "", username: `+encode([]byte("git"))+`}}`)
	return proof.Checker{Management: api.Cluster("waybill")}, api
}

func add(t *testing.T, api *kubetest.API, of schema.GroupVersionResource, text string) {
	t.Helper()
	o := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(strings.ReplaceAll(text, "\t", " ")), &o.Object); err != nil {
		t.Fatal(err)
	}
	api.Add(of, o)
}

func TestKeysAreThoseOfTheEffectiveStrategy(t *testing.T) {
	t.Parallel()
	c, api := newChecker(t)
	secret, keys, err := c.Keys(t.Context(), "apps:podinfo", "prod")
	if err != nil || secret != "apps/approvals" || len(keys) != 2 || string(keys["hmac-key"]) != "secret" || string(keys["hmac-key-2"]) != "new" {
		t.Errorf("prod: %s, %v, %v; want the two keys, and neither the user name nor an empty key", secret, keys, err)
	}
	if secret, keys, err := c.Keys(t.Context(), "apps:podinfo", "free"); err != nil || secret != "" || len(keys) > 0 {
		t.Errorf("an environment that replaces the strategy: %s, %v, %v", secret, keys, err)
	}
	if secret, keys, err := c.Keys(t.Context(), "apps:podinfo", "own"); err != nil || secret != "apps/absent" || len(keys) > 0 {
		t.Errorf("a Secret that is absent: %s, %v, %v", secret, keys, err)
	}
	for _, at := range [][2]string{{"apps:podinf", "prod"}, {"apps:podinfo", "prd"}, {"apps:../x", "prod"}, {"a/b:podinfo", "prod"}, {":podinfo", "prod"}, {"apps", "prod"}} {
		if _, _, err := c.Keys(t.Context(), at[0], at[1]); !fault.Is(err, fault.NotFound) {
			t.Errorf("%s %s: %v", at[0], at[1], err)
		}
	}
	api.Before(func(kubetest.Request) error { return errors.New("down") })
	if _, _, err := c.Keys(t.Context(), "apps:podinfo", "prod"); !fault.Is(err, fault.Unavailable) {
		t.Errorf("a cluster that does not answer: %v", err)
	}
}

// TestAWarningIsWrittenOnce: by any process, for as long as clusters keep Events by default.
func TestAWarningIsWrittenOnce(t *testing.T) {
	t.Parallel()
	c, api := newChecker(t)
	c.Log = slog.New(slog.DiscardHandler)
	for range 10 {
		c.Warn(t.Context(), "apps:podinfo", "ApprovalUnsigned", "prod: refused")
	}
	c.Warn(t.Context(), "apps:podinfo", "ApprovalUnsigned", "staging: refused")
	c.Warn(t.Context(), "apps:absent", "ApprovalUnsigned", "prod: refused")
	events := api.Resource(schema.GroupVersionResource{Version: "v1", Resource: "events"}).Namespace("apps")
	list, err := events.List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, e := range list.Items {
		about, _, _ := unstructured.NestedString(e.Object, "involvedObject", "name")
		found = append(found, fmt.Sprint(e.Object["type"], e.Object["reason"], " ", about, " ", e.Object["message"]))
	}
	slices.Sort(found)
	want := []string{"WarningApprovalUnsigned podinfo prod: refused", "WarningApprovalUnsigned podinfo staging: refused"}
	if !slices.Equal(slices.Compact(found), want) || len(list.Items) > 3 { // an hour may begin meanwhile
		t.Errorf("%d Events %q, want %q", len(list.Items), found, want)
	}
}

func TestAnApproverHasTheRightOfTheEnvironment(t *testing.T) {
	t.Parallel()
	c, api := newChecker(t)
	who, err := c.Approver(t.Context(), "ana", "apps:podinfo", "prod")
	if err != nil || who.Name != "ana" || !slices.Equal(who.Groups, []string{"ops", "system:authenticated"}) {
		t.Errorf("ana: %+v, %v", who, err)
	}
	for _, one := range []struct {
		token, pipeline, environment string
		want                         fault.Code
	}{
		{"ana", "apps:podinfo", "dev", fault.Forbidden},
		{"ana", "apps:other", "prod", fault.NotFound},
		{"ben", "apps:podinfo", "prod", fault.Forbidden},
		{"cyd", "apps:podinfo", "prod", fault.NotFound},
		{"bad", "apps:podinfo", "prod", fault.Unauthorized},
		{"", "apps:podinfo", "prod", fault.Unauthorized},
		{strings.Repeat("a", 17<<10), "apps:podinfo", "prod", fault.Unauthorized},
		{"group:ops", "apps:podinfo", "prod", fault.Forbidden},
		{"key:apps/fleet", "apps:podinfo", "prod", fault.Forbidden},
		{"ana", "apps/podinfo", "prod", fault.NotFound},
	} {
		if who, err := c.Approver(t.Context(), one.token, one.pipeline, one.environment); !fault.Is(err, one.want) {
			t.Errorf("%.20s in %s %s: %+v, %v; want %s", one.token, one.pipeline, one.environment, who, err, one.want)
		}
	}
	api.Before(func(kubetest.Request) error { return errors.New("down") })
	if _, err := c.Approver(t.Context(), "ana", "apps:podinfo", "prod"); !fault.Is(err, fault.Unavailable) {
		t.Errorf("a cluster that does not answer: %v", err)
	}
}
