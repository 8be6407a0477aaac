package kube

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/internal/fault"
)

func TestAnExcerptHasOneContextAndNoFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{"ca.pem": "the authority", "token": "hunter22\n", "config": `apiVersion: v1
kind: Config
current-context: prod
contexts:
- {name: dev, context: {cluster: dev, user: ana, namespace: shop}}
- {name: prod, context: {cluster: prod, user: root}}
clusters:
- {name: dev, cluster: {server: "https://dev.example.net:6443", certificate-authority: ca.pem}}
- {name: prod, cluster: {server: "https://prod.example.net"}}
users:
- {name: ana, user: {tokenFile: token}}
- {name: root, user: {token: s3cr3t}}
`} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	text, server, err := Excerpt(filepath.Join(dir, "config"), "dev")
	if err != nil || server != "https://dev.example.net:6443" {
		t.Fatalf("%q, %v", server, err)
	}
	for _, part := range []string{"current-context: dev", "certificate-authority-data: dGhlIGF1dGhvcml0eQ==",
		"token: hunter22", "namespace: shop"} {
		if !strings.Contains(string(text), part) {
			t.Errorf("%q is missing in\n%s", part, text)
		}
	}
	for _, part := range []string{"prod", "s3cr3t", dir} {
		if strings.Contains(string(text), part) {
			t.Errorf("%q is in\n%s", part, text)
		}
	}
	if _, _, err := Excerpt(filepath.Join(dir, "config"), "stage"); !fault.Is(err, fault.Invalid) {
		t.Errorf("a context that is not there: %v", err)
	}
	if _, server, err := Excerpt(filepath.Join(dir, "config"), ""); err != nil || server != "https://prod.example.net" {
		t.Errorf("the current context: %q, %v", server, err)
	}
}
