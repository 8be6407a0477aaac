package pool_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/waybill-dev/waybill/internal/kube/pool"
	"github.com/waybill-dev/waybill/internal/promotion"
)

func recorded(t testing.TB, name string) *unstructured.Unstructured {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if text, err = yaml.ToJSON(text); err != nil {
		t.Fatal(err)
	}
	o := &unstructured.Unstructured{}
	if err := o.UnmarshalJSON(text); err != nil {
		t.Fatal(err)
	}
	return o
}

const uid = "5f5c3b6e-0000-4b4c-9d4c-5a9a4f6c9b"

func TestRecordedObjectsAreRead(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]promotion.AppState{
		"kustomization": {
			UID: "2b7c1c5e-93d3-4b4c-9d4c-5a9a4f6c9b11", Generation: 3, Observed: 3,
			Ready: promotion.Condition{Status: "True", Reason: "ReconciliationSucceeded", Observed: 3,
				Message: "Applied revision: main@sha1:8c2d5bb1d7e4d3c1a0c9b6f1a5a7a54e4f0a6c11"},
			HasApplied: true, Applied: "main@sha1:8c2d5bb1d7e4d3c1a0c9b6f1a5a7a54e4f0a6c11",
			HasAttempted: true, Attempted: "main@sha1:9d0f6bb1d7e4d3c1a0c9b6f1a5a7a54e4f0a6c11",
			AppliedOrigin: "6.5.4@sha1:7777777777777777777777777777777777777777",
		},
		"helmrelease": {
			UID: uid + "22", Generation: 5, Observed: 5, Helm: true, HasHistory: true,
			Ready: promotion.Condition{Status: "False", Reason: "UpgradeFailed", Observed: 5,
				Message: "Helm upgrade failed for release podinfo-prod/podinfo with chart podinfo@6.6.0: context deadline exceeded"},
			Stalled: promotion.Condition{Status: "True", Reason: "RetriesExceeded", Observed: 5,
				Message: "Failed to upgrade after 1 attempt(s)"},
			HasAttempted: true, Attempted: "6.6.0+1a2b3c4d5e6f", AttemptedDigest: "sha256:e1",
			History: []promotion.Release{
				{Status: "failed", ChartVersion: "6.6.0+1a2b3c4d5e6f", AppVersion: "6.6.0", OCIDigest: "sha256:e1"},
				{Status: "deployed", ChartVersion: "6.5.4", AppVersion: "6.5.4"},
			},
		},
		"helmrelease-v2beta1": {
			UID: uid + "33", Generation: 2, Observed: 2, Suspended: true, Helm: true,
			Ready: promotion.Condition{Status: "True", Reason: "ReconciliationSucceeded",
				Message: "Release reconciliation succeeded"},
			HasApplied: true, Applied: "6.2.0", HasAttempted: true, Attempted: "6.2.0",
		},
		"terraform": {
			UID: uid + "44", Generation: 1, Observed: -1, Deleting: true, Reconciling: true,
			Ready:      promotion.Condition{Status: "Unknown", Reason: "Progressing", Message: "Initializing", Observed: 1},
			HasApplied: true, Applied: "main@sha1:1111111111111111111111111111111111111111",
			HasAttempted: true, Attempted: "main@sha1:2222222222222222222222222222222222222222",
		},
		"resourceset": {
			UID: uid + "55", Generation: 4, Observed: -1,
			Ready: promotion.Condition{Status: "True", Reason: "ReconciliationSucceeded", Observed: 4,
				Message: "Reconciliation finished in 52ms"},
			HasApplied: true, Applied: "sha256:dcc5ad5c4d1f8f3c2f8c4ad3c4f6ddc9d9b8c2a05f3b8f0b0a3d0e7e1f2a3b4c",
		},
		"application": {UID: uid + "66", Generation: 12, Observed: -1,
			NotReconciledYet: "Applications of Argo CD are not supported yet"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(want, pool.AppState(recorded(t, name))); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// parse returns an object with a spec and a status.
func parse(t testing.TB, rest string) *unstructured.Unstructured {
	t.Helper()
	fields := map[string]any{}
	if err := json.Unmarshal([]byte(rest), &fields); err != nil {
		t.Fatal(err)
	}
	return &unstructured.Unstructured{Object: fields}
}

func TestFieldsOfOtherTypesAreMalformed(t *testing.T) {
	t.Parallel()
	long := `"` + strings.Repeat("a", 257) + `"`
	for field, text := range map[string]string{
		"status":                          `{"status": 7}`,
		"spec":                            `{"spec": []}`,
		"spec.suspend":                    `{"spec": {"suspend": "true"}}`,
		"status.observedGeneration":       `{"status": {"observedGeneration": 1.5}}`,
		"status.lastAppliedRevision":      `{"status": {"lastAppliedRevision": {"a": "b"}}}`,
		"status.lastAttemptedRevision":    `{"status": {"lastAttemptedRevision": ` + long + `}}`,
		"status.conditions":               `{"status": {"conditions": {}}}`,
		"status.conditions[0]":            `{"status": {"conditions": ["Ready"]}}`,
		"status.conditions[1].status":     `{"status": {"conditions": [{}, {"type": "Ready", "status": true}]}}`,
		"status.conditions[0].message":    `{"status": {"conditions": [{"type": "Ready", "message": 1}]}}`,
		"status.history[0].chartVersion":  `{"apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease", "status": {"history": [{"chartVersion": 6}]}}`,
		"status.history":                  `{"apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease", "status": {"history": {}}}`,
		"status.conditions: more than 64": `{"status": {"conditions": [` + strings.Repeat("{},", 64) + `{}]}}`,
	} {
		if got := pool.AppState(parse(t, text)).Malformed; !strings.HasPrefix(got, field) {
			t.Errorf("%s: got %q", field, got)
		}
	}
	if got := pool.AppState(parse(t, `{}`)); got.Malformed != "" || got.Observed != -1 {
		t.Errorf("an object without a status: got %+v", got)
	}
}

func TestMessagesAreCutBetweenCharacters(t *testing.T) {
	t.Parallel()
	text := `{"status": {"conditions": [{"type": "Ready", "message": "a` + strings.Repeat("é", 200) + `"}]}}`
	got := pool.AppState(parse(t, text)).Ready.Message
	if len(got) != 255 || !utf8.ValidString(got) {
		t.Errorf("%d bytes: %q", len(got), got)
	}
}

func FuzzAppState(f *testing.F) {
	for _, name := range []string{"kustomization", "helmrelease", "terraform", "application"} {
		text, err := recorded(f, name).MarshalJSON()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		o := &unstructured.Unstructured{}
		if o.UnmarshalJSON(text) != nil {
			return
		}
		got := pool.AppState(o)
		for _, one := range []string{got.Applied, got.Attempted, got.AppliedOrigin, got.Ready.Message, got.Stalled.Message,
			got.Ready.Reason} {
			if len(one) > 256 {
				t.Errorf("%d bytes are kept", len(one))
			}
		}
		if len(got.History) > 2 {
			t.Errorf("%d rows are kept", len(got.History))
		}
	})
}

func FuzzParseKubeconfig(f *testing.F) {
	f.Add([]byte("apiVersion: v1\nkind: Config\ncurrent-context: it\ncontexts: [{name: it, context: {cluster: it, user: it}}]\n" +
		"clusters: [{name: it, cluster: {server: \"https://a\"}}]\nusers: [{name: it, user: {token: a}}]\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		config, err := pool.ParseKubeconfig(text)
		if err != nil {
			return
		}
		tls := config.TLSClientConfig
		if config.ExecProvider != nil || config.AuthProvider != nil ||
			config.BearerTokenFile+tls.CAFile+tls.CertFile+tls.KeyFile != "" || config.Host == "" {
			t.Errorf("accepted: %s", text)
		}
	})
}

func TestKubeconfigsThatReachIntoThisHostAreRefused(t *testing.T) {
	t.Parallel()
	const frame = `{"apiVersion": "v1", "kind": "Config", "current-context": "it",
		"contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
		"clusters": [{"name": "it", "cluster": {"server": "https://a"%C}}],
		"users": [{"name": "it", "user": {%U}}, {"name": "other", "user": {"exec": {"command": "aws", "apiVersion": "v1"}}}]}`
	for name, part := range map[string][2]string{
		"exec":                  {"", `"exec": {"command": "sh", "apiVersion": "client.authentication.k8s.io/v1"}`},
		"auth-provider":         {"", `"auth-provider": {"name": "oidc"}`},
		"tokenFile":             {"", `"tokenFile": "/etc/passwd"`},
		"client-certificate":    {"", `"client-certificate": "a.pem"`},
		"client-key":            {"", `"client-key": "a.pem"`},
		"certificate-authority": {`, "certificate-authority": "/a.pem"`, ""},
	} {
		text := strings.NewReplacer("%C", part[0], "%U", part[1]).Replace(frame)
		if _, err := pool.ParseKubeconfig([]byte(text)); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	good := strings.NewReplacer("%C", "", "%U", `"token": "a"`).Replace(frame)
	if _, err := pool.ParseKubeconfig([]byte(good)); err != nil {
		t.Errorf("a plugin of another user: %v", err)
	}
	for name, text := range map[string]string{
		"empty":       "",
		"no context":  `{"apiVersion": "v1", "kind": "Config"}`,
		"no server":   strings.Replace(good, `"server": "https://a"`, `"proxy-url": "https://a"`, 1),
		"other text":  "\x00",
		"no PEM":      strings.NewReplacer("%C", `, "certificate-authority-data": "YQ=="`, "%U", "").Replace(frame),
		"unix socket": strings.Replace(good, "https://a", "unix:///run/docker.sock", 1),
		"too long":    good + strings.Repeat(" ", 1<<20),
	} {
		if _, err := pool.ParseKubeconfig([]byte(text)); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}
