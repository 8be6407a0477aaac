package local

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	provisionerv1 "github.com/waybill-dev/waybill/api/provisioner/v1"
	"github.com/waybill-dev/waybill/internal/build"
)

// TestAWorkersBuildIsOfItsProject whatever its files claim: the project's people write them.
func TestAWorkersBuildIsOfItsProject(t *testing.T) {
	t.Parallel()
	source := &buildSource{name: "3f9c2ab", origin: "https://git.example.org/victim.git", unpacked: true}
	launch := func(project, url string) LaunchOptions {
		l := LaunchOptions{Path: "-",
			Launch: provisionerv1.Launch{CreateWorker: provisionerv1.CreateWorker{Instance: "waybill", Project: project}}}
		if url != "" {
			l.Repository = &provisionerv1.Repository{URL: url}
		}
		return l
	}
	owners := map[string]string{}
	for name, j := range map[string]struct {
		launch   LaunchOptions
		pipeline string
	}{
		"by hand": {}, "a pipeline's": {pipeline: "shop"}, "a worker's": {launch: launch("shop", "")},
		"another worker's": {launch: launch("tools", "")},
		"of a repository":  {launch: launch("shop", "https://git.example.org/shop.git")},
		"of another build": {launch: launch("shop", "https://git.example.org/tools.git")},
	} {
		owner := job{source: source, flags: Options{Launch: j.launch}}.cacheOwner(j.pipeline)
		if other, twice := owners[owner]; twice {
			t.Errorf("%s shares files with %s: %s", name, other, owner)
		}
		owners[owner] = name
	}
	if owners[source.origin] != "by hand" {
		t.Errorf("%v", owners)
	}
	flags := Options{ProjectID: "3", Launch: launch("3", "")}
	files := build.Variables{build.Texts(".wharf-vars.yml", map[string]string{"WHARF_INSTANCE": "other"})}
	choice := flags.choice(nil, "41", nil, files)
	for name, want := range map[string]string{"PROJECT_ID": "3", "WHARF_INSTANCE": "waybill"} {
		if got, ok := choice.Project.Lookup(name); !ok || got.Text != want {
			t.Errorf("%s is %v", name, got)
		}
	}
	if own := (Options{}).choice(nil, "41", nil, files).Project; own != nil {
		t.Errorf("by hand the files count: %v", own)
	}
}

// TestAWorkerIsGivenTheSecretsOfItsProject and of no other one that has the same user.
func TestAWorkerIsGivenTheSecretsOfItsProject(t *testing.T) {
	t.Parallel()
	b, dir := newBuilder(t, nil)
	for folder, value := range map[string]string{"": "of-all", "project-42": "of-42"} {
		if err := errors.Join(os.MkdirAll(filepath.Join(dir, folder), 0o700),
			os.WriteFile(filepath.Join(dir, folder, build.DefaultSecrets+".env"), []byte("TOKEN="+value), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	for project, want := range map[string]string{"": "of-all", "42": "of-42", "43": ""} {
		found, err := b.readSecrets(dir, project, build.DefaultSecrets)
		if err != nil || found["TOKEN"] != want {
			t.Errorf("project %q: %v, %v", project, found, err)
		}
	}
}

// TestALaunchSaysTheNumberOfItsProject by a field of its own, else by the name.
func TestALaunchSaysTheNumberOfItsProject(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{`"project": "shop", "projectId": "42"`: "42",
		`"project": "7", "projectId": "42"`: "42", `"project": "7"`: "7", `"project": "shop"`: ""} {
		file := filepath.Join(t.TempDir(), "launch.json")
		if err := os.WriteFile(file,
			[]byte(`{"buildId": 1, "instance": "waybill", "nonce": "0123456789abcdef", "snapshot": "sha256/x", "token": "`+
				strings.Repeat("t", shortestToken)+`", `+text+`}`), 0o600); err != nil {
			t.Fatal(err)
		}
		flags := Options{ResultsDir: t.TempDir(), Launch: LaunchOptions{Path: file}}
		b, _ := newBuilder(t, nil)
		if err := b.readLaunch("", &flags); err != nil || flags.ProjectID != want {
			t.Errorf("%s: %q, %v", text, flags.ProjectID, err)
		}
	}
}

// TestFilesOfABuildThatLeadOutsideAreNotRead by the process that has the worker's tokens.
func TestFilesOfABuildThatLeadOutsideAreNotRead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	root := filepath.Join(dir, "clone", "app")
	if err := errors.Join(os.MkdirAll(root, 0o700),
		os.WriteFile(filepath.Join(dir, "credentials"), []byte("https://ana:swordfish@git.example.org"), 0o600),
		os.WriteFile(filepath.Join(dir, "clone", "shared.yml"), nil, 0o600), os.Symlink("../shared.yml", filepath.Join(root, "inside.yml")),
		os.Symlink("../../credentials", filepath.Join(root, ".wharf-ci.yml")),
		os.Symlink(filepath.Join(dir, "credentials"), filepath.Join(root, ".wharf-vars.yml")),
		os.Symlink("../..", filepath.Join(root, "out")), os.Symlink("none", filepath.Join(root, "broken.yml"))); err != nil {
		t.Fatal(err)
	}
	worker := &buildSource{root: root, whole: filepath.Join(dir, "clone"), received: true}
	pipeline := &buildSource{root: root, unpacked: true}
	own := &buildSource{root: root}
	for name, refused := range map[string][3]bool{
		".wharf-ci.yml": {true, true, false}, ".wharf-vars.yml": {true, true, false}, "out/credentials": {true, true, false},
		"inside.yml": {false, true, false}, "broken.yml": {}, "none": {},
	} {
		for i, s := range []*buildSource{worker, pipeline, own} {
			if err := s.stays(filepath.Join(root, name)); (err != nil) != refused[i] {
				t.Errorf("%s of source %d: %v", name, i, err)
			}
		}
	}
	if err := worker.stays(filepath.Join(dir, "credentials")); err != nil {
		t.Errorf("a file of the user: %v", err)
	}
	if _, _, err := (&Builder{}).buildChoice(worker, Options{File: ".wharf-ci.yml"}, nil, "41"); err == nil ||
		!strings.Contains(err.Error(), ".wharf-ci.yml is a link") && !strings.Contains(err.Error(), ".wharf-vars.yml is a link") {
		t.Error(err)
	}
}
