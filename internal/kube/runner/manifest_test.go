package runner

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/build"
)

// fullStep has all that a step can have.
func fullStep() build.Run {
	return build.Run{Build: "7/é", Attempt: 2, Trace: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", Environ: []string{
		"TOKEN=hunter22"}, Step: build.PlanStep{
		ID: 3, Stage: "test", Name: "Unit (go=1.26)", Type: "container", Timeout: time.Minute,
		Spec: build.Spec{Step: "test/unit", Image: "golang:1.26", OS: "linux",
			Argv: []string{"/bin/sh", "-c", "echo hunter22 $(pwd)"}, Secret: true,
			Environ: []string{"PLAIN=$(x)"},
			Services: []build.Service{{Name: "db", Image: "postgres@sha256:00",
				Argv: []string{"postgres", "-c", "fsync=off"}, Environ: []string{"A=b"}, Ports: []int{5432}, Ready: time.Minute}},
			Limits:   build.Resources{CPU: 50, Memory: 1 << 30},
			Requests: build.Resources{Memory: 64 << 20, Storage: 1 << 30},
			Mounts: []build.Mount{{Path: "/certs", Kind: build.MountConfigMap, Object: "ca"},
				{Path: "/root/.docker", Kind: build.MountSecret, Object: "registry", Key: ".dockerconfigjson", Name: "config.json"}},
			Secrets:        []build.SecretKeys{{Object: "project"}, {Object: "nuget", Key: "token", Name: "NUGET"}},
			ServiceAccount: "deployer", Token: true,
		},
	}}
}

func fullManifest() manifest {
	run := fullStep()
	return manifest{Config: Config{ShimImage: "waybill:1", Grace: 10 * time.Second, Silence: 10 * time.Minute,
		Owner: &Owner{"worker", "uid-1"}},
		run: run, name: podName(run.Step, "x"), namespace: "builds", runs: "abc"}
}

// TestTheManifest compares the whole pod with testdata/pod.json.
func TestTheManifest(t *testing.T) {
	t.Parallel()
	got, err := json.MarshalIndent(fullManifest().pod(), "", " ")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join("testdata", "pod.json")
	if os.Getenv("REWRITE") != "" {
		if err := os.WriteFile(path, append(got, '\n'), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)+"\n"); diff != "" {
		t.Errorf("got (+), want (-):\n%s", diff)
	}
}

// TestSecretsAreOnlyInTheSecret: pods can be read by many.
func TestSecretsAreOnlyInTheSecret(t *testing.T) {
	t.Parallel()
	m := fullManifest()
	pod, err := json.Marshal(m.pod())
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(pod), "hunter22") {
		t.Errorf("the pod has a secret: %s", pod)
	}
	data := m.secret("uid-2", "the token")["stringData"].(object)
	want := object{"token": "the token", "commands": "echo hunter22 $(pwd)", "environ.TOKEN": "hunter22"}
	if diff := cmp.Diff(want, data); diff != "" {
		t.Error(diff)
	}
}

// TestTextsAreVerbatim: Kubernetes reads $$ as $, and $(NAME) as the value of a variable.
func TestTextsAreVerbatim(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{"echo $$ $(x) $y": "echo $$$$ $$(x) $$y", `"; touch x`: `"; touch x`, "$": "$$"} {
		if got := verbatim(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

func TestPodsHaveNamesOfTheirOwn(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"unit": "wharf-build-container-unit-", "Unit (go=1.26, db=pg)": "wharf-build-container-unit-go-1-26-db-pg-",
		strings.Repeat("long", 20): "wharf-build-container-longlonglonglonglon-", "é": "wharf-build-container-",
	} {
		step := build.PlanStep{Type: "container", Name: name}
		got := podName(step, "run", "7", "1", "1")
		if !strings.HasPrefix(got, want) || len(got) != len(want)+8 || len(got) > 50 {
			t.Errorf("%q: %q", name, got)
		}
		if again := podName(step, "run", "7", "1", "1"); again != got {
			t.Errorf("%q: at the second time %q", name, again)
		}
		for _, key := range [][]string{{"run", "7", "1", "2"}, {"other", "7", "1", "1"}, {"run", "71", "", "1"}} {
			if podName(step, key...) == got {
				t.Errorf("%q: also the name of %q", name, key)
			}
		}
	}
}

func TestLabelsAreValid(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{"7": "7", "a/b é.": "a-b", "": "", "--x--": "x",
		strings.Repeat("y", 90): strings.Repeat("y", 63)} {
		if got := label(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

func TestImagesArePulled(t *testing.T) {
	t.Parallel()
	m := fullManifest()
	for image, want := range map[string]string{"golang:1.26": "Always", "golang@sha256:00": "IfNotPresent", "waybill:1": "IfNotPresent"} {
		if got := m.pull(image); got != want {
			t.Errorf("%s: %s", image, got)
		}
	}
	m.PullPolicy = "Never"
	if got := m.pull("golang"); got != "Never" {
		t.Errorf("with a policy: %s", got)
	}
}

func TestTheOwner(t *testing.T) {
	t.Parallel()
	env := func(pairs ...string) func(string) string {
		return func(name string) string {
			for i := 0; i < len(pairs); i += 2 {
				if "WHARF_KUBERNETES_OWNER_"+pairs[i] == name {
					return pairs[i+1]
				}
			}
			return ""
		}
	}
	for _, none := range []func(string) string{env(), env("ENABLE", "false", "NAME", "w")} {
		if owner, err := OwnerFrom(none); owner != nil || err != nil {
			t.Errorf("got %v, %v", owner, err)
		}
	}
	if owner, err := OwnerFrom(env("ENABLE", "true", "NAME", "w", "UID", "u")); err != nil || *owner != (Owner{"w", "u"}) {
		t.Errorf("got %v, %v", owner, err)
	}
	for _, wrong := range []func(string) string{env("ENABLE", "true", "NAME", "w"), env("ENABLE", "true", "UID", "u"), env("ENABLE", "yes")} {
		if _, err := OwnerFrom(wrong); err == nil || !strings.Contains(err.Error(), "WHARF_KUBERNETES_OWNER_") {
			t.Errorf("got %v", err)
		}
	}
}

// TestABuilderOfImagesIsNotConfined: BuildKit without root makes namespaces, which seccomp and AppArmor forbid. A client of one that runs
// elsewhere does not.
func TestABuilderOfImagesIsNotConfined(t *testing.T) {
	t.Parallel()
	m := fullManifest()
	for address, want := range map[string]bool{"": true, "tcp://buildkit:1234": false} {
		m.run.Step.Spec.Build = &build.ImageBuild{Address: address}
		if _, got := m.step()["securityContext"]; got != want {
			t.Errorf("BuildKit at %q: a security context of its own: %t", address, got)
		}
	}
	m.run.Step.Spec.Build = nil
	if _, got := m.step()["securityContext"]; got {
		t.Error("a step that builds no image has a security context")
	}
}
