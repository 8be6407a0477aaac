package command

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/build"
)

// program writes a script into a folder.
func program(t *testing.T, folder, name, script string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(folder, name), []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil { //nolint:gosec // it is run
		t.Fatal(err)
	}
}

// TestCheckAsksWhetherBuildKitAnswers: a client without a server is found before anything starts.
func TestCheckAsksWhetherBuildKitAnswers(t *testing.T) {
	folder := t.TempDir()
	t.Setenv("PATH", folder)
	step := build.PlanStep{Stage: "s", Name: "a",
		Spec: build.Spec{Argv: []string{build.BuildKitCommand, "build"}, Tools: []string{build.BuildKitClient}, Build: &build.ImageBuild{}}}
	check := func() string {
		return (&Runner{}).Check(t.Context(), []build.PlanStep{step}).Error()
	}
	if diff := cmp.Diff("s/a: program buildctl not found on this computer", check()); diff != "" {
		t.Error(diff)
	}
	program(t, folder, build.BuildKitClient, `if [ "$*" = "debug workers" ]; then echo "no such host" >&2; exit 1; fi`)
	if got := check(); !strings.Contains(got,
		"s/a: BuildKit does not answer: exit status 1: \"no such host\"; start buildkitd, and name its address in BUILDKIT_HOST") {
		t.Error(got)
	}
	program(t, folder, build.BuildKitClient, `[ "$*" = "debug workers" ]`)
	if got := check(); got != "" {
		t.Error(got)
	}
	step.Spec.Build.SecretArgs = []build.SecretArg{{Name: "A", Variable: "B"}}
	if got := check(); !strings.Contains(got, "secretArgs among its arguments") {
		t.Error(got)
	}
}

// TestVariablesOfMounts: a variable has the path that the files have on this computer, and is left out without them.
func TestVariablesOfMounts(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	spec := build.Spec{Environ: []string{"A=b", "KUBECONFIG=/root/.kube/config", "DOCKER_CONFIG=/mnt/docker",
		"SSL_CERT_DIR=/mnt/c"}, Mounts: []build.Mount{
		{Path: "/root/.kube", Object: "dev", Variable: build.KubeconfigVariable},
		{Path: "/mnt/docker", Kind: build.MountSecret, Object: "s", Variable: "DOCKER_CONFIG"},
		{Path: "/mnt/c", Object: build.CertificatesObject, Variable: "SSL_CERT_DIR"}, {Path: "/mnt/x", Object: "x"}}}
	r := &Runner{Clusters: map[string]Cluster{"dev": {Kubeconfig: "/k", Context: "a \"b\""}}, Certificates: "/certificates"}
	got, err := r.specEnvironment(spec, folder)
	if diff := cmp.Diff([]string{"A=b", "KUBECONFIG=" + folder + "/kubeconfig:/k", "SSL_CERT_DIR=/certificates"},
		got); diff != "" || err != nil {
		t.Error(diff, err)
	}
	text, err := os.ReadFile(filepath.Join(folder, "kubeconfig"))
	if diff := cmp.Diff("apiVersion: v1\nkind: Config\ncurrent-context: \"a \\\"b\\\"\"\n", string(text)); diff != "" || err != nil {
		t.Error(diff, err)
	}
	r.Clusters["dev"] = Cluster{Kubeconfig: "/k"}
	r.Certificates = ""
	got, err = r.specEnvironment(spec, folder)
	if diff := cmp.Diff([]string{"A=b", "KUBECONFIG=/k"}, got); diff != "" || err != nil {
		t.Error(diff, err)
	}
	r.Clusters["dev"] = Cluster{Kubeconfig: "/k", Context: "c"}
	if _, err := r.specEnvironment(spec, filepath.Join(folder, "nowhere")); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}
