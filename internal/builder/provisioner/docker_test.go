package provisioner_test

import (
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	provisionerv1 "github.com/waybill-dev/waybill/api/provisioner/v1"
	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/builder/provisioner"
	"github.com/waybill-dev/waybill/internal/docker"
	"github.com/waybill-dev/waybill/internal/fault"
)

// The behaviour of an Engine with these containers is tested in test/testbed/workers.

func dockerBackend(t *testing.T, edits ...func(*provisioner.DockerConfig)) *provisioner.Docker {
	t.Helper()
	engine, err := docker.Open("unix:///run/engine.sock")
	if err != nil {
		t.Fatal(err)
	}
	c := provisioner.DockerConfig{Engine: engine, Image: "waybill:1", Keys: keys, Log: slog.New(slog.DiscardHandler)}
	for _, edit := range edits {
		edit(&c)
	}
	d := provisioner.NewDocker(c)
	t.Cleanup(func() { _ = d.Close() })
	return d
}

func dockerLaunch() provisioner.Launch {
	return provisioner.Launch{Token: "k1.the-token", Key: 1, Digest: "digest-of-the-request", Trace: "the trace", CreateWorker: provisionerv1.CreateWorker{BuildID: 1 << 62, Instance: strings.Repeat("i", 100),
		Nonce: "a-nonce-of-this-build", Inputs: map[string]string{"password": "swordfish"}, Variables: map[string]string{"KEY": "swordfish"},
		Repository: &provisionerv1.Repository{URL: "https://example.org/shop.git", Commit: strings.Repeat("a", 40), Credential: "github"}}}
}

func TestAContainerShowsNoSecret(t *testing.T) {
	t.Parallel()
	d := dockerBackend(t)
	options := d.Options(dockerLaunch())
	text, err := json.Marshal(options)
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{"swordfish", "the-token", "digest-of-the-request", string(keys[0].Secret)} {
		if strings.Contains(string(text), secret) {
			t.Errorf("%q is shown: %s", secret, text)
		}
	}
	if host := options.Config.Hostname; len(host) > 63 || host == "" {
		t.Errorf("host name %q", host)
	}
	other := dockerLaunch()
	other.BuildID++
	if again := d.Options(other); again.Name == options.Name || again.Config.Hostname == options.Config.Hostname {
		t.Errorf("two workers are called %s on %s", again.Name, again.Config.Hostname)
	}
	if mounted := options.HostConfig.Mounts[2].Source; mounted != "/run/engine.sock" {
		t.Errorf("the socket is %s", mounted)
	}
}

// TestTheOwnerIsOfTheKey: provisioners with different keys on one Engine have different workers.
func TestTheOwnerIsOfTheKey(t *testing.T) {
	t.Parallel()
	owner := func(secret string) string {
		d := dockerBackend(t, func(c *provisioner.DockerConfig) { c.Keys = build.BuilderKeys{{Number: 1, Secret: []byte(secret)}} })
		return d.Options(dockerLaunch()).Config.Labels["dev.waybill.worker.owner"]
	}
	first, again, other := owner("0123456789abcdef"), owner("0123456789abcdef"), owner("0123456789abcdeg")
	if first != again || first == other {
		t.Errorf("%s, again %s, of another key %s", first, again, other)
	}
}

func TestWherePortsArePublished(t *testing.T) {
	t.Parallel()
	published := dockerBackend(t).Options(dockerLaunch()).HostConfig.PortBindings
	if len(published) != 1 {
		t.Errorf("ports: %+v", published)
	}
	for _, bindings := range published {
		if len(bindings) != 1 || bindings[0].HostIP.String() != "127.0.0.1" || bindings[0].HostPort != "" {
			t.Errorf("by default: %+v", bindings)
		}
	}
	inside := dockerBackend(t, func(c *provisioner.DockerConfig) { c.Network, c.Memory = "builds", 1<<20 }).Options(dockerLaunch()).HostConfig
	if len(inside.PortBindings) > 0 || inside.NetworkMode != "builds" || inside.Memory != 1<<20 || inside.MemorySwap != 1<<20 {
		t.Errorf("in a network: %+v", inside)
	}
}

func TestAWorkerInDockerIsGivenItsCredentials(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "credentials")
	if err := os.WriteFile(path, []byte("https://ana:swordfish@example.org\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	d := dockerBackend(t, func(c *provisioner.DockerConfig) {
		c.Credentials = map[string]string{"github": path, "gone": path + "x", "large": filepath.Join(filepath.Dir(path), "large")}
	})
	files, err := d.Files(t.Context(), dockerLaunch())
	var given provisionerv1.Launch
	if err == nil {
		err = json.Unmarshal(files["launch.json"], &given)
	}
	if err != nil || given.Token != "k1.the-token" || given.Trace != "the trace" ||
		given.Credentials != "/waybill/credentials" || !strings.Contains(string(files["credentials"]), "swordfish") {
		t.Errorf("%v\n%s", err, files)
	}
	if err := os.WriteFile(filepath.Join(filepath.Dir(path), "large"), make([]byte, 257<<10), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, code := range map[string]fault.Code{"unknown": fault.Invalid, "gone": fault.Unavailable, "large": fault.Invalid} {
		launch := dockerLaunch()
		launch.Repository.Credential = name
		if _, err := d.Files(t.Context(), launch); fault.CodeOf(err) != code {
			t.Errorf("%s: %v, want %s", name, err, code)
		}
	}
	launch := dockerLaunch()
	launch.Repository.Credential, launch.Repository.URL = "", "ext::sh -c x"
	if _, err := d.Files(t.Context(), launch); !fault.Is(err, fault.Invalid) {
		t.Errorf("a URL that is a command: %v", err)
	}
}

// TestAWorkerInDockerIsSentABundle, beside the credentials with which it clones.
func TestAWorkerInDockerIsSentABundle(t *testing.T) {
	t.Parallel()
	blobs, key := stored(t, "build/42/earlier/", someBytes(1000))
	d := dockerBackend(t, func(c *provisioner.DockerConfig) {
		c.Snapshots = &provisioner.Snapshots{Blobs: blobs, Log: slog.New(slog.DiscardHandler)}
	})
	launch := dockerLaunch()
	launch.Snapshot, launch.Repository = "", &provisionerv1.Repository{URL: "https://git.example.org/shop.git",
		Commit: strings.Repeat("a", 40)}
	launch.Earlier = &provisionerv1.Earlier{BuildID: 41, Bundle: key}
	if got := d.Options(launch).Config.Labels["dev.waybill.worker.snapshot"]; got != key {
		t.Errorf("the label is %q", got)
	}
	files, err := d.Files(t.Context(), launch)
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range files {
		var given provisionerv1.Launch
		if err := json.Unmarshal(content, &given); err != nil || given.Push == nil || given.Push.Size != 1000 || given.Repository == nil {
			t.Errorf("%s: %s, %v", name, content, err)
		}
	}
}

func TestTheNameHasTheTimeOfTheDeletion(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]time.Time{"/waybill-worker-shop-1": {},
		"/waybill-worker-shop-1.deleted-1764142000": time.Unix(1764142000, 0), "/x.deleted-y": {}} {
		if got := provisioner.DeletedAt(name); !got.Equal(want) {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

// TestAContainerKeepsTheKeyThatItWasMadeWith: its label names it, and readers make its token of that one.
func TestAContainerKeepsTheKeyThatItWasMadeWith(t *testing.T) {
	t.Parallel()
	launch := dockerLaunch()
	launch.Repository.Credential = ""
	labels := dockerBackend(t).Options(launch).Config.Labels // made by a provisioner that died before it gave the container its work
	status, given := "created", ""
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch action := path.Base(r.URL.Path); {
		case action == "_ping":
			w.Header().Set("Api-Version", "1.47")
		case r.Method == http.MethodPut && action == "archive":
			text, _ := io.ReadAll(r.Body)
			given = string(text)
		case action == "start":
			status = "running"
			w.WriteHeader(http.StatusNoContent)
		default:
			one := map[string]any{"Id": "c1", "Name": "/w", "Config": map[string]any{"Labels": labels},
				"State": map[string]any{"Status": status, "Running": status == "running"}}
			if r.URL.Query().Has("filters") {
				_ = json.NewEncoder(w).Encode([]any{map[string]any{"Id": "c1"}})
				return
			}
			_ = json.NewEncoder(w).Encode(one)
		}
	}))
	defer engine.Close()
	opened, err := docker.Open("tcp://" + strings.TrimPrefix(engine.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	launch.Keys = append(build.BuilderKeys{{Number: 2, Secret: []byte("fedcba9876543210")}}, keys...)
	d := dockerBackend(t, func(c *provisioner.DockerConfig) { c.Engine, c.Keys = opened, launch.Keys })
	launch.Key, launch.Token = 2, "k2.the-token"
	if w, _, err := d.Create(t.Context(), launch); err != nil || w.Key != 1 {
		t.Errorf("%+v, %v", w, err)
	}
	if want := keys[0].WorkerToken(launch.Instance, launch.BuildID, launch.Nonce); !strings.Contains(given, want) ||
		strings.Contains(given, "k2.") {
		t.Errorf("want the token %s: %q", want, given)
	}
}

// TestAnEngineThatIsAwayIsUnavailable: a build then waits.
func TestAnEngineThatIsAwayIsUnavailable(t *testing.T) {
	t.Parallel()
	d := dockerBackend(t)
	launch := dockerLaunch()
	launch.Repository.Credential = ""
	_, _, err := d.Create(t.Context(), launch)
	_, listErr := d.List(t.Context())
	for _, err := range []error{err, listErr, d.Delete(t.Context(), "0123456789ab", true)} {
		if !fault.Is(err, fault.Unavailable) {
			t.Error(err)
		}
	}
}
