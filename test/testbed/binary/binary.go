// Package binary builds the real systems that the tests talk to, from Go modules
// alone, once: a program is kept in the user's cache folder under a hash of all
// that decides its content (the module's files, the Go version, the flags), so
// that neither a change of the product nor another checkout builds it again.
//
// Each system is a module of its own below the testbed, because their
// requirements contradict each other.
package binary

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Binary is a program that can be built.
type Binary struct {
	Name    string // name of the program
	module  string // its module's folder below the testbed
	target  string // the package to build, as seen from there
	ldflags string
	tags    string // build tags, comma-separated
	cgo     bool   // it has C, so the build needs a C compiler
}

// Kube returns the binary that is etcd or the Kubernetes API server, by its first argument.
func Kube() Binary {
	const release, at = "1.36.3", " -X k8s.io/component-base/version."
	return Binary{
		Name: "kube", module: "kubernetes", target: ".",
		ldflags: "-s -w" + at + "gitVersion=v" + release + at + "gitMajor=1" + at + "gitMinor=36" + at + "gitTreeState=clean",
	}
}

// Argo returns the controller of Argo Workflows.
func Argo() Binary {
	return Binary{Name: "workflow-controller", module: "argo", target: ArgoModule + "/cmd/workflow-controller", ldflags: "-s -w"}
}

// ArgoModule is the module of Argo's controller and its resource definitions.
const ArgoModule = "github.com/argoproj/argo-workflows/v3"

// S3 returns an S3 server in front of a folder.
func S3() Binary {
	return Binary{Name: "versitygw", module: "s3", target: "github.com/versity/versitygw/cmd/versitygw", ldflags: "-s -w"}
}

// Modules of Flux's controllers and their resource definitions.
const (
	SourceModule    = "github.com/fluxcd/source-controller"
	KustomizeModule = "github.com/fluxcd/kustomize-controller"
	HelmModule      = "github.com/fluxcd/helm-controller"
)

// Flux returns the controller of Flux that is the main package of a module.
func Flux(module string) Binary {
	return Binary{Name: path.Base(module), module: "flux", target: module, ldflags: "-s -w"}
}

// GiteaModule is the module of Gitea, whose folder has the templates that it reads when it runs.
const GiteaModule = "code.gitea.io/gitea"

// Gitea returns a Git host with pull requests.
func Gitea() Binary {
	return Binary{Name: "gitea", module: "gitea", target: GiteaModule, ldflags: "-s -w", tags: "sqlite,sqlite_unlock_notify", cgo: true}
}

// KnativeModule is the module of Knative Eventing and its resource definitions; GatewayModule has those of the Gateway API.
const (
	KnativeModule = "knative.dev/eventing"
	GatewayModule = "sigs.k8s.io/gateway-api"
)

// Knative returns the program of Knative Eventing in a folder of its commands.
func Knative(command string) Binary {
	name := "knative-" + strings.ReplaceAll(path.Base(command), "_", "-")
	return Binary{Name: name, module: "knative", target: KnativeModule + "/cmd/" + command, ldflags: "-s -w"}
}

// KnativeCommands returns the folders of the commands that make channels and brokers work.
func KnativeCommands() []string {
	return []string{"controller", "mtchannel_broker", "broker/ingress", "broker/filter",
		"in_memory/channel_controller", "in_memory/channel_dispatcher"}
}

// All returns the binaries that the tests use.
func All() []Binary {
	all := append([]Binary{S3(), Argo()}, Promotion()...)
	for _, command := range KnativeCommands() {
		all = append(all, Knative(command))
	}
	return all
}

// Promotion returns the binaries that the worked example of promotion uses.
func Promotion() []Binary {
	return []Binary{Kube(), Gitea(), Flux(SourceModule), Flux(KustomizeModule), Flux(HelmModule)}
}

// Path returns the program's file. It builds the program when the cache has none,
// which takes minutes and is said on log; a second process waits for the first.
func (b Binary) Path(ctx context.Context, log io.Writer) (string, error) {
	cache, err := CacheDir()
	if err != nil {
		return "", err
	}
	key, err := b.key()
	if err != nil {
		return "", fmt.Errorf("hash the module of %s: %w", b.Name, err)
	}
	file := filepath.Join(cache, b.Name+"-"+key)
	if exists(file) {
		return file, nil
	}
	unlock, err := lock(ctx, filepath.Join(cache, b.Name+".lock"))
	if err != nil {
		return "", fmt.Errorf("wait for another build of %s: %w", b.Name, err)
	}
	defer unlock()
	if exists(file) {
		return file, nil
	}
	return file, b.build(ctx, log, file)
}

// build links into a file beside the last one: only a whole program gets its name.
func (b Binary) build(ctx context.Context, log io.Writer, file string) error {
	folder, err := b.folder()
	if err != nil {
		return err
	}
	started := time.Now()
	fmt.Fprintf(log, "testbed: building %s, once; this takes minutes\n", b.Name)
	part := file + ".part"
	defer os.Remove(part)
	build := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-trimpath", "-tags", b.tags, "-ldflags", b.ldflags, "-o", part,
		b.target)
	build.Dir, build.Stdout, build.Stderr = folder, log, log
	build.Env = append(os.Environ(), "CGO_ENABLED="+map[bool]string{false: "0", true: "1"}[b.cgo], "GOFLAGS=-mod=readonly", "GOWORK=off")
	// go build ends its compilers when it is interrupted, and leaves them running when it is
	// killed.
	build.Cancel = func() error { return build.Process.Signal(os.Interrupt) }
	build.WaitDelay = 10 * time.Second
	if err := build.Run(); err != nil {
		return fmt.Errorf("build %s: %w", b.Name, err)
	}
	if err := os.Rename(part, file); err != nil {
		return fmt.Errorf("build %s: %w", b.Name, err)
	}
	fmt.Fprintf(log, "testbed: built %s in %s\n", b.Name, time.Since(started).Round(time.Second))
	return nil
}

// ModuleDir returns the folder with the source of a module that the binary's module requires.
func (b Binary) ModuleDir(ctx context.Context, module string) (string, error) {
	folder, err := b.folder()
	if err != nil {
		return "", err
	}
	download := exec.CommandContext(ctx, "go", "mod", "download", "-json", module)
	download.Dir = folder
	download.Env = append(os.Environ(), "GOFLAGS=-mod=readonly", "GOWORK=off")
	out, err := download.Output()
	if err != nil {
		return "", fmt.Errorf("look up module %s: %w: %s", module, err, out)
	}
	var found struct{ Dir string }
	if err := json.Unmarshal(out, &found); err != nil {
		return "", fmt.Errorf("look up module %s: %w", module, err)
	}
	return found.Dir, nil
}

// CacheDir returns the folder in which built programs are kept: WAYBILL_TESTBED_CACHE, else
// waybill-testbed in the user's cache folder.
func CacheDir() (string, error) {
	folder := os.Getenv("WAYBILL_TESTBED_CACHE")
	if folder == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			return "", fmt.Errorf("find a folder to keep programs in (set WAYBILL_TESTBED_CACHE): %w", err)
		}
		folder = filepath.Join(cache, "waybill-testbed")
	}
	if !filepath.IsAbs(folder) {
		return "", fmt.Errorf("WAYBILL_TESTBED_CACHE is %q: give it an absolute path, since tests run in many folders", folder)
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return "", fmt.Errorf("make the folder that programs are kept in: %w", err)
	}
	return folder, nil
}

// Root returns the testbed's folder: the nearest one from the working directory upwards
// whose go.mod names it. Tests run in their package's folder, so this finds it.
func Root() (string, error) {
	folder, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find the testbed: %w", err)
	}
	for ; ; folder = filepath.Dir(folder) {
		content, err := os.ReadFile(filepath.Join(folder, "go.mod"))
		if err == nil && strings.HasPrefix(string(content), "module github.com/waybill-dev/waybill/test/testbed\n") {
			return folder, nil
		}
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return "", fmt.Errorf("find the testbed: %w", err)
		}
		if folder == filepath.Dir(folder) {
			return "", errors.New("find the testbed: run this inside test/testbed")
		}
	}
}

func (b Binary) folder() (string, error) {
	root, err := Root()
	return filepath.Join(root, b.module), err
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

// lock takes an exclusive lock that the kernel releases when this process dies.
func lock(ctx context.Context, path string) (unlock func(), err error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	again := time.NewTicker(200 * time.Millisecond)
	defer again.Stop()
	for {
		err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return func() { file.Close() }, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			file.Close()
			return nil, err
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			file.Close()
			return nil, context.Cause(ctx)
		}
	}
}
