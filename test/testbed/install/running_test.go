//go:build services

package install_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/clientcmd"

	clusters "github.com/waybill-dev/waybill/api/kube/gitops/v1alpha1"
	pipelines "github.com/waybill-dev/waybill/api/kube/v1alpha1"
	"github.com/waybill-dev/waybill/internal/cli/pipeline/install"
	"github.com/waybill-dev/waybill/internal/promoter/resource"
	"github.com/waybill-dev/waybill/internal/signature"
	"github.com/waybill-dev/waybill/test/testbed"
)

// product is the program that runs as the Deployment does.
var product testbed.Product

func TestMain(m *testing.M) {
	code := m.Run()
	if err := product.Remove(); err != nil && code == 0 {
		code = 1
	}
	os.Exit(code)
}

// run runs the program of the Deployment with its configuration and the rights of its account. It writes the status of
// every pipeline, and of a cluster that no other controller looks after.
func (w *world) run(t *testing.T) {
	w.Apply(t, secretOf(t, "dev", map[string]string{"kubeconfig": w.PortableKubeconfig(t)}))
	home := t.TempDir()
	if err := os.WriteFile(filepath.Join(home, "server.yaml"), w.configuration(t, filepath.Join(home, "kubeconfig")), 0o600); err != nil {
		t.Fatal(err)
	}
	address := testbed.FreeAddress(t)
	program := testbed.RunProgram(t, testbed.Program{
		Name: "waybill",
		Argv: []string{product.Path(t, "../../.."), "serve", "api", "conductor", "promoter", "--home", home, "--listen", address},
		Ready: func(ctx context.Context) error {
			request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/readyz", nil)
			if err != nil {
				return err
			}
			answer, err := http.DefaultClient.Do(request)
			if err != nil {
				return err
			}
			defer answer.Body.Close()
			if answer.StatusCode != http.StatusOK {
				return errors.New(answer.Status)
			}
			return nil
		},
	})
	shop := w.Dynamic.Resource(pipelines.Resource()).Namespace("shop")
	want := map[string]string{"by-notification": "TargetNotReadable", "by-gitlab": "TargetNotReadable",
		"many-clusters": "TargetNotReadable",
		"shown":         "TargetNotReadable", "invalid": "InvalidSpec"}
	for name, reason := range want {
		w.Await(t, shop, name, func(obj *unstructured.Unstructured) bool {
			s := resource.StatusOf(obj)
			return s.ObservedGeneration == obj.GetGeneration() && len(s.Conditions) > 0 && s.Conditions[0].Reason == reason
		})
	}
	w.Await(t, w.Dynamic.Resource(clusters.Resource()).Namespace("shop"), "dev", func(obj *unstructured.Unstructured) bool {
		conditions, _, _ := unstructured.NestedSlice(obj.Object, "status", "conditions")
		for _, one := range conditions {
			if c, ok := one.(map[string]any); ok && c["type"] == "Ready" && c["status"] == "True" {
				return true
			}
		}
		return false
	})
	w.approvals(t, address)
	if log := program.LogTail(); strings.Contains(log, "forbidden") {
		t.Errorf("a right is missing:\n%s", log)
	}
}

// approvals sends approvals with tokens of service accounts and with signatures, which the program has its cluster check. Nothing waits in
// the pipelines, so one that is permitted is answered 422.
func (w *world) approvals(t *testing.T, address string) {
	w.Apply(t, `
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: approve-prod, namespace: shop}
rules:
- {apiGroups: [pipelines.weave.works], resources: [pipelines/prod], resourceNames: [many-clusters], verbs: [approve]}
- {apiGroups: [pipelines.weave.works], resources: [pipelines], verbs: [get]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: approve-prod, namespace: shop}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: approve-prod}
subjects: [{kind: ServiceAccount, name: release-bot, namespace: shop}]
`)
	w.Apply(t, secretOf(t, "approvals", map[string]string{"hmac-key": "secret"}))
	bot, stranger := w.Token(t, "shop", "release-bot"), w.Token(t, "shop", "stranger")
	signed := func(path, key, nonce string) string {
		return signature.Signature{At: time.Now(), Nonce: nonce, Key: "hmac-key"}.Sign([]byte(key),
			signature.Request{Method: http.MethodPost, Target: path})
	}
	awaitView(t, "http://"+address+"/api/v1/pipelines/shop:many-clusters")
	const prod, test = "/approval/shop/many-clusters/prod/1.0.0", "/approval/shop/many-clusters/test/1.0.0"
	replayed := signed(prod, "secret", "nonce-001")
	for _, c := range []struct {
		name, path, header, value string
		want                      int
	}{
		{"permitted", prod, "Authorization", "Bearer " + bot, http.StatusUnprocessableEntity},
		{"another environment", test, "Authorization", "Bearer " + bot, http.StatusForbidden},
		{"another pipeline", "/approval/shop/by-github/prod/1.0.0", "Authorization", "Bearer " + bot, http.StatusForbidden},
		{"another namespace", "/approval/clusters/many-clusters/prod/1.0.0", "Authorization", "Bearer " + bot, http.StatusNotFound},
		{"without rights", prod, "Authorization", "Bearer " + stranger, http.StatusNotFound},
		{"an altered token", prod, "Authorization", "Bearer " + bot[:len(bot)-8] + "AAAAAAAA", http.StatusUnauthorized},
		{"no proof", prod, "", "", http.StatusUnauthorized},
		{"signed", prod, signature.Header, replayed, http.StatusUnprocessableEntity},
		{"signed before", prod, signature.Header, replayed, http.StatusConflict},
		{"signed by another key", prod, signature.Header, signed(prod, "other", "nonce-002"), http.StatusUnauthorized},
		{"no key", test, signature.Header, signed(test, "secret", "nonce-003"), http.StatusUnauthorized},
	} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+address+c.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if c.header != "" {
			request.Header.Set(c.header, c.value)
		}
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if err != nil || answer.StatusCode != c.want {
			t.Errorf("%s: %d %s, %v; want %d", c.name, answer.StatusCode, text, err, c.want)
		}
	}
	events := w.Dynamic.Resource(schema.GroupVersionResource{Version: "v1", Resource: "events"}).Namespace("shop")
	list, err := events.List(t.Context(), metav1.ListOptions{
		FieldSelector: "involvedObject.name=many-clusters,reason=ApprovalUnsigned,type=Warning"})
	if err != nil || len(list.Items) != 1 {
		t.Errorf("Events about an approval without a key: got %v, %v, want one", list, err)
	}
}

// awaitView waits until the program shows a pipeline.
func awaitView(t *testing.T, url string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	for ticks := time.NewTicker(100 * time.Millisecond); ; {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode == http.StatusOK {
			return
		}
		select {
		case <-ticks.C:
		case <-ctx.Done():
			t.Fatalf("%s is not shown: %s", url, answer.Status)
		}
	}
}

// configuration returns the server.yaml of the manifests, for a process outside of the cluster that has the rights of
// the account by a kubeconfig.
func (w *world) configuration(t *testing.T, kubeconfig string) []byte {
	t.Helper()
	config, err := clientcmd.LoadFromFile(w.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	for _, user := range config.AuthInfos {
		user.Impersonate, user.ImpersonateGroups = account, groups()
	}
	if err := clientcmd.WriteToFile(*config, kubeconfig); err != nil {
		t.Fatal(err)
	}
	for _, obj := range objects(t, install.Options{Namespace: "waybill", Image: "waybill:3", Frozen: true}) {
		if obj.GetKind() != "Secret" {
			continue
		}
		encoded, _, _ := unstructured.NestedString(obj.Object, "data", "server.yaml")
		text, err := base64.StdEncoding.DecodeString(encoded)
		if err != nil {
			t.Fatal(err)
		}
		return bytes.Replace(text, []byte("promoter:\n"), []byte("promoter:\n  allowNetworks: [127.0.0.0/8]\n  kubeconfig: "+kubeconfig+"\n"), 1)
	}
	t.Fatal("the manifests have no configuration")
	return nil
}
